//! Models among files that a person gives: dropped on a page, or chosen there.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use weighbridge::bytes::{FileSystem, ReadAt, Source};
use weighbridge::{Error, ErrorKind, Model, OpenOptions, Result};

/// Reads a part of a file, which is named by its position in the list that [`GivenFiles::new`] got. The
/// part lies within the file.
pub type ReadPart = fn(file: usize, offset: u64, out: &mut [u8]) -> io::Result<()>;

/// Files that are given one by one, each with a path, and read through a function.
#[derive(Clone)]
pub struct GivenFiles {
    files: Arc<BTreeMap<PathBuf, Given>>,
    read: ReadPart,
}

#[derive(Clone, Copy, Debug)]
struct Given {
    number: usize,
    size: u64,
}

impl fmt::Debug for GivenFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GivenFiles({} files)", self.files.len())
    }
}

/// Reads of fewer bytes than this are served from a window, since each costs a call to the browser.
const WINDOW: usize = 256 << 10;

impl GivenFiles {
    /// Files with their paths, whose folders are separated by slashes, and their sizes. Of several with the
    /// same path, the last is taken.
    pub fn new(files: impl IntoIterator<Item = (String, u64)>, read: ReadPart) -> Self {
        let placed = files.into_iter().enumerate();
        let placed = placed.map(|(number, (path, size))| (path.into(), Given { number, size }));
        Self { files: Arc::new(placed.collect()), read }
    }

    /// Opens every model among the files, in the order in which the files were given, and says what could
    /// not be opened. A folder with safetensors files is one model, and so is every other file, but for
    /// shards after the first and files that accompany a model.
    pub fn models(&self) -> (Vec<Model>, Vec<Error>) {
        let (mut models, mut errors) = (Vec::new(), Vec::new());
        for path in self.candidates() {
            match OpenOptions::new().read().files(self.clone()).open(&path) {
                Ok(model) => models.push(model),
                Err(error) => errors.push(error),
            }
        }
        (models, errors)
    }

    /// The paths that may be models.
    fn candidates(&self) -> Vec<PathBuf> {
        let mut files: Vec<(&PathBuf, &Given)> = self.files.iter().collect();
        files.sort_unstable_by_key(|(_, given)| given.number);
        let mut found: Vec<PathBuf> = Vec::new();
        for (path, _) in &files {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let folder = path.parent().filter(|folder| *folder != Path::new(""));
            let candidate: &Path = match (name.rsplit_once('.').map(|(_, ending)| ending), folder) {
                (Some("safetensors" | "npz"), Some(folder)) => folder,
                (Some(ending), _) if ACCOMPANY.contains(&ending) => continue,
                _ if is_later_shard(name) || name.starts_with('.') => continue,
                _ => path,
            };
            if !found.iter().any(|known| known == candidate) {
                found.push(candidate.to_path_buf());
            }
        }
        // With nothing else to open, the error about such a file tells more than none.
        if found.is_empty() {
            found.extend(files.first().map(|(path, _)| (*path).clone()));
        }
        found
    }

    fn get(&self, path: &Path) -> Result<Given> {
        let missing = || Error::new(ErrorKind::NotFound, "no such file").in_file(path);
        self.files.get(path).copied().ok_or_else(missing)
    }
}

/// The endings of files that accompany weights.
static ACCOMPANY: &[&str] =
    &["json", "txt", "md", "model", "jinja", "py", "tiktoken", "png", "jpg", "gitattributes"];

/// Whether a name is that of a shard other than the first: `model-00002-of-00003.gguf`.
fn is_later_shard(name: &str) -> bool {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let Some((rest, count)) = stem.rsplit_once("-of-") else { return false };
    let number = rest.rsplit_once('-').map_or("", |(_, number)| number);
    count.parse::<u32>().is_ok() && number.parse::<u32>().is_ok_and(|number| number > 1)
}

impl FileSystem for GivenFiles {
    fn open(&self, path: &Path) -> Result<Source> {
        let Given { number, size } = self.get(path)?;
        Ok(Source::custom(
            path,
            GivenFile { number, size, read: self.read, window: Mutex::default() },
        ))
    }

    fn names(&self, folder: &Path) -> Result<Vec<String>> {
        let inside = self.files.keys().filter(|path| path.parent() == Some(folder));
        let names: Vec<String> =
            inside.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
        match names.is_empty() {
            true => Err(Error::new(ErrorKind::NotFound, "no such folder").in_file(folder)),
            false => Ok(names),
        }
    }

    fn exists(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }
}

