//! Split models: `PREFIX-00001-of-00003.gguf` and the other shards.

use std::path::{Path, PathBuf};

use super::super::{OpenOptions, foreign, in_parallel};
use super::header::{self, GgufHeader};
use crate::bytes::Source;
use crate::error::{Error, Result};
use crate::metadata::Metadata;
use crate::store::Note;

/// The position of a shard in its set, from its metadata.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShardPosition {
    /// `split.no`, counted from 0.
    number: u64,
    /// `split.count`.
    pub(super) count: u64,
    /// `split.tensors.count`, the total of all shards.
    tensors: Option<u64>,
}

impl ShardPosition {
    /// Returns `None` for a file that is not split.
    pub(super) fn of(metadata: &Metadata) -> Result<Option<Self>> {
        let integer = |key: &str| match metadata.get(key) {
            None => Ok(None),
            Some(value) => value.to_u64().map(Some).ok_or_else(|| {
                let fault = format!("{value:?}, but a non-negative integer is required");
                Error::malformed(fault).in_key(key)
            }),
        };
        let Some(count) = integer("split.count")? else { return Ok(None) };
        let number = integer("split.no")?.unwrap_or(0);
        Ok(Some(Self { number, count, tensors: integer("split.tensors.count")? }))
    }
}

/// A file name of the form `PREFIX-00001-of-00003.gguf`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ShardName<'a> {
    prefix: &'a str,
    /// Counted from 1.
    number: u32,
    count: u32,
    /// The suffix in the file's spelling, `.gguf` or `.GGUF`.
    ending: &'a str,
}

impl<'a> ShardName<'a> {
    pub(super) fn parse(name: &'a str) -> Option<Self> {
        let (stem, ending) = name.split_at_checked(name.len().checked_sub(".gguf".len())?)?;
        if !ending.eq_ignore_ascii_case(".gguf") {
            return None;
        }
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (prefix, number) = rest.rsplit_once('-')?;
        let digits = |text: &str| {
            let all = text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
            all.then(|| text.parse().ok()).flatten()
        };
        Some(Self { prefix, number: digits(number)?, count: digits(count)?, ending })
    }

    pub(super) fn of_shard(&self, number: u64) -> String {
        format!("{}-{number:05}-of-{:05}{}", self.prefix, self.count, self.ending)
    }
}

/// Parses the headers of all shards of the split model that contains `given`, whose header is already
/// parsed.
pub(super) fn open(
    path: &Path,
    mut given: GgufHeader,
    place: ShardPosition,
    options: &OpenOptions,
) -> Result<Vec<GgufHeader>> {
    let here = |error: Error| error.in_file(path);
    let most = u64::from(options.limits.shards);
    if place.count > most {
        return Err(here(Error::limit("shards", place.count, most, "shards")));
    }
    if place.number >= place.count {
        let fault = format!("split.no is {}, but there are {} shards", place.number, place.count);
        return Err(here(Error::malformed(fault)));
    }
    let name = name_of(path, &given, place).map_err(here)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let paths: Vec<PathBuf> =
        (1..=place.count).map(|number| folder.join(name.of_shard(number))).collect();
    let missing: Vec<String> = (1..=place.count)
        .zip(&paths)
        .filter(|(_, path)| !options.files.exists(path))
        .map(|(number, _)| name.of_shard(number))
        .collect();
    if options.partial && !missing.is_empty() {
        given.notes.push(Note::new(path, part_of_set(&given, place, &missing)));
        return Ok(vec![given]);
    }
    if let Some(first) = missing.first() {
        let fault =
            format!("{} of {} shards are missing, the first {first}", missing.len(), place.count);
        return Err(here(
            Error::malformed(fault).advise("fetch the missing shards into the same directory"),
        ));
    }
    let others: Vec<PathBuf> = paths.iter().filter(|other| *other != path).cloned().collect();
    let mut shards = in_parallel(&others, options, |path| {
        let source = options.files.open(path, options.access)?;
        foreign::check(&source, options).map_err(|error| error.in_file(path))?;
        header::parse(source, options)
    })?;
    let at = usize::try_from(place.number).unwrap_or(usize::MAX).min(shards.len());
    shards.insert(at, given);
    let mut found = 0;
    for (number, shard) in (0..).zip(&shards) {
        found += shard.listing.len() as u64;
        check_place(shard, number, place).map_err(|error| error.in_file(shard.source.path()))?;
    }
    if let Some(tensors) = place.tensors.filter(|&tensors| tensors != found) {
        let fault =
            format!("the shards hold {found} tensors, but split.tensors.count says {tensors}");
        return Err(here(
            Error::malformed(fault).advise("the directory mixes shards of different models"),
        ));
    }
    Ok(shards)
}

