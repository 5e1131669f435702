//! Selects the files of a directory that make up the model.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::path::Path;

use super::super::folder::{OTHER, UQFF};
use super::super::{OpenOptions, foreign};
use super::weight_map::WeightMap;
use crate::bytes::Text;
use crate::error::{AdvisedOption, Error, Result};
use crate::store::Note;

/// The selected files, in the order in which they are read.
#[derive(Debug)]
pub(super) struct SelectedFiles {
    pub(super) files: Vec<String>,
    /// The index that named them, to be checked against their content.
    pub(super) index: Option<(String, WeightMap)>,
    pub(super) notes: Vec<Note>,
}

/// The names of model files before `.safetensors`, most common first. `consolidated` is Mistral's
/// second copy of the same weights, so it is used only if there is nothing else.
const STEMS: [&str; 6] =
    ["model", "diffusion_pytorch_model", "adapter_model", "adapters", "weights", "consolidated"];

/// The weights of a model in one file.
const ALONE: &str = "model.safetensors";

/// The file name of weights from MLX's first converters and from its whisper converter today.
const ARCHIVE: &str = "weights.npz";

/// The archive of a directory: the weights of a model, or those of an adapter of mlx-lm if its config is there, which
/// older ones did not write.
pub(super) fn archive(names: &[String]) -> Option<&'static str> {
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    let of_adapter = || has("adapter_config.json") && has("adapters.npz");
    has(ARCHIVE).then_some(ARCHIVE).or_else(|| of_adapter().then_some("adapters.npz"))
}

/// Refuses a file of mistral.rs's own format: a safetensors file whose tensors have numbers for names, and are bytes.
pub(super) fn check_format(path: &Path) -> Result<()> {
    match path.extension() {
        Some(ending) if ending == "uqff" => Err(Error::unsupported(UQFF).advise(OTHER)),
        _ => Ok(()),
    }
}

/// Refuses what mistral.rs stores beside a model in its own format.
fn check_no_rest(names: &[String], stem: &str, files: &[&str]) -> Result<()> {
    let other = names.iter().find(|name| name.ends_with(".uqff"));
    let Some(other) = other.filter(|_| stem == "residual") else { return Ok(()) };
    let fault = format!(
        "the directory contains {UQFF}, such as {other}; {} has what is not quantized",
        list(files)
    );
    Err(Error::unsupported(fault).advise(OTHER))
}

/// Selects from the sorted `names` of a directory.
pub(super) fn choose(
    folder: &Path,
    names: &[String],
    options: &OpenOptions,
) -> Result<SelectedFiles> {
    let mut notes = Vec::new();
    let weights: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| name.ends_with(".safetensors")).collect();
    if let Some(index) = find_index(names) {
        match choose_listed(folder, index, &weights, options)? {
            Listed::All(selected) => return Ok(selected),
            Listed::Some { listed, .. } if weights.is_empty() => {
                let fault =
                    format!("none of the {listed} files that {index} lists is in the directory");
                return Err(unfinished(names, Error::malformed(fault)));
            }
            Listed::Some { listed, absent } => {
                let text = format!(
                    "{index} is outdated: {absent} of the {listed} files that it lists are missing"
                );
                notes.push(Note::new(folder, text));
            }
        }
    }
    let sets = sets(&weights);
    let chosen = STEMS.iter().find_map(|stem| best(&sets, stem));
    let chosen = match (chosen, sets.as_slice()) {
        (Some(set), _) => set,
        (None, [only]) => only,
        (None, []) => {
            let files: Vec<String> = archive(names).map(str::to_owned).into_iter().collect();
            if files.is_empty() && !options.partial {
                let fault = "no .safetensors files in the directory";
                return Err(unfinished(names, Error::malformed(fault)));
            }
            return Ok(SelectedFiles { files, index: None, notes });
        }
        (None, _) if options.all_files => {
            let files = weights.iter().map(|&name| name.to_owned()).collect();
            return Ok(SelectedFiles { files, index: None, notes });
        }
        (None, several) => {
            let fault = format!(
                "{} sets of safetensors files, none of which has a usual name: {}",
                several.len(),
                list(&weights)
            );
            return Err(Error::malformed(fault).advise_option(
                "give the path of one file, or open all of them with {}",
                AdvisedOption::AllFiles,
            ));
        }
    };
    if let Some(numbers) = chosen.expected() {
        let (have, count) = (chosen.numbers.len(), numbers.clone().count());
        if have != count && options.partial {
            let text = format!("{have} of the {count} shards of {} are here", chosen.stem);
            notes.push(Note::new(folder, text));
        } else if have != count {
            let missing = numbers.clone().find(|number| !chosen.numbers.contains(number));
            let fault = format!(
                "only {have} of {count} shards of {} exist; the first missing one is number {}",
                chosen.stem,
                missing.unwrap_or(0)
            );
            return Err(unfinished(names, Error::malformed(fault)));
        }
    }
    check_no_rest(names, chosen.stem, &chosen.files)?;
    let taken: HashSet<&str> = chosen.files.iter().copied().collect();
    let strays: Vec<&str> = weights.iter().copied().filter(|name| !taken.contains(name)).collect();
    let mut files: Vec<String> = chosen.files.iter().map(|&name| name.to_owned()).collect();
    if options.all_files {
        files.extend(strays.iter().map(|&name| name.to_owned()));
    } else if !strays.is_empty() {
        let text = format!("ignored next to {}: {}", chosen.stem, described(&strays));
        notes.push(Note::unread(folder, text));
    }
    Ok(SelectedFiles { files, index: None, notes })
}

