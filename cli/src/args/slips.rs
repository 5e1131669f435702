//! Slips in the names of other programs, and of their commands.

use super::foreign;
use super::program::Program;
use super::verbs::{bare, dashed, row};
use crate::spelling;

/// The fewest letters of a name in which a slip is looked for.
const FEWEST: usize = 3;

/// The name of another program, or of its command, that was meant by a word and the next one.
pub(super) fn meant(known: &Program, word: &str, next: &str) -> Option<String> {
    let typed = dashed(word);
    let near = commands(known).filter_map(|name| {
        let slips = spelling::distance(&typed, &name.dashed);
        (slips <= name.most_slips()).then_some((slips, name))
    });
    let near = near.min_by_key(|(slips, name)| (*slips, !name.is_row));
    near.map(|(_, name)| name.spelled).or_else(|| {
        let programs = foreign::list("PROGRAMS");
        let program = spelling::nearest(word, programs, |name| spelling::distance(word, name))?;
        let is_command = known.has(&bare(next)) || row(&bare(next)).is_some();
        (is_command && !next.is_empty()).then(|| format!("{program} {next}"))
    })
}

/// A name that is known.
struct Name {
    /// As the table has it.
    dashed: String,
    /// As it is typed.
    spelled: String,
    /// The letters of the command, without the program.
    letters: usize,
    /// Whether the table has a row for it, and it does not follow from a command of this program.
    is_row: bool,
    /// Whether it names its program.
    is_whole: bool,
}

impl Name {
    fn most_slips(&self) -> usize {
        match self.letters {
            ..FEWEST => 0,
            letters if self.is_whole => (letters / 4).max(1),
            // Fewer would be found in any sentence.
            letters if letters > 2 * FEWEST => letters / 4,
            _ => 0,
        }
    }
}

/// The words of the table that are whole names.
fn words() -> impl Iterator<Item = &'static str> {
    let words = foreign::verbs().flat_map(|(_, words, _)| words.split('|'));
    words.filter(|word| !word.contains(['*', ' ']))
}

/// The names that are known: those of the table, and each command of each program.
fn commands(known: &Program) -> impl Iterator<Item = Name> {
    let programs =
        foreign::list("PROGRAMS").map(|program| (format!("{program}."), format!("{program} ")));
    let prefixes = foreign::list("PREFIXES").map(|start| (start.to_owned(), start.to_owned()));
    // As the table has them, and as they are typed.
    let starts: Vec<(String, String)> =
        prefixes.chain(programs).map(|(start, typed)| (dashed(&start), typed)).collect();
    let all = starts.clone();
    let of_table = words().map(move |word| {
        let found =
            all.iter().find_map(|(start, typed)| Some((word.strip_prefix(&**start)?, typed)));
        let own = found.map(|(own, _)| own).or_else(|| Some(word.rsplit_once('-')?.1));
        Name {
            dashed: word.to_owned(),
            spelled: found.map_or(word.to_owned(), |(own, typed)| format!("{typed}{own}")),
            letters: own.unwrap_or(word).len(),
            is_row: true,
            is_whole: own.is_some(),
        }
    });
    let of_programs = starts.into_iter().flat_map(move |(start, typed)| {
        let others = words().filter(|word| !word.contains('.'));
        let commands = known.verbs().map(str::to_owned).chain(others.map(str::to_owned));
        commands.map(move |command| Name {
            dashed: format!("{start}{command}"),
            spelled: format!("{typed}{command}"),
            letters: command.len(),
            is_row: false,
            is_whole: true,
        })
    });
    of_table.chain(of_programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_in_names_of_other_programs() {
        let known = Program::new();
        for (word, next, expected) in [
            ("llama-qantize", "", Some("llama-quantize")),
            ("llama-imatix", "", Some("llama-imatrix")),
            ("lama-quantize", "", Some("llama-quantize")),
            ("mlx_lm.covert", "", Some("mlx_lm convert")),
            ("mlx_lm.fus", "", Some("mlx_lm fuse")),
            ("hf.donwload", "", Some("hf download")),
            ("hf.cach", "ls", Some("hf cache")),
            ("ollama.shwo", "m", Some("ollama show")),
            ("ollama.crate", "m", Some("ollama create")),
            ("mergekit-yml", "", Some("mergekit-yaml")),
            ("gguf-dmp", "", Some("gguf-dump")),
            ("gguf_dmp.py", "", Some("gguf-dump")),
            ("ollma", "ls", Some("ollama ls")),
            ("ollma", "nothing", None),
            ("hff", "download", None),
            ("llama-tts", "", None),
            ("hf.datasets", "", None),
            ("mlx_lm.frobnicate", "", None),
            ("what", "is", None),
            ("does", "it", None),
        ] {
            assert_eq!(meant(&known, word, next).as_deref(), expected, "{word} {next}");
        }
    }
}
