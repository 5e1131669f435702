//! Runs a subcommand on several models.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::{Done, Status, Stop, failure};

/// Runs a command on one model after another. A model that fails does not stop the others; its
/// status is that of the command.
pub(crate) fn each(paths: &[PathBuf], mut run: impl FnMut(&Path) -> Done) -> Done {
    let paths = models(paths);
    let several = paths.len() > 1;
    let (mut status, mut failed) = (Status::Fine, None);
    for path in paths {
        match run(path) {
            Ok(found) => status = status.max(found),
            Err(stop @ (Stop::Library(_) | Stop::Usage(_))) if several => {
                let reported = failure::report(&stop);
                failed.get_or_insert(reported);
            }
            Err(stop) => return Err(stop),
        }
    }
    failed.map_or(Ok(status), |status| Err(Stop::Reported(status)))
}

/// The paths without those of GGUF shards whose first shard is among them: a shard stands for its model.
pub(crate) fn models(paths: &[PathBuf]) -> Vec<&PathBuf> {
    let first = |path: &Path| {
        let stem = path.file_name()?.to_str()?.strip_suffix(".gguf")?;
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (prefix, number) = rest.rsplit_once('-')?;
        let is_later = number.parse::<u32>().is_ok_and(|number| number > 1);
        is_later.then(|| path.with_file_name(format!("{prefix}-00001-of-{count}.gguf")))
    };
    let is_repeated = |path: &Path| first(path).is_some_and(|first| paths.contains(&first));
    paths.iter().filter(|path| !is_repeated(path)).collect()
}

/// Like [`each`], with an empty line between the reports, unless they are JSON.
pub(crate) fn separated(paths: &[PathBuf], json: bool, mut run: impl FnMut(&Path) -> Done) -> Done {
    let mut first = true;
    each(paths, |path| {
        if !std::mem::take(&mut first) && !json {
            writeln!(anstream::stdout())?;
        }
        run(path)
    })
}