/// The share of the files listed in an index that a directory has.
enum Listed {
    All(SelectedFiles),
    Some { listed: usize, absent: usize },
}

/// Selects the files that an index lists, if all of them are in the directory.
fn choose_listed(
    folder: &Path,
    index: &str,
    weights: &[&str],
    options: &OpenOptions,
) -> Result<Listed> {
    let map = WeightMap::read(&folder.join(index), options)?;
    let absent = map.files.iter().filter(|file| !options.files.exists(&folder.join(file))).count();
    if absent > 0 || map.files.is_empty() {
        return Ok(Listed::Some { listed: map.files.len(), absent });
    }
    let mut notes = Vec::new();
    let mut files = map.files.clone();
    let named: HashSet<&str> = map.files.iter().map(String::as_str).collect();
    let strays: Vec<&str> = weights.iter().copied().filter(|name| !named.contains(name)).collect();
    if options.all_files {
        files.extend(strays.iter().map(|&name| name.to_owned()));
    } else if !strays.is_empty() {
        let text = format!("ignored, because {index} does not list them: {}", described(&strays));
        notes.push(Note::unread(folder, text));
        // Seen in transformers 5.24 and mlx-lm 0.32.2.
        if strays.contains(&ALONE) && map.files.iter().all(|file| file != ALONE) {
            let text = format!(
                "transformers reads {ALONE} in place of the files of the index, mlx-lm reads it too: move it away"
            );
            notes.push(Note::new(folder, text));
        }
    }
    files.sort_by(|a, b| Text::new(a.as_bytes()).natural_cmp(Text::new(b.as_bytes())));
    Ok(Listed::All(SelectedFiles { files, index: Some((index.to_owned(), map)), notes }))
}

/// Files whose names belong together.
#[derive(Debug)]
struct ShardSet<'a> {
    /// The name before `.safetensors` and before the shard number.
    stem: &'a str,
    /// The number of shards, if the names state it.
    count: Option<u32>,
    numbers: HashSet<u32>,
    files: Vec<&'a str>,
}

impl ShardSet<'_> {
    /// The numbers of all shards, if the names state how many there are. Sets that count from 0 name the largest number
    /// instead (gpt-oss: `model-00000-of-00002` to `model-00002-of-00002`), or as many shards as there are.
    fn expected(&self) -> Option<RangeInclusive<u32>> {
        let count = self.count?;
        Some(match (self.numbers.contains(&0), self.numbers.contains(&count)) {
            (false, _) => 1..=count,
            (true, true) => 0..=count,
            (true, false) => 0..=count.saturating_sub(1),
        })
    }
}

fn sets<'a>(weights: &[&'a str]) -> Vec<ShardSet<'a>> {
    let mut sets: Vec<ShardSet<'a>> = Vec::new();
    let mut places: HashMap<(&str, Option<u32>), usize> = HashMap::new();
    for name in weights {
        let stem = name.strip_suffix(".safetensors").unwrap_or(name);
        let (stem, number, count) = match shard(stem) {
            Some((stem, number, count)) => (stem, Some(number), Some(count)),
            None => (stem, None, None),
        };
        let place = *places.entry((stem, count)).or_insert(sets.len());
        if place == sets.len() {
            sets.push(ShardSet { stem, count, numbers: HashSet::new(), files: Vec::new() });
        }
        if let Some(set) = sets.get_mut(place) {
            set.files.push(name);
            set.numbers.extend(number);
        }
    }
    sets
}

/// A note on a file that is a shard, with the number of tensors that an index next to it lists. `tensors`
/// is that of the file.
pub(super) fn part_of_set(path: &Path, tensors: usize, options: &OpenOptions) -> Option<Note> {
    let (folder, name) = (path.parent()?, path.file_name()?.to_str()?);
    let (stem, number, count) = shard(name.strip_suffix(".safetensors")?)?;
    let index = folder.join(format!("{stem}.safetensors.index.json"));
    let index = Some(index).filter(|index| options.files.exists(index));
    let all = index.and_then(|index| Some(WeightMap::read(&index, options).ok()?.iter().count()));
    let of = all
        .map_or(String::new(), |all| format!(", with {tensors} of the {all} tensors of the model"));
    let text = format!("shard {number} of {count}{of}: the directory is the whole model");
    (count > 1).then(|| Note::new(path, text))
}

/// Parses a shard name: `model-00001-of-00005` is shard 1 of 5 of `model`.
fn shard(stem: &str) -> Option<(&str, u32, u32)> {
    let (rest, count) = stem.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    Some((stem, number.parse().ok()?, count.parse().ok()?))
}

