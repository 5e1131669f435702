//! The index of known models, kept between runs so that no file is opened twice.
//!
//! The index is one file: a line that names its version, the number of entries and a checksum, then
//! a line of JSON for each model. It is replaced as a whole, so that programs that write it at the
//! same time leave one of their versions; what the other found is found again. An index that is
//! damaged, or that another version of this library wrote, counts as empty.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use foldhash::fast::RandomState;

use crate::bytes::{Access, Source, put};
use crate::container::CONTAINERS;
use crate::error::{Error, ErrorKind, Result};
use crate::json::{Json, json};

/// The first word of the file; the number is that of its form.
const MAGIC: &str = "weighbridge-models-2";

/// The most models that are kept. Those that were seen longest ago are dropped first.
const MOST: usize = 200_000;

/// A larger file is not read.
const LARGEST: u64 = 256 << 20;

/// The start of [`fnv`].
pub(super) const FNV: u64 = 0xcbf2_9ce4_8422_2325;

/// The hash FNV-1a of 64 bits, which is the same in every run and on every machine.
pub(super) fn fnv(start: u64, bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(start, step)
}

/// The names, sizes and modification times of a model's files, in one number.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Stamp(u64);

impl Stamp {
    /// Adds a file; their order does not matter.
    pub(super) fn add(&mut self, name: &[u8], len: u64, modified: u128) {
        let hash = fnv(fnv(fnv(FNV, name), &len.to_le_bytes()), &modified.to_le_bytes());
        self.0 = self.0.wrapping_add(hash);
    }
}

/// The known facts about a model.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) stamp: Stamp,
    pub(super) container: Option<&'static str>,
    pub(super) architecture: Option<String>,
    pub(super) parameters: Option<u64>,
    pub(super) bits_per_weight: Option<f64>,
    pub(super) quantization: Option<String>,
    /// The number of tensors; a file without any is a vocabulary, not a model.
    pub(super) tensors: u64,
    /// The reason why the model cannot be opened.
    pub(super) error: Option<Error>,
    /// The SHA-256 of each file with weights, in order, once they have been computed.
    pub(super) digests: Vec<String>,
    /// The digest of names, shapes and values, once it has been computed; empty for a model that
    /// has no canonical names.
    pub(super) values: Option<String>,
    /// When the weights had been read last, before this library read them.
    pub(super) used: Option<u64>,
    /// When this library read them.
    pub(super) looked: u64,
    /// When the model was listed last.
    pub(super) seen: u64,
}

/// The kinds of errors that stay until the file changes.
const LASTING: [ErrorKind; 4] = [
    ErrorKind::Malformed,
    ErrorKind::Unsupported,
    ErrorKind::UnknownContainer,
    ErrorKind::LimitExceeded,
];

impl Entry {
    /// Whether the entry will be true in the next run, if the files stay the same.
    fn lasts(&self) -> bool {
        self.error.as_ref().is_none_or(|error| LASTING.contains(&error.kind()))
    }

    /// The path and the entry of a line.
    #[expect(clippy::indexing_slicing, reason = "a value that a list does not have is null")]
    fn parse(line: &str) -> Option<(String, Self)> {
        let row = Json::parse(line.as_bytes()).ok()?;
        let text = |json: &Json| json.as_str().map(str::to_owned);
        let path = text(&row[0])?;
        let container = match row[2].as_str() {
            None => None,
            Some(name) => Some(CONTAINERS.iter().find(|row| row.name == name)?.name),
        };
        let error = match text(&row[8][1]) {
            None => None,
            Some(fault) => {
                let kind = LASTING.into_iter().find(|known| row[8][0] == known.name())?;
                let error = Error::new(kind, fault).in_file(Path::new(&path));
                Some(text(&row[8][2]).into_iter().fold(error, Error::advise))
            }
        };
        let entry = Self {
            stamp: Stamp(row[1].as_u64()?),
            container,
            architecture: text(&row[3]),
            parameters: row[4].as_u64(),
            bits_per_weight: row[5].as_u64().map(f64::from_bits),
            quantization: text(&row[6]),
            tensors: row[7].as_u64()?,
            error,
            digests: row[9].as_array()?.iter().map(text).collect::<Option<_>>()?,
            values: text(&row[10]),
            used: row[11][0].as_u64(),
            looked: row[11][1].as_u64()?,
            seen: row[11][2].as_u64()?,
        };
        Some((path, entry))
    }

