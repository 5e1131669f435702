//! Compares the files of a model with those that a repository of the Hugging Face hub lists.

use std::path::PathBuf;

use crate::bytes::Text;
use crate::error::Result;
use crate::model::Model;
use crate::progress::Meter;
use crate::remote::Network;
use crate::store::Store;
use crate::threads::Threads;

/// The files of a model that a repository lists, and what is not compared.
#[derive(Debug, Default)]
pub(super) struct HubFiles {
    /// The repository at a commit, as messages show it.
    repository: String,
    /// Files with the digests that the hub states.
    expected: Vec<(PathBuf, String)>,
    /// Faults that need no digest: other lengths, and weights that the repository does not have.
    pub(super) faults: Vec<String>,
    /// The files that were compared, and those that were not.
    pub(super) notes: Vec<String>,
}

impl HubFiles {
    /// The number of files with digests.
    pub(super) fn len(&self) -> usize {
        self.expected.len()
    }

    /// The bytes that [`different`](Self::different) reads.
    pub(super) fn bytes(&self, store: &Store) -> u64 {
        let bytes = self.expected.iter().map(|(path, _)| store.place().len(path));
        bytes.fold(0, u64::saturating_add)
    }

    /// Faults of files whose content is not that of the repository.
    ///
    /// # Errors
    ///
    /// `Io` if a file cannot be read.
    pub(super) fn different(
        &self,
        store: &Store,
        threads: Threads,
        meter: &Meter<'_>,
    ) -> Result<Vec<String>> {
        let wrong = store.different(threads, &self.expected, |bytes| meter.add(bytes))?;
        let fault = |(path, found): (PathBuf, Option<String>)| {
            let listed = self.expected.iter().find(|(other, _)| *other == path);
            let listed = listed.map_or("", |(_, digest)| digest.as_str());
            let (path, repository) = (Text::from_path(&path), &self.repository);
            let found = found.map_or("no content".to_owned(), |found| format!("digest {found}"));
            format!("{path}: {found}, but {repository} has {listed}")
        };
        Ok(wrong.into_iter().map(fault).collect())
    }

    /// Asks the hub for the files of a repository: `org/name`, `org/name@revision`, or
    /// `org/name/file` for a file that has another name here.
    ///
    /// # Errors
    ///
    /// `Mismatch` if it is no such name, or the model is not in files on this machine; `NotFound`;
    /// `Io` if the hub cannot be reached.
    #[cfg(feature = "http")]
    pub(super) fn of(model: &Model, name: &str, network: Option<&Network>) -> Result<Self> {
        listing::find(model, name, network)
    }

    /// Without the feature: an error.
    #[cfg(not(feature = "http"))]
    pub(super) fn of(model: &Model, _: &str, _: Option<&Network>) -> Result<Self> {
        let fault = "this build of weighbridge does not read from servers";
        let error = crate::error::Error::unsupported(fault).in_file(model.path());
        Err(error.advise("enable the cargo feature `http`"))
    }
}

#[cfg(feature = "http")]
mod listing {
    use std::path::Path;

    use super::{HubFiles, Model, Network, Result, Text};
    use crate::error::Error;
    use crate::place::choice::is_companion;
    use crate::place::hub::HubName;
    use crate::remote::{self, Repository};

