//! Modelfiles: the text from which Ollama creates models (parser/parser.go of Ollama fb307609).

use std::fmt;
use std::path::Path;

use crate::bytes::{Access, Source};
use crate::error::{Error, Result};
use crate::limits::Limits;

/// An instruction of a Modelfile.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Instruction {
    /// `FROM`: a model's name, a file or a directory.
    From(String),
    /// `ADAPTER`: the file of a LoRA adapter.
    Adapter(String),
    /// `DRAFT`: a draft model, a file or a directory.
    Draft(String),
    /// `TEMPLATE`: the prompt template, in Go's template language.
    Template(String),
    /// `SYSTEM`: the system prompt.
    System(String),
    /// `LICENSE`: the text of a license.
    License(String),
    /// `RENDERER`: one of Ollama's renderers of prompts.
    Renderer(String),
    /// `PARSER`: one of Ollama's parsers of answers.
    Parser(String),
    /// `REQUIRES`: the oldest version of Ollama that runs the model.
    Requires(String),
    /// `PARAMETER`: a parameter's name and value.
    Parameter(String, String),
    /// `MESSAGE`: the role of a message (`system`, `user` or `assistant`) and its text.
    Message(String, String),
}

/// A parsed Modelfile.
///
/// ```
/// use weighbridge::ollama::{Instruction, Modelfile};
///
/// let file = Modelfile::parse(b"FROM ./model.gguf\nPARAMETER stop \"<end> \"\n# a comment\n")?;
/// let stop = Instruction::Parameter("stop".to_owned(), "<end> ".to_owned());
/// assert_eq!(file.instructions[1], stop);
/// assert_eq!(file.to_string(), "FROM ./model.gguf\nPARAMETER stop \"<end> \"\n");
/// # Ok::<(), weighbridge::Error>(())
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Modelfile {
    /// The instructions, in order.
    pub instructions: Vec<Instruction>,
}

/// The instructions with one argument.
type Simple = (&'static str, fn(String) -> Instruction);

static SIMPLE: &[Simple] = &[
    ("from", Instruction::From),
    ("adapter", Instruction::Adapter),
    ("draft", Instruction::Draft),
    ("template", Instruction::Template),
    ("system", Instruction::System),
    ("license", Instruction::License),
    ("renderer", Instruction::Renderer),
    ("parser", Instruction::Parser),
    ("requires", Instruction::Requires),
];

const ROLES: [&str; 3] = ["system", "user", "assistant"];

impl Modelfile {
    /// Reads and [parses](Self::parse) a file.
    ///
    /// # Errors
    ///
    /// Same as [`parse`](Self::parse); `LimitExceeded`; `NotFound` and `Io` if the file cannot be
    /// read.
    pub fn read(path: &Path) -> Result<Self> {
        let source = Source::open(path, Access::Read)?;
        let limit = Limits::default().document_bytes;
        if source.len() > limit {
            let error = Error::limit("bytes of text", source.len(), limit, "document_bytes");
            return Err(error.in_file(path));
        }
        Self::parse(&source.bytes(0..source.len())?).map_err(|error| error.in_file(path))
    }

    /// Parses a Modelfile: UTF-8, or UTF-16 with a byte order mark.
    ///
    /// The words of instructions may be in upper or lower case. A value ends with its line unless a
    /// quotation mark (`"` or `"""`) is open. Characters that cannot be printed are dropped, except
    /// spaces, tabs, and line breaks within quotation marks.
    ///
    /// # Errors
    ///
    /// `Malformed`, with the number of the line: for an unknown instruction or role, for a value
    /// whose quotation mark is never closed, and for a file without `FROM`.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let text = decoded(bytes);
        let mut lines = Lines { rest: &text, line: 1 };
        let mut instructions = Vec::new();
        while let Some(instruction) = lines.instruction()? {
            instructions.push(instruction);
        }
        match instructions.iter().any(|found| matches!(found, Instruction::From(_))) {
            true => Ok(Self { instructions }),
            false => Err(Error::malformed("the Modelfile has no FROM line")),
        }
    }
}

/// The text that is not parsed yet.
struct Lines<'t> {
    rest: &'t str,
    /// The number of its first line.
    line: usize,
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r')
}