    /// Adds the line of the entry.
    fn write(&self, path: &str, text: &mut Vec<u8>) {
        let error = self.error.as_ref().map(|error| {
            let fault = error.clone().without_path().to_string();
            json!([error.kind().name(), fault, error.advice()])
        });
        let row = json!([
            path,
            self.stamp.0,
            self.container,
            self.architecture,
            self.parameters,
            self.bits_per_weight.map(f64::to_bits),
            self.quantization,
            self.tensors,
            error,
            self.digests,
            self.values,
            [self.used, self.looked, self.seen],
        ]);
        text.extend_from_slice(row.to_string().as_bytes());
        text.push(b'\n');
    }
}

/// The entries, by the paths of the models. JSON has no paths that are not UTF-8.
type Entries = HashMap<String, Entry, RandomState>;

/// The entries of an index file.
#[derive(Debug, Default)]
pub(super) struct Index {
    entries: Entries,
    changed: bool,
}

impl Index {
    /// Reads the index in a folder; an empty one if there is none that is whole.
    pub(super) fn read(folder: &Path) -> Self {
        let text = || {
            let source = Source::open(&place(folder), Access::Read).ok()?;
            let small = source.len() <= LARGEST;
            let bytes = small.then(|| source.bytes(0..source.len()).ok()).flatten()?;
            String::from_utf8(bytes.into_owned()).ok()
        };
        let entries = text().and_then(|text| parse(&text)).unwrap_or_default();
        Self { entries, changed: false }
    }

    /// The entry of a model, if its files are still the same.
    pub(super) fn get(&self, path: &Path, stamp: Stamp) -> Option<&Entry> {
        self.entries.get(path.to_str()?).filter(|entry| entry.stamp == stamp)
    }

    /// Adds or replaces an entry, unless it may not be true in the next run.
    pub(super) fn put(&mut self, path: &Path, entry: Entry) {
        if let Some(path) = path.to_str().filter(|_| entry.lasts()) {
            self.entries.insert(path.to_owned(), entry);
            self.changed = true;
        }
    }

    /// Removes the models below these folders that are gone.
    pub(super) fn forget<'p>(&mut self, roots: &[&Path], there: impl Iterator<Item = &'p Path>) {
        let there: HashSet<&str, RandomState> = there
            .filter_map(Path::to_str)
            .filter(|path| self.entries.contains_key(*path))
            .collect();
        if there.len() == self.entries.len() {
            return;
        }
        let before = self.entries.len();
        let is_below = |path: &str| roots.iter().any(|root| Path::new(path).starts_with(root));
        self.entries.retain(|path, _| there.contains(path.as_str()) || !is_below(path));
        self.changed |= self.entries.len() != before;
    }

    /// Writes the index, if something has changed.
    ///
    /// # Errors
    ///
    /// `Io` if the folder cannot be written.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        if !self.changed {
            return Ok(());
        }
        let path = place(folder);
        let cannot = |error| Error::io("cannot write the index of models", error).in_file(&path);
        std::fs::create_dir_all(folder).map_err(cannot)?;
        let (head, body) = self.text();
        put(&path, &[head.as_bytes(), &body]).map_err(cannot)
    }

    /// The first line, and the others.
    fn text(&self) -> (String, Vec<u8>) {
        let mut all: Vec<(&String, &Entry)> = self.entries.iter().collect();
        all.sort_unstable_by(|a, b| b.1.seen.cmp(&a.1.seen).then_with(|| a.0.cmp(b.0)));
        all.truncate(MOST);
        let mut body = Vec::new();
        all.iter().for_each(|(path, entry)| entry.write(path, &mut body));
        (format!("{} {} {:016x}\n", head(), all.len(), fnv(FNV, &body)), body)
    }
}

