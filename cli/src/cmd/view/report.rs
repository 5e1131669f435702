//! `view -o`: writes an HTML file on a model, or on the differences of two.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::Done;
use crate::args::View;
use crate::newfile::NewFile;
use crate::print::{Bar, shown};
use crate::{Status, Stop, note, remark};

pub(super) fn run(args: &View, output: &Path) -> Done {
    let open = |path: &PathBuf| args.open.options().open(path).inspect(remark);
    let (a, b) = match args.paths.as_slice() {
        [a] => (open(a)?, None),
        [a, b] => (open(a)?, Some(open(b)?)),
        _ => {
            let fault = "a report is on one model, or on the differences of two: give one or two";
            return Err(Stop::Usage(fault.to_owned()));
        }
    };
    // An existing file is found before every value is read.
    let standard = output == Path::new("-");
    let file = if standard { None } else { Some(NewFile::create(output, |_| Ok(args.overwrite))?) };
    let bar = Bar::new();
    let watch = |progress| bar.show(progress);
    let page = weighbridge_web::report(&a, b.as_ref(), &watch)?;
    drop(bar);
    match file {
        Some(mut file) => {
            file.write_all(page.as_bytes())
                .map_err(|error| crate::failure::io(output, "cannot write the file", error))?;
            file.finish()?;
            note(&format!("wrote {}", shown(output)));
        }
        None => std::io::stdout().lock().write_all(page.as_bytes())?,
    }
    Ok(Status::Fine)
}