/// The set with a stem: the single file, else shards, else the only variant (`model.fp16`).
fn best<'s, 'a>(sets: &'s [ShardSet<'a>], stem: &str) -> Option<&'s ShardSet<'a>> {
    let single = sets.iter().find(|set| set.stem == stem && set.count.is_none());
    let sharded = sets.iter().find(|set| set.stem == stem && set.count.is_some());
    let mut variants = sets
        .iter()
        .filter(|set| set.stem.strip_prefix(stem).is_some_and(|rest| rest.starts_with(['.', '-'])));
    single.or(sharded).or_else(|| match (variants.next(), variants.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    })
}

/// The index of the model: the one with a standard name, or the only one.
fn find_index(names: &[String]) -> Option<&str> {
    let is_index = |name: &&str| is_index(name, names);
    let mut indexes = names.iter().map(String::as_str).filter(is_index);
    let usual = STEMS.iter().map(|stem| format!("{stem}.safetensors.index.json"));
    for usual in usual {
        if let Some(found) = names.iter().find(|name| **name == usual) {
            return Some(found);
        }
    }
    match (indexes.next(), indexes.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

/// Whether a file is named like an index: `STEM.safetensors.index.json`, or with the name of a
/// variant of which there are weights, as in `model.safetensors.index.fp16.json`. Backups and other
/// copies of an index are named otherwise.
fn is_index(name: &str, names: &[String]) -> bool {
    let Some((_, end)) = name.split_once(".safetensors.index") else { return false };
    let Some(variant) = end.strip_suffix(".json").map(|end| end.strip_prefix('.').unwrap_or(end))
    else {
        return false;
    };
    let has = |file: &String| {
        let shards = [format!(".{variant}-"), format!(".{variant}.")];
        file.ends_with(".safetensors") && shards.iter().any(|piece| file.contains(piece))
    };
    variant.is_empty() || end.starts_with('.') && names.iter().any(has)
}

/// Adds advice to an error about missing files, if the directory shows that a download is
/// unfinished.
fn unfinished(names: &[String], error: Error) -> Error {
    match names.iter().find(|name| foreign::is_partial(name)) {
        Some(partial) => error.advise(format!(
            "{partial} shows an unfinished download: wait for it to finish, or restart it"
        )),
        None => error.advise("fetch the missing files into the same directory"),
    }
}

/// Files next to a model that hold parts of it under a name of their own, and what they are.
const PARTS: &[(&str, &str)] = &[(
    "value_head.safetensors",
    "the value head with which TRL and LLaMA-Factory make a model a reward model",
)];

/// Names of files, with what is known of them.
fn described(names: &[&str]) -> String {
    let known = PARTS.iter().filter(|(name, _)| names.contains(name));
    let known: Vec<String> = known.map(|(name, what)| format!("; {name} is {what}")).collect();
    format!("{}{}", list(names), known.concat())
}

fn list(names: &[&str]) -> String {
    let shown = names.iter().take(6).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(6) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(mut names: Vec<String>) -> Result<SelectedFiles> {
        names.sort_unstable();
        choose(Path::new("model"), &names, &OpenOptions::new())
    }

    /// With the largest number of files in a directory, comparing each with each would take
    /// minutes.
    #[test]
    fn many_files() {
        let many = 200_000;
        let mut names: Vec<String> = (0..many).map(|n| format!("{n}.safetensors")).collect();
        names.push("model.safetensors".to_owned());
        let choice = chosen(names.clone()).unwrap();
        assert_eq!(choice.files, ["model.safetensors"]);
        let note = &choice.notes[0].text;
        assert!(note.ends_with(" and 199994 more"), "{note}");

        let shard = |n: u32| format!("model-{n:06}-of-{many}.safetensors");
        names.pop();
        names.extend((1..=many).map(shard));
        assert_eq!(chosen(names.clone()).unwrap().files.len(), 200_000);
        names.pop();
        let error = chosen(names).unwrap_err().to_string();
        assert_eq!(
            error,
            "only 199999 of 200000 shards of model exist; the first missing one is number 200000"
        );
    }

    #[test]
    fn one_shard_twice_is_not_two() {
        let twice = ["model-1-of-2.safetensors", "model-01-of-02.safetensors"];
        let error = chosen(twice.map(str::to_owned).to_vec()).unwrap_err().to_string();
        assert_eq!(error, "only 1 of 2 shards of model exist; the first missing one is number 2");
    }

    /// gpt-oss is published so.
    #[test]
    fn shards_from_zero() {
        let named = |numbers: &[u32], count: u32| {
            let name = |n: &u32| format!("model-{n:05}-of-{count:05}.safetensors");
            chosen(numbers.iter().map(name).collect())
        };
        for numbers in [&[0, 1, 2][..], &[0, 1]] {
            assert_eq!(named(numbers, 2).unwrap().files.len(), numbers.len());
        }
        let error = named(&[0, 2], 2).unwrap_err().to_string();
        assert_eq!(error, "only 2 of 3 shards of model exist; the first missing one is number 1");
        let error = named(&[0], 2).unwrap_err().to_string();
        assert_eq!(error, "only 1 of 2 shards of model exist; the first missing one is number 1");
    }
}
