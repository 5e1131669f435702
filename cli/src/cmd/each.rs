//! Runs a subcommand on several models.

use std::path::{Path, PathBuf};

use crate::json::Reports;
use crate::{Done, Status, Stop, failure};

/// Runs a command on one model after another. A model that fails does not stop the others; its
/// status is that of the command.
pub(crate) fn each(
    paths: &[PathBuf],
    json: bool,
    mut run: impl FnMut(&Path, &mut Reports) -> Done,
) -> Done {
    let several = paths.len() > 1;
    let mut reports = Reports::begin(several && json)?;
    let (mut status, mut failed) = (Status::Fine, None);
    for path in paths {
        match run(path, &mut reports) {
            Ok(found) => status = status.max(found),
            Err(stop @ (Stop::Library(_) | Stop::Usage(_))) if several => {
                let reported = failure::report(&stop);
                failed.get_or_insert(reported);
            }
            Err(stop) => return Err(stop),
        }
    }
    reports.end()?;
    failed.map_or(Ok(status), |status| Err(Stop::Reported(status)))
}