impl<'t> Lines<'t> {
    fn instruction(&mut self) -> Result<Option<Instruction>> {
        loop {
            self.skip(|c| is_space(c) || is_break(c));
            match self.rest.starts_with('#') {
                true => self.skip(|c| !is_break(c)),
                false => break,
            }
        }
        if self.rest.is_empty() {
            return Ok(None);
        }
        let line = self.line;
        let here =
            |fault: String| Error::malformed(format!("line {line} of the Modelfile: {fault}"));
        let word = self.word(|c| c.is_ascii_alphabetic()).to_ascii_lowercase();
        let known = SIMPLE.iter().find(|row| row.0 == word);
        let known = known.filter(|_| self.rest.starts_with(is_space));
        if let Some((_, make)) = known {
            return Ok(Some(make(self.value().map_err(here)?)));
        }
        let named = |lines: &mut Self, allowed: fn(char) -> bool| {
            lines.take_one();
            let name = lines.word(allowed);
            let ended = lines.rest.starts_with(is_space) && !name.is_empty();
            ended.then(|| name.to_owned())
        };
        match word.as_str() {
            "parameter" if self.rest.starts_with(is_space) => {
                let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let name = named(self, allowed).ok_or_else(|| {
                    here("PARAMETER is followed by a name and a value".to_owned())
                })?;
                Ok(Some(Instruction::Parameter(name, self.value().map_err(here)?)))
            }
            "message" if self.rest.starts_with(is_space) => {
                let role = named(self, |c| c.is_ascii_alphabetic());
                let role = role.filter(|role| ROLES.contains(&role.as_str())).ok_or_else(|| {
                    here(format!("MESSAGE is followed by a role ({}) and a text", ROLES.join(", ")))
                })?;
                Ok(Some(Instruction::Message(role, self.value().map_err(here)?)))
            }
            _ => {
                let words = SIMPLE.iter().map(|row| row.0.to_ascii_uppercase());
                let words: Vec<String> = words.collect();
                let shown: String = word.chars().take(40).collect();
                Err(here(format!(
                    "\"{shown}\" is not one of {}, PARAMETER and MESSAGE, with a value",
                    words.join(", ")
                )))
            }
        }
    }

    /// The rest of the line, or what the quotation marks enclose.
    fn value(&mut self) -> Result<String, String> {
        let mut value = String::new();
        while let Some(c) = self.rest.chars().next() {
            if is_break(c) && unquoted(&value).is_some() {
                break;
            }
            self.take_one();
            if is_space(c) || is_break(c) || is_printable(c) {
                value.push(c);
            }
        }
        let unquoted = unquoted(&value).map(str::to_owned);
        unquoted.ok_or_else(|| "its quotation mark is never closed".to_owned())
    }

    fn take_one(&mut self) {
        let mut chars = self.rest.chars();
        let first = chars.next();
        self.rest = chars.as_str();
        // Two characters may break one line.
        if first == Some('\n') || first == Some('\r') && !self.rest.starts_with('\n') {
            self.line += 1;
        }
    }

    fn skip(&mut self, skipped: impl Fn(char) -> bool) {
        while self.rest.starts_with(&skipped) {
            self.take_one();
        }
    }

    fn word(&mut self, allowed: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(|c| !allowed(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        word
    }
}

/// A value without white space around it and without its quotation marks; `None` if a quotation
/// mark is open.
fn unquoted(value: &str) -> Option<&str> {
    let value = value.trim();
    for marks in ["\"\"\"", "\""] {
        if let Some(rest) = value.strip_prefix(marks) {
            return rest.strip_suffix(marks);
        }
    }
    Some(value)
}

/// Whether Go's `strconv.IsPrint` accepts a character, as far as the character's block tells.
fn is_printable(c: char) -> bool {
    let hidden = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{e000}'..='\u{f8ff}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..);
    c == ' ' || !(c.is_control() || c.is_whitespace() || hidden)
}

/// The text of a file: a byte order mark decides between UTF-8 and UTF-16.
fn decoded(bytes: &[u8]) -> String {
    let wide = |bytes: &[u8], number: fn([u8; 2]) -> u16| {
        let (pairs, _) = bytes.as_chunks::<2>();
        String::from_utf16_lossy(&pairs.iter().map(|pair| number(*pair)).collect::<Vec<_>>())
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] | rest => String::from_utf8_lossy(rest).into_owned(),
    }
}

/// Puts a value into quotation marks where reading it again requires them.
fn quoted(value: &str) -> String {
    let edge = value.trim() != value || value.starts_with('"');
    match edge || value.contains(['\n', '\r']) {
        true if value.contains('"') => format!("\"\"\"{value}\"\"\""),
        true => format!("\"{value}\""),
        false => value.to_owned(),
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::From(from) => write!(f, "FROM {from}"),
            Self::Adapter(path) => write!(f, "ADAPTER {}", quoted(path)),
            Self::Draft(path) => write!(f, "DRAFT {}", quoted(path)),
            Self::Template(text) => write!(f, "TEMPLATE {}", quoted(text)),
            Self::System(text) => write!(f, "SYSTEM {}", quoted(text)),
            Self::License(text) => write!(f, "LICENSE {}", quoted(text)),
            Self::Renderer(name) => write!(f, "RENDERER {}", quoted(name)),
            Self::Parser(name) => write!(f, "PARSER {}", quoted(name)),
            Self::Requires(version) => write!(f, "REQUIRES {}", quoted(version)),
            Self::Parameter(name, value) => write!(f, "PARAMETER {name} {}", quoted(value)),
            Self::Message(role, text) => write!(f, "MESSAGE {role} {}", quoted(text)),
        }
    }
}

