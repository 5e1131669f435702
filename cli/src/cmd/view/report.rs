//! `report`: writes an HTML file on a model, or on what two differ.

use std::io::Write;
use std::path::Path;

use super::Done;
use crate::args::Report;
use crate::newfile::NewFile;
use crate::print::Bar;
use crate::{Status, remark};

pub(crate) fn run(args: &Report) -> Done {
    let a = args.open.options().open(&args.a)?;
    remark(&a);
    let b = match &args.b {
        Some(path) => {
            let b = args.open.options().open(path)?;
            remark(&b);
            Some(b)
        }
        None => None,
    };
    // An existing file is found before every value is read.
    let standard = args.output == Path::new("-");
    let file = if standard { None } else { Some(NewFile::create(&args.output, |_| Ok(false))?) };
    let bar = Bar::new();
    let watch = |progress| bar.show(progress);
    let page = weighbridge_web::report(&a, b.as_ref(), &watch)?;
    drop(bar);
    match file {
        Some(mut file) => {
            file.write_all(page.as_bytes()).map_err(|error| {
                crate::failure::io(&args.output, "cannot write the file", error)
            })?;
            file.finish()?;
        }
        None => std::io::stdout().lock().write_all(page.as_bytes())?,
    }
    Ok(Status::Fine)
}
