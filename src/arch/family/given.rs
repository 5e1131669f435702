//! Families that a program adds to the built-in ones at run time.

use std::path::Path;
use std::sync::RwLock;

use super::check::check;
use super::families::Families;
use super::parse::families;
use super::steps::known_file;
use super::table::Tables;
use super::text::Fault;
use crate::arch::Architecture;
use crate::bytes::{Access, Source};
use crate::container::OpenOptions;
use crate::error::{Error, Result};

/// The largest file that is read, which is a hundred times the largest built-in one.
const MOST_BYTES: u64 = 4 << 20;

/// Files that were added, the latest last.
static GIVEN: RwLock<Vec<FamilyFile>> = RwLock::new(Vec::new());

/// A file that describes families in addition to the built-in ones. `families/README.md` in the
/// repository describes the format.
///
/// ```
/// # fn main() -> weighbridge::Result<()> {
/// use weighbridge::arch::FamilyFile;
///
/// let text = "[family tiny]\nhf tiny\nrope half_split\ntensors decoder\n";
/// let file = FamilyFile::parse("tiny.family", text)?;
/// assert_eq!(file.architectures()[0].hf, ["tiny"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FamilyFile {
    families: &'static Families,
}

impl FamilyFile {
    /// Reads and checks a file. What it describes is never freed.
    ///
    /// # Errors
    ///
    /// `Io` and `NotFound` if the file cannot be read; `LimitExceeded` if it has more than 4 MiB;
    /// `Malformed` with the line if it breaks the format.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let source = Source::open(path, Access::Read)?;
        if source.len() > MOST_BYTES {
            let error = Error::limit("bytes of a file of families", source.len(), MOST_BYTES, "");
            return Err(error.in_file(path));
        }
        let bytes = source.bytes(0..source.len())?;
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let at = error.valid_up_to() as u64;
            Error::malformed("the text is not UTF-8").at(at).in_file(path)
        })?;
        Self::parse(path, text)
    }

    /// Parses and checks a text. `name` stands for the file in messages.
    ///
    /// # Errors
    ///
    /// `Malformed` with the line if the text breaks the format.
    pub fn parse(name: impl AsRef<Path>, text: &str) -> Result<Self> {
        let name = name.as_ref();
        let fault = |Fault { line, text }| {
            Error::malformed(format!("line {line}: {text}"))
                .in_file(name)
                .advise("families/README.md in the repository describes the format")
        };
        // Its functions are found as those of the built-in file with this name.
        let stem = name.file_stem().unwrap_or_default().to_string_lossy();
        let stem = known_file(&stem);
        let text: &'static str = text.to_owned().leak();
        let tables = Tables::parse(stem, text).map_err(fault)?;
        let families: &'static Families = Box::leak(Box::new(families(&tables).map_err(fault)?));
        check(&tables, families, text).map_err(fault)?;
        Ok(Self { families })
    }

    /// The families of the file.
    pub fn architectures(&self) -> &'static [&'static Architecture] {
        &self.families.architectures
    }

    /// Makes the families known to the whole process. They take precedence over built-in families
    /// and those that were added before.
    pub fn add(self) {
        let mut given = GIVEN.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        given.push(self);
    }
}

impl OpenOptions {
    /// Uses the families of a file, in addition to the built-in ones. The whole process knows them from
    /// now on: see [`FamilyFile::add`].
    #[must_use]
    pub fn family(self, file: FamilyFile) -> Self {
        file.add();
        self
    }
}

/// The contents of the added files, the latest first.
pub(super) fn all() -> Vec<&'static Families> {
    let given = GIVEN.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    given.iter().rev().map(|file| file.families).collect()
}