/// A file, and the bytes around those that were read last.
struct GivenFile {
    number: usize,
    size: u64,
    read: ReadPart,
    window: Mutex<Window>,
}

#[derive(Default)]
struct Window {
    offset: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// The bytes from `offset` on, if all of them are here.
    fn part(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        self.bytes.get(start..start.checked_add(len)?)
    }
}

impl fmt::Debug for GivenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GivenFile(number {}, {} bytes)", self.number, self.size)
    }
}

impl ReadAt for GivenFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if out.len() >= WINDOW {
            return (self.read)(self.number, offset, out);
        }
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if window.part(offset, out.len()).is_none() {
            let left = self.size.saturating_sub(offset);
            let len = usize::try_from(left).unwrap_or(usize::MAX).min(WINDOW);
            window.bytes.clear();
            window.bytes.resize(len, 0);
            window.offset = offset;
            if let Err(error) = (self.read)(self.number, offset, &mut window.bytes) {
                window.bytes.clear();
                return Err(error);
            }
        }
        let part = window.part(offset, out.len());
        out.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek, SeekFrom};

    use super::*;

    /// The files of the repository's sample, by number.
    static SAMPLES: &[&str] = &[
        "sample-Q8_0.gguf",
        "mlx-4bit/config.json",
        "mlx-4bit/model.safetensors",
        "hf/config.json",
        "hf/model.safetensors",
    ];

    fn path(number: usize) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/sample").join(SAMPLES[number])
    }

    fn read(number: usize, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut file = File::open(path(number))?;
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(out)
    }

    fn given(paths: &[&str]) -> GivenFiles {
        let size = |number: usize| path(number).metadata().unwrap().len();
        let sized =
            paths.iter().enumerate().map(|(number, path)| ((*path).to_owned(), size(number)));
        GivenFiles::new(sized, read)
    }

    #[test]
    fn folders_and_files_are_models() {
        let (models, errors) = given(SAMPLES).models();
        assert!(errors.is_empty(), "{errors:?}");
        let found: Vec<_> = models.iter().map(|model| (model.path(), model.container())).collect();
        let expected = [("sample-Q8_0.gguf", "gguf"), ("mlx-4bit", "mlx"), ("hf", "safetensors")];
        assert_eq!(found, expected.map(|(path, container)| (Path::new(path), container)));
        for model in &models {
            let disk = Model::open(path(0).with_file_name("").join(model.path())).unwrap();
            for (given, own) in model.stored_tensors().zip(disk.stored_tensors()) {
                assert_eq!(given.name(), own.name());
                assert_eq!(*given.dequantize().unwrap(), *own.dequantize().unwrap());
            }
        }
    }

    #[test]
    fn what_cannot_be_opened_is_said() {
        let (models, errors) = given(&["sample.gguf", "broken.gguf", "notes.txt"]).models();
        assert_eq!((models.len(), errors.len()), (1, 1));
        assert!(errors[0].to_string().starts_with("broken.gguf: "), "{}", errors[0]);
        let list = [("readme.txt".to_owned(), 10)];
        let (models, errors) = GivenFiles::new(list, |_, _, out| {
            out.fill(b'x');
            Ok(())
        })
        .models();
        assert_eq!((models.len(), errors.len()), (0, 1));
        let (models, errors) = GivenFiles::new([], read).models();
        assert_eq!((models.len(), errors.len()), (0, 0));
    }

    #[test]
    fn shards_after_the_first_are_no_models() {
        for (name, later) in [
            ("a-00001-of-00003.gguf", false),
            ("a-00002-of-00003.gguf", true),
            ("a-of-b.gguf", false),
            ("x-2-of-3", true),
        ] {
            assert_eq!(is_later_shard(name), later, "{name}");
        }
    }

    #[test]
    fn a_window_serves_short_reads() {
        let file = given(&["a"]);
        let source = file.open(Path::new("a")).unwrap();
        let mut whole = vec![0; usize::try_from(source.len()).unwrap()];
        read(0, 0, &mut whole).unwrap();
        for (offset, len) in
            [(0, 10), (5, 5), (100_000, 300_000), (99_000, 4000), (0, 1), (whole.len() - 3, 3)]
        {
            let mut out = vec![0; len];
            source.read_at(offset as u64, &mut out).unwrap();
            assert_eq!(out, whole[offset..offset + len]);
        }
        let failing =
            GivenFiles::new([("a".to_owned(), 9)], |_, _, _| Err(io::Error::other("gone")));
        let error = failing.open(Path::new("a")).unwrap().read_at(2, &mut [0; 3]).unwrap_err();
        assert_eq!(error.to_string(), "a: cannot read (at byte 2): gone");
    }
}