fn place(folder: &Path) -> PathBuf {
    folder.join("models.index")
}

/// The start of the first line. Another version of the library may see other things in a model.
fn head() -> String {
    format!("{MAGIC} {}", env!("CARGO_PKG_VERSION"))
}

fn parse(text: &str) -> Option<Entries> {
    let (first, body) = text.split_once('\n')?;
    let (count, sum) = first.strip_prefix(&head())?.trim_start().split_once(' ')?;
    if u64::from_str_radix(sum, 16).ok()? != fnv(FNV, body.as_bytes()) {
        return None;
    }
    let count: usize = count.parse().ok()?;
    let mut entries = Entries::default();
    entries.reserve(count.min(MOST));
    for line in body.lines() {
        let (path, entry) = Entry::parse(line)?;
        entries.insert(path, entry);
    }
    (count == entries.len()).then_some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> Index {
        let mut index = Index::default();
        let fault = Error::malformed("cut short").at(7).in_file(Path::new("/m/b.gguf"));
        let broken = Entry { error: Some(fault.advise("fetch it again")), ..Entry::default() };
        let whole = Entry {
            stamp: Stamp(u64::MAX),
            container: Some("gguf"),
            architecture: Some("llama".to_owned()),
            parameters: Some(1_310_000),
            bits_per_weight: Some(8.503_906_25),
            quantization: Some("Q8_0".to_owned()),
            tensors: 20,
            error: None,
            digests: vec!["ab".repeat(32)],
            values: Some(String::new()),
            used: Some(5),
            looked: 6,
            seen: 7,
        };
        index.put(Path::new("/m/a.gguf"), whole);
        index.put(Path::new("/m/b.gguf"), broken);
        index
    }

    #[test]
    fn entries_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let index = index();
        index.write(folder.path()).unwrap();
        let read = Index::read(folder.path());
        assert_eq!(format!("{:?}", read.entries["/m/a.gguf"]), {
            format!("{:?}", index.entries["/m/a.gguf"])
        });
        let broken = read.get(Path::new("/m/b.gguf"), Stamp::default()).unwrap();
        let error = broken.error.as_ref().unwrap();
        assert_eq!(error.to_string(), "/m/b.gguf: cut short (at byte 7)");
        assert_eq!((error.kind(), error.advice()), (ErrorKind::Malformed, Some("fetch it again")));
        assert!(read.get(Path::new("/m/b.gguf"), Stamp(1)).is_none());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_damaged_index_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        index().write(folder.path()).unwrap();
        let whole = std::fs::read_to_string(place(folder.path())).unwrap();
        assert_eq!(parse(&whole).unwrap().len(), 2);
        for at in 0..whole.len() {
            let mut bytes = whole.clone().into_bytes();
            bytes[at] ^= 1;
            let damaged = String::from_utf8_lossy(&bytes).into_owned();
            assert!(parse(&damaged).is_none(), "byte {at}");
            assert!(parse(&whole[..at]).is_none(), "cut at {at}");
        }
    }

    #[test]
    fn what_may_change_is_not_kept() {
        let mut index = Index::default();
        let gone = Error::not_found("no such file");
        index.put(Path::new("/m/a"), Entry { error: Some(gone), ..Entry::default() });
        assert!(index.entries.is_empty() && !index.changed);
        let mut index = self::index();
        index.changed = false;
        index.forget(&[Path::new("/other")], std::iter::empty());
        assert!(index.entries.len() == 2 && !index.changed);
        index.forget(&[Path::new("/m")], [Path::new("/m/a.gguf"), Path::new("/m/c")].into_iter());
        assert!(index.entries.len() == 1 && index.changed);
    }
}