    /// See [`HubFiles::of`].
    pub(super) fn find(model: &Model, name: &str, network: Option<&Network>) -> Result<HubFiles> {
        let named = HubName::parse(name.strip_prefix("hf://").unwrap_or(name));
        let named = named.filter(|named| named.tag.is_none()).ok_or_else(|| {
            let name = Text::new(name.as_bytes()).brief();
            Error::mismatch(format!("\"{name}\" is no repository of the hub"))
                .advise("give ORG/NAME, ORG/NAME@REVISION, or ORG/NAME/FILE")
        })?;
        let local = model.store().local_files();
        if local.is_empty() {
            let fault = "only files on this machine can be compared with those of the hub";
            return Err(Error::mismatch(fault).in_file(model.path()));
        }
        let repository = Repository::list(&named, &remote::client(network))?;
        let commit = repository.commit.get(..12).unwrap_or(&repository.commit);
        let mut found = HubFiles {
            repository: format!("{}@{} ({commit})", named.repository, named.revision),
            ..HubFiles::default()
        };
        let within = Within { named: &named, repository: &repository };
        let weights: Vec<&Path> = model.files().collect();
        let (mut here, mut compared, mut other) = (Vec::new(), Vec::new(), Vec::new());
        for path in local {
            let relative = relative(&path, model.store().folder());
            here.push(relative.clone());
            let is_weights = weights.contains(&path.as_path());
            let renamed = (is_weights && weights.len() == 1).then(|| within.file()).flatten();
            let listed = match renamed {
                Some(file) => vec![file],
                None => within.of_name(&relative),
            };
            match (listed.as_slice(), is_weights) {
                ([file], _) if found.expects(&path, file, &repository) => {
                    compared.push(relative);
                }
                ([_], _) => {}
                (_, false) => other.push(relative),
                (several, true) => {
                    let count = if several.is_empty() { "no file" } else { "several files" };
                    let (path, repository) = (Text::from_path(&path), &found.repository);
                    found.faults.push(format!(
                        "{path}: {repository} has {count} of this name; ORG/NAME/FILE names another"
                    ));
                }
            }
        }
        let absent = within.absent(&here, model.store().is_directory());
        let of = &found.repository;
        let lists = [
            (format!("compared with {of}"), compared),
            (format!("not compared, because {of} has no file of this name"), other),
            (format!("in {of}, but not here"), absent),
        ];
        let lists = lists.into_iter().filter(|(_, names)| !names.is_empty());
        found.notes = lists.map(|(what, names)| format!("{what}: {}", names.join(", "))).collect();
        Ok(found)
    }

    impl HubFiles {
        /// Notes the digest of a listed file, or the fault of another length. `false` if there is a fault.
        fn expects(&mut self, path: &Path, file: &str, repository: &Repository) -> bool {
            let listed = repository.listed.get(file).cloned().unwrap_or_default();
            let len = path.metadata().map_or(0, |found| found.len());
            match (listed.size, listed.digest) {
                (Some(size), _) if size != len => {
                    let (path, repository) = (Text::from_path(path), &self.repository);
                    self.faults.push(format!("{path}: {len} bytes, but {repository} has {size}"));
                    return false;
                }
                (_, Some(digest)) => {
                    self.expected.push((path.to_path_buf(), digest.hex().to_owned()));
                }
                (_, None) => {
                    let path = Text::from_path(path);
                    self.faults.push(format!("{path}: {} states no digest", self.repository));
                    return false;
                }
            }
            true
        }
    }

    /// A path below the folder of the model, with `/`; otherwise the name of the file.
    fn relative(path: &Path, folder: Option<&Path>) -> String {
        let below = folder.and_then(|folder| path.strip_prefix(folder).ok());
        let below = below.or_else(|| path.file_name().map(Path::new)).unwrap_or(path);
        let steps = below.iter().map(|step| step.to_string_lossy());
        Text::new(steps.collect::<Vec<_>>().join("/").as_bytes()).brief()
    }

    /// The files of a repository that a name means.
    struct Within<'r> {
        named: &'r HubName,
        repository: &'r Repository,
    }

    impl<'r> Within<'r> {
        /// The file that the name means, if it means one.
        fn file(&self) -> Option<&'r str> {
            let named = self.named.file.as_deref()?;
            self.repository.listed.get_key_value(named).map(|(name, _)| name.as_str())
        }

        /// The folder that the name means, or that of its file, with `/` at the end.
        fn folder(&self) -> String {
            match (self.named.file.as_deref(), self.file()) {
                (Some(_), Some(file)) => {
                    file.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"))
                }
                (Some(folder), None) => format!("{}/", folder.trim_end_matches('/')),
                (None, _) => String::new(),
            }
        }

        /// The files with a name: the one in the folder, or else all in folders below.
        fn of_name(&self, relative: &str) -> Vec<&'r str> {
            let folder = self.folder();
            let exact = format!("{folder}{relative}");
            if let Some((name, _)) = self.repository.listed.get_key_value(&exact) {
                return vec![name];
            }
            let end = format!("/{relative}");
            let names = self.repository.listed.keys().map(String::as_str);
            names.filter(|name| name.starts_with(&folder) && name.ends_with(&end)).collect()
        }

        /// Files for a model in the folder that are not here. A model that is a single
        /// file needs none.
        fn absent(&self, here: &[String], is_directory: bool) -> Vec<String> {
            let folder = self.folder();
            let names = self.repository.listed.keys().filter_map(|name| name.strip_prefix(&folder));
            let names = names.filter(|name| is_directory && is_companion(name));
            let names = names.filter(|name| !here.iter().any(|other| other == name));
            names.map(|name| Text::new(name.as_bytes()).brief()).collect()
        }
    }
}
