//! Files behind plain addresses: a file, an index, or a folder.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::RemoteModel;
use super::address::{escaped, unescaped};
use super::cache::Version;
use super::client::Client;
use super::file::RemoteFiles;
use crate::bytes::{FileSystem, Source};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::threads::Threads;

/// The files of a folder on a server that cannot list them. Those that a model may have are tried.
struct Site {
    files: RemoteFiles,
    /// The address of the folder, without a slash at its end.
    folder: String,
    /// The suffix of the addresses of files: a signature.
    query: String,
}

/// The addresses are left out, since they may contain a signature.
impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site").field("files", &self.files).finish_non_exhaustive()
    }
}

/// The files by which a model's folder is recognized, in the order in which they are tried.
const MAIN: [&str; 3] =
    ["model.safetensors.index.json", "model.safetensors", "consolidated.safetensors"];

/// Files beside the weights that are listed if they are there.
const BESIDE: [&str; 12] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    "preprocessor_config.json",
];

/// Finds the model that an address means. An address of an index means its folder.
pub(super) fn locate(name: &str, client: &Arc<Client>) -> Result<RemoteModel> {
    let (site, file) = Site::of(name, client);
    let path = PathBuf::from(match file {
        Some(file) => format!("{}/{file}", site.folder),
        None => site.folder.clone(),
    });
    Ok(RemoteModel { files: Arc::new(site), path })
}

/// A file at a plain address.
#[derive(Clone, Debug)]
pub(crate) struct SiteFile {
    /// The last part of the address, unescaped.
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) version: Version,
}

/// The files of the model that an address means, and whether it is a folder. Their starts are
/// fetched.
///
/// # Errors
///
/// `NotFound`; `Io` if the server cannot be reached or refuses access; `Unsupported` if it does not
/// send ranges of a large file; `Mismatch` for a name that can be no file of this machine.
pub(crate) fn files_at(name: &str, client: &Arc<Client>) -> Result<(Vec<SiteFile>, bool)> {
    /// Files that are asked for at the same time.
    const TOGETHER: usize = 8;
    let (site, file) = Site::of(name, client);
    let is_folder = file.is_none();
    let names = match file {
        Some(file) => shards(&file),
        None => site.names(Path::new(&site.folder))?,
    };
    let found = |(): &mut (), name: String| {
        let path = Path::new(&site.folder).join(&name);
        let address = site.address(&path)?;
        let version = site.files.version(&address, &path)?;
        let name = if is_folder { name } else { unescaped(&name) };
        let is_plain = !name.contains(['/', '\\', '\0', ':']) && !matches!(&*name, "" | "." | "..");
        match is_plain {
            true => Ok(SiteFile { name, address, version }),
            false => Err(Error::mismatch("the address ends in no name of a file").in_file(&path)),
        }
    };
    let files = Threads::new(TOGETHER).in_order(names.into_iter(), || (), found)?;
    Ok((files, is_folder))
}

/// All shards of a split GGUF file, by the name of one of them; else the name alone.
fn shards(name: &str) -> Vec<String> {
    let all = || {
        let (rest, count) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
        let (start, number) = rest.rsplit_once('-')?;
        let is_number = |text: &str| text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
        let last = count.parse::<u32>().ok()?;
        if last == 0 || !is_number(number) || !is_number(count) {
            return None;
        }
        Some((1..=last).map(|at| format!("{start}-{at:05}-of-{count}.gguf")).collect())
    };
    all().unwrap_or_else(|| vec![name.to_owned()])
}

impl Site {
    /// The folder of an address, and the file in it that the address names, unless that is an index.
    fn of(name: &str, client: &Arc<Client>) -> (Self, Option<String>) {
        let (address, query) = match name.split_once('?') {
            Some((address, query)) => (address, format!("?{query}")),
            None => (name, String::new()),
        };
        let address = address.trim_end_matches('/');
        let last = address.rsplit('/').next().unwrap_or_default();
        let is_index = last.ends_with(".safetensors.index.json");
        let is_file =
            [".gguf", ".safetensors", ".npz", ".bin"].iter().any(|end| last.ends_with(end));
        let folder = match address.rsplit_once('/') {
            Some((folder, _)) if is_index || is_file => folder,
            _ => address,
        };
        let site = Self { files: RemoteFiles::new(client), folder: folder.to_owned(), query };
        (site, is_file.then(|| last.to_owned()))
    }
}

impl Site {
    fn address(&self, path: &Path) -> Result<String> {
        let name = path.to_str().and_then(|path| path.strip_prefix(self.folder.as_str()));
        let name = name.and_then(|name| name.strip_prefix('/')).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Error::not_found("not in the folder that was opened"))?;
        // The address that was given is escaped already; names from an index are not.
        let name = if name.contains('%') { name.to_owned() } else { escaped(name) };
        Ok(format!("{}/{name}{}", self.folder, self.query))
    }
}

impl Site {
    /// The weight files that an index lists. Opening the model reads the index properly.
    fn indexed(&self, index: &Path) -> Result<BTreeSet<String>> {
        let source = self.open(index)?;
        let most = Limits::default().index_bytes;
        if source.len() > most {
            let error = Error::limit("bytes of index", source.len(), most, "index_bytes");
            return Err(error.in_file(index));
        }
        let text = source.bytes(0..source.len())?;
        let words = text.split(|&byte| byte == b'"').filter_map(|word| str::from_utf8(word).ok());
        let is_file = |word: &&str| word.ends_with(".safetensors") && !word.contains(['/', '\\']);
        Ok(words.filter(is_file).map(str::to_owned).collect())
    }
}

impl FileSystem for Site {
    fn open(&self, path: &Path) -> Result<Source> {
        let address = self.address(path).map_err(|error| error.in_file(path))?;
        self.files.open(&address, path, None)
    }

    fn names(&self, folder: &Path) -> Result<Vec<String>> {
        if folder != Path::new(&self.folder) {
            return Err(Error::not_found("no such folder").in_file(folder));
        }
        let here = |name: &&str| self.exists(&folder.join(name));
        let Some(main) = MAIN.into_iter().find(here) else {
            let fault = "no model at this address: neither model.safetensors nor its index";
            return Err(Error::new(ErrorKind::NotFound, fault)
                .advise("give the address of a .gguf or .safetensors file")
                .in_file(folder));
        };
        let mut names: Vec<String> = BESIDE.into_iter().filter(here).map(str::to_owned).collect();
        if main.ends_with(".json") {
            names.extend(self.indexed(&folder.join(main))?);
        }
        names.push(main.to_owned());
        Ok(names)
    }

    fn exists(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // Asking for each of many shards would take as long as opening it, which says the same.
        let is_shard = name.contains("-of-") && !name.ends_with(".json");
        is_shard || self.open(path).is_ok()
    }
}
