//! `tokens`: the tokens of a text, the text of tokens, and the special tokens.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use serde::Serialize;
use weighbridge::bytes::Text;
use weighbridge::tokenizer::{TokenKind, Tokenizer};
use weighbridge::{Error, ErrorKind, Model};
use weighbridge_reference::TextTokens;

use super::Done;
use crate::args::run::Tokens;
use crate::json::{self, SCHEMA};
use crate::print::{self, Table, left, plural, right};
use crate::{Status, Stop, failure, note, remark};

#[derive(Serialize)]
struct Report {
    schema: u32,
    path: String,
    texts: Vec<TextReport>,
    /// Without texts and numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    special: Vec<SpecialReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

#[derive(Serialize)]
struct TextReport {
    text: String,
    tokens: Vec<TokenReport>,
}

#[derive(Serialize)]
struct TokenReport {
    id: u32,
    /// The token as the vocabulary spells it.
    token: String,
    /// The bytes of the text that the token stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<usize>,
    special: bool,
}

/// A special token.
#[derive(Serialize)]
struct SpecialReport {
    id: u32,
    /// The token as the vocabulary spells it.
    token: String,
    /// Its purposes, such as bos and eos.
    purposes: Vec<String>,
}

/// Whether standard input is a pipe or a file. Reading it unasked could take the input of a script.
fn is_piped() -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let input = std::fs::metadata("/dev/stdin");
        input.is_ok_and(|found| found.is_file() || found.file_type().is_fifo())
    }
    #[cfg(not(unix))]
    {
        false
    }
}

pub(crate) fn run(args: &Tokens) -> Done {
    // The tokenizer is in the folder of its file; weights are not needed.
    let path = match args.path.file_name().and_then(|name| name.to_str()) {
        Some("tokenizer.json" | "tokenizer.model") => args.path.parent().unwrap_or(&args.path),
        _ => &args.path,
    };
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let model = args.open.options().partial(true).open(path)?;
    remark(&model);
    let (texts, special) = match (args.ids.as_slice(), args.text.as_slice()) {
        ([], []) => {
            if is_piped() {
                note("standard input is not read: `--text -` splits the text on it");
            }
            (Vec::new(), special(&model)?)
        }
        ([], texts) => (of_texts(&model, texts, args.no_bos)?, Vec::new()),
        (ids, _) => (vec![of_ids(&model, ids)?], Vec::new()),
    };
    if args.json {
        let path = args.path.display().to_string();
        json::write(&Report {
            schema: SCHEMA,
            path,
            texts,
            special,
            notes: failure::take_notes(),
        })?;
        return Ok(Status::Fine);
    }
    let mut out = print::stdout();
    if !special.is_empty() {
        let mut table = Table::new(&[right("ID"), left("TOKEN"), left("PURPOSE")]);
        for SpecialReport { id, token, purposes } in &special {
            let token = Text::new(token.as_bytes()).brief();
            table.row([id.to_string(), token, purposes.join(", ")]);
        }
        table.write(&mut out)?;
    }
    for text in &texts {
        if args.print_ids {
            let ids: Vec<String> = text.tokens.iter().map(|token| token.id.to_string()).collect();
            writeln!(out, "{}", ids.join(","))?;
            continue;
        }
        if !args.ids.is_empty() {
            writeln!(out, "{}", text.text)?;
            continue;
        }
        let mut table = Table::new(&[right("ID"), right("BYTES"), left("TOKEN"), left("KIND")]);
        for token in &text.tokens {
            let (start, end) = (token.start.unwrap_or(0), token.end.unwrap_or(0));
            table.row([
                token.id.to_string(),
                format!("{start}..{end}"),
                Text::new(token.token.as_bytes()).brief(),
                if token.special { "special" } else { "" }.to_owned(),
            ]);
        }
        table.write(&mut out)?;
        writeln!(out, "{}", plural(text.tokens.len(), "token"))?;
    }
    out.flush()?;
    Ok(Status::Fine)
}

