//! `hash`: prints the digests of every tensor, in constant memory.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use weighbridge::ErrorKind;
use weighbridge::bytes::Text;
use weighbridge::ops::{self, HashList, HashOptions, HashReport};

use super::Done;
use crate::args::Hash;
use crate::json::{self, Versioned};
use crate::print::{self, Bar, Table, left, shown};
use crate::{Status, Stop, complain, remark};

pub(crate) fn run(args: &Hash) -> Done {
    let model = args.open.options().open(&args.path)?;
    let list = match &args.save {
        Some(path) => {
            remark(&model);
            Some(Saving::create(path)?)
        }
        None => None,
    };
    let bar = Bar::new();
    let watch = |progress| bar.show(progress);
    let options = HashOptions::new().values(args.values).parts(list.is_some()).progress(&watch);
    let report = ops::hash(&model, &options)?;
    drop(bar);
    if let Some(list) = list {
        // The list format has no field for why a hash is missing.
        let errors = report.tensors.iter().filter_map(|tensor| tensor.error.as_ref());
        let mut failed = errors.filter(|error| error.kind() != ErrorKind::Unsupported);
        if let Some(error) = failed.next() {
            return Err(Stop::Library(error.clone()));
        }
        list.finish(&HashList::new(&report, args.values))?;
    } else if args.json {
        json::write(&Versioned::of(model.path(), &report))?;
    } else {
        remark(&model);
        write_text(&report)?;
    }
    status(&report)
}

fn write_text(report: &HashReport) -> Result<(), Stop> {
    let mut out = print::stdout();
    let values = report.tensors.iter().any(|tensor| tensor.f32_sha256.is_some());
    let digest = left("").end(16);
    let columns = [digest, digest, left("").middle(24)];
    let mut table = Table::plain(if values { &columns } else { &columns[1..] });
    for tensor in &report.tensors {
        let shown = |digest: &Option<String>| digest.clone().unwrap_or_else(|| "-".repeat(64));
        let values = tensor.f32_sha256.as_ref().map(shown);
        let name = Text::new(&tensor.raw_name).spelling().into_owned();
        table.row([shown(&tensor.raw_sha256)].into_iter().chain(values).chain([name]));
    }
    table.write(&mut out)?;
    out.flush()?;
    Ok(())
}

/// The status: tensors that cannot be read do not stop the report, but change the status.
fn status(report: &HashReport) -> Done {
    let errors: Vec<_> = report.tensors.iter().filter_map(|tensor| tensor.error.as_ref()).collect();
    let failed = errors.iter().rev().find(|error| error.kind() != ErrorKind::Unsupported);
    if let Some(error) = failed {
        return Err(Stop::Library((*error).clone()));
    }
    let Some((first, others)) = errors.split_first() else { return Ok(Status::Fine) };
    let more = match others.len() {
        0 => String::new(),
        others => format!("; {others} more cannot be read either"),
    };
    complain(&format!("{first}{more}"), first.advice());
    Ok(Status::Unsupported)
}

/// A hash list that is being written: it appears under its path only when complete.
struct Saving {
    path: PathBuf,
    file: std::io::BufWriter<tempfile::NamedTempFile>,
}

impl Saving {
    /// Refuses to replace a file that is not a hash list: it may be the model.
    fn create(path: &Path) -> Result<Self, Stop> {
        match std::fs::metadata(path) {
            Ok(old)
                if old.is_file()
                    && begins_as_list(path).map_err(|error| failed(path, &error))? => {}
            Ok(_) => {
                let fault = format!(
                    "{}: already exists and is not a hash list: choose another path",
                    shown(path)
                );
                return Err(Stop::Usage(fault));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(path, &error)),
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        // The permissions of any new file, instead of the owner's only.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.prefix(".weighbridge-").tempfile_in(folder);
        let file = file.map_err(|error| failed(path, &error))?;
        Ok(Self { path: path.to_path_buf(), file: std::io::BufWriter::new(file) })
    }

    fn finish(self, list: &HashList) -> Result<(), Stop> {
        let Self { path, mut file } = self;
        write!(file, "{list}").map_err(|error| failed(&path, &error))?;
        let file = file.into_inner().map_err(|error| failed(&path, error.error()))?;
        file.as_file().sync_all().map_err(|error| failed(&path, &error))?;
        file.persist(&path).map_err(|error| failed(&path, &error.error))?;
        Ok(())
    }
}

fn begins_as_list(path: &Path) -> std::io::Result<bool> {
    let mut start = [0; HashList::MAGIC.len()];
    match std::fs::File::open(path)?.read_exact(&mut start) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| start == *HashList::MAGIC.as_bytes()),
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Stop {
    Stop::Path(format!("{}: cannot write the hash list: {error}", shown(path)))
}