/// The name of the shard at `path`, which must say the same as its metadata.
fn name_of<'p>(path: &'p Path, given: &GgufHeader, place: ShardPosition) -> Result<ShardName<'p>> {
    let file_name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some(name) = ShardName::parse(file_name) else {
        if let Some(at) = joined(given)? {
            let fault = format!(
                "{} shards of a model one after another in one file, the second at byte {at}",
                place.count
            );
            let advice = "cut the file into its shards again, or fetch them: shards are merged by a \
                program that knows their format, not by joining their bytes";
            return Err(Error::malformed(fault).advise(advice));
        }
        let fault = format!(
            "this is shard {} of {}, but the file name does not say so, so the other shards cannot be found",
            place.number.saturating_add(1),
            place.count
        );
        let advice = "name the shards PREFIX-00001-of-0000N.gguf, as llama-gguf-split does";
        return Err(Error::malformed(fault).advise(advice));
    };
    if u64::from(name.count) != place.count
        || u64::from(name.number) != place.number.saturating_add(1)
    {
        let fault = format!(
            "the name says shard {} of {}, but the metadata say {} of {}",
            name.number,
            name.count,
            place.number.saturating_add(1),
            place.count
        );
        return Err(Error::malformed(fault).advise("restore the file's original name"));
    }
    Ok(name)
}

/// The part that a shard is of its set.
fn part_of_set(shard: &GgufHeader, place: ShardPosition, missing: &[String]) -> String {
    let tensors = place.tensors.map_or(String::new(), |all| {
        format!(" with {} of the {all} tensors of the model", shard.listing.len())
    });
    let (number, count) = (place.number.saturating_add(1), place.count);
    let more = match missing.len() {
        0 | 1 => String::new(),
        several => format!(" and {} more", several.saturating_sub(1)),
    };
    let first = missing.first().map_or("", String::as_str);
    format!("shard {number} of {count}{tensors}; missing: {first}{more}")
}

/// The offset of another GGUF file after the tensors of this one, if there is one: the shards' bytes were concatenated.
fn joined(shard: &GgufHeader) -> Result<Option<u64>> {
    let ends = shard.listing.iter(&shard.header).filter_map(|entry| entry.end());
    let Some(end) = ends.max() else { return Ok(None) };
    // Shards are padded to their alignment.
    let starts =
        (end..end.saturating_add(64)).take_while(|at| at.saturating_add(4) <= shard.source.len());
    let is_magic = |source: &Source, at: u64| {
        let mut magic = [0; 4];
        source.read_at(at, &mut magic).map(|()| magic == *b"GGUF")
    };
    for at in starts {
        if is_magic(&shard.source, at)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn check_place(shard: &GgufHeader, number: u64, place: ShardPosition) -> Result<()> {
    let Some(said) = ShardPosition::of(&shard.metadata)? else {
        return Err(Error::malformed("not a shard: split.count is missing"));
    };
    if said.number != number || said.count != place.count {
        let fault = format!(
            "the metadata say shard {} of {}, but the file name says {} of {}",
            said.number.saturating_add(1),
            said.count,
            number.saturating_add(1),
            place.count
        );
        return Err(
            Error::malformed(fault).advise("the directory mixes shards of different models")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shard_names() {
        let name = ShardName::parse("my-model-00002-of-00003.gguf").unwrap();
        assert_eq!((name.prefix, name.number, name.count), ("my-model", 2, 3));
        assert_eq!(name.of_shard(3), "my-model-00003-of-00003.gguf");
        for other in
            ["model.gguf", "a-1-of-2.gguf", "a-00001-of-00002.ggml", "-of-.gguf", ".gguf", "é"]
        {
            assert_eq!(ShardName::parse(other), None, "{other}");
        }
    }
}
