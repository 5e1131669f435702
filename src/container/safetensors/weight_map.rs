//! `model.safetensors.index.json`: the map from tensors to files.

use std::collections::HashMap;
use std::path::{Component, Path};

use super::super::OpenOptions;
use crate::bytes::{Access, Source, Text};
use crate::error::{Error, Result};
use crate::json::Scanner;
use crate::limits::Limits;

/// An index and its text.
#[derive(Debug, Default)]
pub(super) struct WeightMap {
    text: Vec<u8>,
    /// Unescaped names, for names that contained escapes.
    unescaped: Vec<u8>,
    /// The named files, in the order of their first appearance.
    pub(super) files: Vec<String>,
    /// The position of each file in `files`.
    numbers: HashMap<String, u32>,
    entries: Vec<MapEntry>,
}

#[derive(Clone, Copy, Debug)]
struct MapEntry {
    start: u32,
    len: u32,
    file: u32,
}

/// Set in `MapEntry::len` if the name is stored in `WeightMap::unescaped`.
const UNESCAPED: u32 = 1 << 31;

impl WeightMap {
    pub(super) fn read(path: &Path, options: &OpenOptions) -> Result<Self> {
        let source = options.files.open(path, Access::Read)?;
        let parsed = Self::parse(&source, &options.limits);
        parsed.map_err(|error| error.in_file(path))
    }

    fn parse(source: &Source, limits: &Limits) -> Result<Self> {
        // Positions are stored in 31 bits.
        let most = limits.index_bytes.min(u64::from(UNESCAPED - 1));
        if source.len() > most {
            return Err(Error::limit("bytes of index", source.len(), most, "index_bytes"));
        }
        let text = source.bytes(0..source.len())?.into_owned();
        if let Err(error) = std::str::from_utf8(&text) {
            let at = error.valid_up_to() as u64;
            return Err(Error::malformed("the index is not UTF-8").at(at));
        }
        let mut this = Self::default();
        let mut json = Scanner::new(&text, 0);
        let mut found = false;
        json.expect(b'{')?;
        if !json.eat(b'}') {
            loop {
                let key = json.string()?;
                json.expect(b':')?;
                if json.raw(&key) == b"weight_map" {
                    if std::mem::replace(&mut found, true) {
                        return Err(json.error("weight_map occurs twice"));
                    }
                    this.map(&mut json, limits)?;
                } else {
                    json.skip_value()?;
                }
                if !json.eat(b',') {
                    json.expect(b'}')?;
                    break;
                }
            }
        }
        if !json.at_end() {
            return Err(json.unexpected("the end of the index"));
        }
        if !found {
            return Err(Error::malformed("the index has no weight_map"));
        }
        this.text = text;
        Ok(this)
    }

    fn map(&mut self, json: &mut Scanner<'_>, limits: &Limits) -> Result<()> {
        json.expect(b'{')?;
        if json.eat(b'}') {
            return Ok(());
        }
        // The last file's name, with its quotes, and its number: most tensors follow one of the
        // same file.
        let (mut last, mut number): (&[u8], u32) = (b"", 0);
        loop {
            let name = json.string()?;
            json.expect(b':')?;
            let at = json.at();
            json.skip_space();
            let rest = json.rest();
            match rest.strip_prefix(last).filter(|_| !last.is_empty()) {
                Some(rest) => json.continue_at(rest),
                None => {
                    let file = json.string().map_err(|_| {
                        json.error("a value in weight_map is not a file name")
                            .in_tensor(Text::new(json.raw(&name)))
                    })?;
                    let file = json.unescape(&file)?;
                    number = self.file(&file, limits).map_err(|error| error.at(at))?;
                    let len = rest.len().saturating_sub(json.rest().len());
                    last = rest.get(..len).unwrap_or_default();
                }
            }
            let (mut start, mut len) = (name.range.start, name.range.len());
            if name.escaped {
                let text = json.unescape(&name)?;
                (start, len) = (self.unescaped.len(), text.len() | UNESCAPED as usize);
                self.unescaped.extend_from_slice(&text);
            }
            self.entries.push(MapEntry {
                start: u32::try_from(start).unwrap_or(u32::MAX),
                len: u32::try_from(len).unwrap_or(u32::MAX),
                file: number,
            });
            if !json.eat(b',') {
                return json.expect(b'}');
            }
        }
    }

    /// The number of a file, whose name is checked when it first appears.
    fn file(&mut self, name: &[u8], limits: &Limits) -> Result<u32> {
        let name = std::str::from_utf8(name).unwrap_or_default();
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        if !stays_inside(name) {
            let fault = format!(
                "the index names the file \"{}\", which is outside its directory",
                Text::new(name.as_bytes())
            );
            return Err(Error::malformed(fault)
                .advise("do not use this model: its index refers to files outside the model"));
        }
        let most = limits.shards;
        if self.files.len() as u64 >= u64::from(most) {
            let found = self.files.len() as u64 + 1;
            return Err(Error::limit("files in one index", found, most.into(), "shards"));
        }
        let number = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
        self.files.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        Ok(number)
    }

    /// Tensor names, each with the number of the file that should contain it.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], u32)> {
        self.entries.iter().map(|entry| {
            let from = if entry.len & UNESCAPED == 0 { &self.text } else { &self.unescaped };
            let start = entry.start as usize;
            let end = start.saturating_add((entry.len & !UNESCAPED) as usize);
            (from.get(start..end).unwrap_or_default(), entry.file)
        })
    }
}

/// Whether a file name from an index stays inside the directory: no root, no drive, no `..`.
/// Symbolic links are followed later, since hub caches consist of them.
fn stays_inside(name: &str) -> bool {
    let normal = |component| matches!(component, Component::Normal(_));
    !name.is_empty() && !name.contains(['\\', '\0']) && Path::new(name).components().all(normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_the_directory() {
        for name in ["../x", "/etc/passwd", "a/../../x", "", "..", "a\\..\\x", "x\0y", "."] {
            assert!(!stays_inside(name), "{name}");
        }
        for name in ["model.safetensors", "sub/model.safetensors", "..model", "é"] {
            assert!(stays_inside(name), "{name}");
        }
    }
}
