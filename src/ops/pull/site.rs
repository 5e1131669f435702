//! Files behind plain addresses, downloaded to a folder. Their server states no digests, so that
//! length, `ETag` and `Last-Modified` stand for the content.

use std::sync::Arc;

use super::plan::{PullFile, PullOptions, PullPlan, Target, partial_in_folder};
use super::transfer::{Content, Download};
use crate::error::{AdvisedOption, Error, Result};
use crate::remote::{Client, files_at};

/// Plans the download of a file, or of the model in a folder.
pub(super) fn plan(name: &str, options: &PullOptions, client: &Arc<Client>) -> Result<PullPlan> {
    let folder = options.folder.clone().ok_or_else(|| {
        Error::mismatch("no program has a place for files of plain addresses")
            .advise_option("give a folder with {}", AdvisedOption::Folder)
    })?;
    let (found, is_folder) = files_at(name, client)?;
    let (mut files, mut downloads) = (Vec::new(), Vec::new());
    for file in found {
        if options.choose.as_ref().and_then(|choose| choose(&file.name)) == Some(false) {
            continue;
        }
        let place = folder.join(&file.name);
        let size = file.version.size;
        let download = Download {
            address: file.address,
            size,
            partial: partial_in_folder(&place),
            lock: None,
            copy: None,
            content: Content::Version(file.version),
            place,
        };
        if download.place.symlink_metadata().is_ok() && !download.is_there() {
            let fault = format!("already exists, and is no file of {size} bytes");
            return Err(Error::mismatch(fault)
                .advise("delete it, or give another folder")
                .in_file(&download.place));
        }
        files.push(PullFile { name: file.name, bytes: size, present: download.there() });
        downloads.push(download);
    }
    let path = match downloads.first().filter(|_| !is_folder) {
        Some(first) => first.place.clone(),
        None => folder,
    };
    Ok(PullPlan {
        // What follows may be a signature.
        name: name.split('?').next().unwrap_or_default().to_owned(),
        path,
        files,
        left_out: Vec::new(),
        note: None,
        client: Arc::clone(client),
        connections: options.connections,
        piece: options.piece,
        downloads,
        target: Target::Folder,
    })
}