impl fmt::Display for Modelfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.instructions.iter().try_for_each(|instruction| writeln!(f, "{instruction}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        match Modelfile::parse(text.as_bytes()) {
            Ok(file) => format!("{:?}", file.instructions),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn values_as_ollama_reads_them() {
        insta::assert_snapshot!(parsed("FROM llama3\n"), @r#"[From("llama3")]"#);
        insta::assert_snapshot!(parsed("from  ./a b.gguf  \r\nSYSTEM \"\"\"\nYou are\r\n\"me\".\n\"\"\"\nSystem hi"), @r#"[From("./a b.gguf"), System("\nYou are\r\n\"me\".\n"), System("hi")]"#);
        insta::assert_snapshot!(parsed("# note\n  FROM x\nPARAMETER stop \"</s> \"\nPARAMETER Num_Ctx 4096"), @r#"[From("x"), Parameter("stop", "</s> "), Parameter("Num_Ctx", "4096")]"#);
        insta::assert_snapshot!(parsed("FROM x\nMESSAGE user Is it: so?\nMESSAGE assistant \"yes\n\nno\""), @r#"[From("x"), Message("user", "Is it: so?"), Message("assistant", "yes\n\nno")]"#);
        insta::assert_snapshot!(parsed("FROM x\nTEMPLATE {{ .Prompt }}\u{7} \u{e9}\u{a0}\u{200b}!"), @r#"[From("x"), Template("{{ .Prompt }} é!")]"#);
        insta::assert_snapshot!(parsed("FROM x\nSYSTEM \nLICENSE \"\""), @r#"[From("x"), System(""), License("")]"#);
        insta::assert_snapshot!(parsed("FROM x\nSYSTEM say \"hi\" to me"), @r#"[From("x"), System("say \"hi\" to me")]"#);
    }

    #[test]
    fn faults() {
        insta::assert_snapshot!(parsed("PARAMETER seed 1\n"), @"the Modelfile has no FROM line");
        insta::assert_snapshot!(parsed("FROM x\n\nEMBED y\n"), @r#"line 3 of the Modelfile: "embed" is not one of FROM, ADAPTER, DRAFT, TEMPLATE, SYSTEM, LICENSE, RENDERER, PARSER, REQUIRES, PARAMETER and MESSAGE, with a value"#);
        insta::assert_snapshot!(parsed("FROM\n"), @r#"line 1 of the Modelfile: "from" is not one of FROM, ADAPTER, DRAFT, TEMPLATE, SYSTEM, LICENSE, RENDERER, PARSER, REQUIRES, PARAMETER and MESSAGE, with a value"#);
        insta::assert_snapshot!(parsed("FROM x\nMESSAGE tool hi"), @"line 2 of the Modelfile: MESSAGE is followed by a role (system, user, assistant) and a text");
        insta::assert_snapshot!(parsed("FROM x\nPARAMETER top-k 1"), @"line 2 of the Modelfile: PARAMETER is followed by a name and a value");
        insta::assert_snapshot!(parsed("FROM x\nSYSTEM \"\"\"open\n\"\n"), @"line 2 of the Modelfile: its quotation mark is never closed");
        insta::assert_snapshot!(parsed(""), @"the Modelfile has no FROM line");
    }

    #[test]
    fn byte_order_marks() {
        let wide = |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
            "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(bytes).collect()
        };
        let plain = Modelfile::parse(b"FROM \xc3\xa9").unwrap();
        for bytes in [
            wide("FROM \u{e9}", u16::to_le_bytes),
            wide("FROM \u{e9}", u16::to_be_bytes),
            "\u{feff}FROM \u{e9}".into(),
        ] {
            assert_eq!(Modelfile::parse(&bytes).unwrap(), plain);
        }
    }

    /// Whatever a value contains, the written Modelfile is read as the same one.
    #[test]
    fn written_files_are_read_again() {
        for value in ["a", " a", "a\nb", "\"a\"", "\n\"a\"\n", "\"", "a \"b\" c", "", "\t"] {
            let instructions = vec![
                Instruction::From("x".to_owned()),
                Instruction::System(value.to_owned()),
                Instruction::Message("user".to_owned(), value.to_owned()),
            ];
            let file = Modelfile { instructions };
            let again = Modelfile::parse(file.to_string().as_bytes()).unwrap();
            assert_eq!(again, file, "{file}");
        }
    }
}