/// The tokens that have a purpose, and those that stand for no text.
fn special(model: &Model) -> Result<Vec<SpecialReport>, Stop> {
    let tokenizer = tokenizer(model)?;
    let report = |token: weighbridge::tokenizer::Token<'_>| {
        let purposes = tokenizer.special.iter().filter(|(_, id)| id.value == token.id);
        let purposes: Vec<String> = purposes.map(|(name, _)| name.clone()).collect();
        (is_special(&token) || !purposes.is_empty()).then(|| SpecialReport {
            id: token.id,
            token: String::from_utf8_lossy(&token.text).into_owned(),
            purposes,
        })
    };
    let special: Vec<SpecialReport> = tokenizer.tokens().filter_map(report).collect();
    if special.is_empty() {
        note("no token of the vocabulary is special");
    }
    Ok(special)
}

fn is_special(token: &weighbridge::tokenizer::Token<'_>) -> bool {
    matches!(token.kind, Some(TokenKind::Control | TokenKind::Unknown))
}

fn tokenizer(model: &Model) -> Result<Tokenizer<'_>, Stop> {
    Ok(model.tokenizer()?.ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, "the model has no tokenizer").in_file(model.path())
    })?)
}

/// The tokens of texts; `bare` leaves out those that the tokenizer puts around them.
fn of_texts(model: &Model, texts: &[String], bare: bool) -> Result<Vec<TextReport>, Stop> {
    let tokens = TextTokens::new(model)?;
    let mut found: Vec<_> =
        texts.iter().map(|text| tokens.spans(text)).collect::<Result<_, _>>()?;
    if bare {
        found.iter_mut().for_each(|tokens| {
            tokens.retain(|token| !(token.special && token.range.is_empty()));
        });
    }
    let spelled =
        spelled(model, &found.iter().flatten().map(|token| token.id).collect::<Vec<_>>())?;
    let report = |(text, tokens): (&String, Vec<weighbridge_reference::TextToken>)| TextReport {
        text: text.clone(),
        tokens: tokens
            .into_iter()
            .map(|token| TokenReport {
                id: token.id,
                token: spelled.get(&token.id).map(|(text, _)| text.clone()).unwrap_or_default(),
                start: Some(token.range.start),
                end: Some(token.range.end),
                special: token.special,
            })
            .collect(),
    };
    Ok(texts.iter().zip(found).map(report).collect())
}

fn of_ids(model: &Model, ids: &[u32]) -> Result<TextReport, Stop> {
    let spelled = spelled(model, ids)?;
    if let Some(unknown) = ids.iter().find(|id| !spelled.contains_key(id)) {
        let most = model.tokenizer()?.map_or(0, |tokenizer| tokenizer.len());
        return Err(Stop::Usage(format!(
            "token {unknown} is not in the vocabulary, which has {most} tokens"
        )));
    }
    let text = super::generate::detokenizer(model)?.decode(ids);
    let token = |id: &u32| {
        let (token, special) = spelled.get(id).cloned().unwrap_or_default();
        TokenReport { id: *id, token, start: None, end: None, special }
    };
    Ok(TextReport { text, tokens: ids.iter().map(token).collect() })
}

/// The vocabulary's spelling of some tokens, and whether they are special.
fn spelled(model: &Model, ids: &[u32]) -> Result<HashMap<u32, (String, bool)>, Stop> {
    let tokenizer = tokenizer(model)?;
    let mut wanted = ids.to_vec();
    wanted.sort_unstable();
    let tokens = tokenizer.tokens().filter(|token| wanted.binary_search(&token.id).is_ok());
    let spelling = |token: weighbridge::tokenizer::Token<'_>| {
        let special = is_special(&token);
        (token.id, (String::from_utf8_lossy(&token.text).into_owned(), special))
    };
    Ok(tokens.map(spelling).collect())
}
