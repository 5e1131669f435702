//! Runs a plan and reports the result, for every subcommand that writes.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use weighbridge::bytes::Text;
use weighbridge::ops;
use weighbridge::write::{
    ExistingFile, Method, Outcome, PlanReport, PlannedTensor, ReportedFile, ReportedTensor,
};
use weighbridge::{Model, Progress, WriteOptions, WritePlan};

use crate::args::write::{Whole, Writing};
use crate::failure;
use crate::interrupt::Watch;
use crate::json::{self, SCHEMA};
use crate::layers::Rows;
use crate::print::{
    self, Amount, Bar, Screen, Table, bits, bytes, count, left, plural, right, shape, shown,
};
use crate::{Done, Status, Stop, note};

/// The report as JSON.
#[derive(Serialize)]
struct Document<'r, 'p> {
    schema: u32,
    #[serde(flatten)]
    report: &'r PlanReport<'p>,
}

/// A plan, before it is run.
pub(crate) struct Prepared {
    /// The model that is read.
    pub(crate) model: Model,
    pub(crate) plan: WritePlan,
    /// The file or directory to write.
    pub(crate) dst: PathBuf,
    /// Files beside the model that the plan was made from: an importance matrix, adapters.
    pub(crate) others: Vec<PathBuf>,
}

/// A destination in the current folder: the source's name without a type of floats, and an ending. In the cache of the
/// Hugging Face hub, folders have the name of their repository.
pub(crate) fn default_name(src: &Path, ending: &str) -> PathBuf {
    let file = std::path::absolute(src).unwrap_or_else(|_| src.to_path_buf());
    let name = match file.is_file() {
        true => file.file_stem(),
        false => repository(&file).or_else(|| file.file_name()),
    };
    let name = name.unwrap_or_default().to_string_lossy();
    // `hf://ORG/NAME@REVISION`, `hf://ORG/NAME/FILE.gguf`.
    let name = if src.exists() { &name } else { name.split('@').next().unwrap_or(&name) };
    let name = name.strip_suffix(".gguf").unwrap_or(name).replace(':', "-");
    let plain = ["-F16", "-BF16", "-F32", "-f16", "-bf16", "-f32"];
    let name = plain.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
    format!("{name}{ending}").into()
}

/// A destination in whose name the placeholders of llama.cpp's converter stand for the type: `model-{ftype}.gguf`.
pub(crate) fn with_type(dst: PathBuf, name: Option<&str>) -> PathBuf {
    let (Some(path), Some(name)) = (dst.to_str().filter(|path| path.contains('{')), name) else {
        return dst;
    };
    let (lower, upper) = (name.to_lowercase(), name.to_uppercase());
    let small = ["{ftype}", "{outtype}", "{}"].map(|it| (it, &lower));
    let large = ["{FTYPE}", "{OUTTYPE}"].map(|it| (it, &upper));
    let all = small.into_iter().chain(large);
    all.fold(path.to_owned(), |path, (it, name)| path.replace(it, name)).into()
}

/// The path of a file: the one that is given, or in a folder that is given the default one.
pub(crate) fn file_in(dst: PathBuf, name: impl FnOnce() -> PathBuf) -> PathBuf {
    if dst.is_dir() { dst.join(name()) } else { dst }
}

/// The name of a repository whose folder in the hub's cache, `models--ORG--NAME`, or a snapshot in it is given.
fn repository(folder: &Path) -> Option<&OsStr> {
    let snapshots = folder.parent().filter(|above| above.ends_with("snapshots"));
    let folder = snapshots.and_then(Path::parent).unwrap_or(folder);
    let name = folder.file_name()?.to_str()?.strip_prefix("models--")?;
    Some(OsStr::new(name.rsplit("--").next()?))
}

/// Refuses a file that exists before the plan is made, which may take seconds. That the file is the
/// source is for the plan to say.
pub(crate) fn check_file(src: &Path, dst: &Path, args: &Writing) -> Result<(), Stop> {
    let same = |other: &Path| other.canonicalize().ok();
    let is_source = same(src).is_some_and(|src| Some(src) == same(dst));
    let is_folder = dst.symlink_metadata().is_ok_and(|found| found.is_dir());
    let existing = if args.overwrite { ExistingFile::Overwrite } else { ExistingFile::Refuse };
    match is_source || is_folder {
        true => Ok(()),
        false => Ok(weighbridge::write::check_file(dst, existing)?),
    }
}

/// Runs a plan, or shows it with `--dry-run`.
pub(crate) fn run(model: &Model, plan: &WritePlan, dst: &Path, args: &Writing) -> Done {
    run_whole(model, plan, dst, Whole::default(), args)
}

/// Like [`run`], for a model that must be complete unless `whole` allows otherwise.
pub(crate) fn run_whole(
    model: &Model,
    plan: &WritePlan,
    dst: &Path,
    whole: Whole,
    args: &Writing,
) -> Done {
    let options = whole.options().overwrite(args.overwrite);
    let mut report = plan.report_at(dst, &options)?;
    // Notes on what is merged or left out would be untrue if nothing is written.
    if !args.dry_run {
        plan.check_place(dst, &options)?;
    }
    if !plan.missing.is_empty() {
        note(&format!("the model is incomplete; missing: {}", plan.missing.join(", ")));
    }
    plan.notes.iter().for_each(|text| note(text));
    let start = Instant::now();
    if !args.dry_run {
        let written = execute(plan, dst, options, args)?;
        report.ran(&written, start.elapsed().as_secs_f64());
        for (link, target) in &written.replaced_links {
            let (link, target) = (shown(link), shown(target));
            note(&format!("{link}: replaced the symbolic link; {target} is unchanged"));
        }
    }
    match args.json {
        true => {
            // Those of opening the model, of the plan and of the run.
            report.notes = failure::take_notes();
            json::write(&Document { schema: SCHEMA, report: &report })?;
        }
        false if args.quiet => writeln!(std::io::stdout(), "{}", shown(dst))?,
        false if args.dry_run => write_plan(&report, model, plan, dst, args.all)?,
        false => write_text(&report, plan, dst)?,
    }
    Ok(Status::Fine)
}

fn execute(
    plan: &WritePlan,
    dst: &Path,
    options: WriteOptions<'_>,
    args: &Writing,
) -> Result<weighbridge::write::WriteReport, Stop> {
    let watch = interruptible_bar();
    let options = options.threads(args.threads).memory(args.max_memory).progress(&watch);
    let written = plan.run(dst, &options);
    drop(watch);
    Ok(written?)
}

/// Shows progress on a bar until the user presses Ctrl-C.
pub(crate) fn interruptible_bar() -> impl Fn(Progress) -> ControlFlow<()> {
    // From now on: the first progress is reported once files exist.
    let (bar, watch) = (Bar::new(), Watch::new());
    move |progress| match watch.is_interrupted() {
        true => ControlFlow::Break(()),
        false => bar.show(progress),
    }
}

fn elements(report: &PlanReport<'_>) -> u64 {
    report.tensors.iter().map(|tensor| tensor.shape.iter().product::<u64>()).sum()
}

fn bits_per_weight(report: &PlanReport<'_>) -> Option<f64> {
    let (elements, bytes) = (elements(report), report.tensors.iter().map(|t| t.bytes).sum::<u64>());
    (elements > 0).then(|| bytes as f64 * 8.0 / elements as f64)
}

/// Whether a file holds one tensor, or the experts of one layer, under their name, as a blob in
/// Ollama's store does.
fn is_blob(file: &ReportedFile<'_>) -> bool {
    let own = |tensor: &&str| !file.name.is_empty() && tensor.starts_with(file.name);
    !file.tensors.is_empty() && file.tensors.iter().all(own)
}

/// `5 copied, 15 quantized`.
fn methods(plan: &WritePlan) -> String {
    let counts = Method::ALL.iter().filter_map(|how| {
        let number = plan.tensors.iter().filter(|tensor| tensor.method == *how).count();
        (number > 0).then(|| format!("{number} {}", method(*how)))
    });
    let lossless = plan.tensors.iter().all(|tensor| tensor.method.is_lossless())
        && plan.tensors.iter().any(|tensor| tensor.method != Method::Generated);
    let all = if lossless { "; all values unchanged" } else { "" };
    format!("{}{all}", counts.collect::<Vec<_>>().join(", "))
}

/// The name of what is written. A single shard has another name than was given: `x-00001-of-00001.gguf`.
fn title(report: &PlanReport<'_>, dst: &Path) -> String {
    match report.files.as_slice() {
        [only] if only.name.ends_with(".gguf") => shown(&dst.with_file_name(only.name)),
        _ => shown(dst),
    }
}

/// The report of a dry run: the model that would be written, as `inspect` shows models.
fn write_plan(
    report: &PlanReport<'_>,
    model: &Model,
    plan: &WritePlan,
    dst: &Path,
    all: bool,
) -> Result<(), Stop> {
    let mut out = print::stdout();
    let mut summary = ops::summarize(model);
    summary.file_type = plan.file_type.map(|file_type| file_type.to_string());
    summary.main_dtype = main_dtype(plan);
    summary.bits_per_weight = bits_per_weight(report);
    let files = report.files.len();
    let format = plan.format.to_lowercase();
    let format = if files > 1 { format!("{format}, {files} files") } else { format };
    let (tensors, weights) = (report.tensors.len(), elements(report));
    let amount = Amount { tensors, weights, bytes: report.bytes };
    let mut fields = print::header(&summary, format, amount);
    fields.add("tensors", methods(plan));
    fields.write(&title(report, dst), &mut out)?;
    let shards = report.files.iter().filter(|file| !file.tensors.is_empty() && !is_blob(file));
    let shards = shards.count() > 1;
    if files > 1 {
        writeln!(out)?;
        write_files(&report.files, shards, &mut out)?;
    }
    if !plan.tensors.is_empty() {
        writeln!(out)?;
        write_tensors(report, plan, shards, all, &mut out)?;
    }
    write_reasons(plan, all, &mut out)?;
    if !report.replaced.is_empty() {
        writeln!(out)?;
        write_replaced("would replace or delete", &report.replaced, &mut out)?;
    }
    writeln!(out, "\ndry run: nothing was written")?;
    out.flush()?;
    Ok(())
}

/// The files that are replaced, or deleted with their directory.
pub(crate) fn write_replaced(
    verb: &str,
    paths: &[impl AsRef<Path>],
    out: &mut Screen<impl Write>,
) -> Result<(), Stop> {
    let files = plural(paths.len(), "existing file");
    let names: Vec<String> = paths.iter().map(|path| shown(path.as_ref())).collect();
    Ok(out.paragraph(&format!("{verb} {files}: {}", names.join(", ")), 4)?)
}

/// The quantized dtype of most weights, or the dtype of most if none is quantized.
fn main_dtype(plan: &WritePlan) -> Option<String> {
    let mut sums: Vec<(bool, u64, String)> = Vec::new();
    for tensor in &plan.tensors {
        let (label, elements) = (label(tensor), tensor.shape.iter().product::<u64>());
        match sums.iter_mut().find(|(.., other)| *other == label) {
            Some((_, sum, _)) => *sum = sum.saturating_add(elements),
            None => sums.push((tensor.dtype.is_quantized(), elements, label)),
        }
    }
    sums.into_iter().max_by_key(|(quantized, sum, _)| (*quantized, *sum)).map(|(.., label)| label)
}

/// The dtype of an output tensor, with its group size.
fn label(tensor: &PlannedTensor) -> String {
    match tensor.group_size {
        Some(size) => format!("{} g{size}", tensor.dtype),
        None => tensor.dtype.to_string(),
    }
}

/// A row for each file, except blobs of single tensors. With `shards`, files are numbered.
fn write_files(
    files: &[ReportedFile<'_>],
    shards: bool,
    out: &mut Screen<impl Write>,
) -> Result<(), Stop> {
    let columns = [right("FILE"), left("NAME").middle(24), right("TENSORS"), right("SIZE")];
    let mut table = Table::new(if shards { &columns } else { &columns[1..] });
    let mut blobs = (0, 0);
    for (number, file) in (1..).zip(files) {
        if is_blob(file) {
            blobs = (blobs.0 + 1, blobs.1 + file.bytes);
            continue;
        }
        let name = if file.name.is_empty() { file.role } else { file.name };
        let tensors = match file.tensors.len() {
            0 => "-".to_owned(),
            tensors => tensors.to_string(),
        };
        let number = shards.then(|| number.to_string());
        let cells = [name.to_owned(), tensors, bytes(file.bytes)];
        table.row(number.into_iter().chain(cells));
    }
    table.write(out)?;
    if blobs.0 > 0 {
        writeln!(out, "and {} of tensors, {}", plural(blobs.0, "blob"), bytes(blobs.1))?;
    }
    Ok(())
}

/// The common properties of tensors that share a row of a plan.
type Alike<'p> = (usize, &'p [u64], &'p str, String, Method);

/// A row for each tensor, by file and name. Tensors that differ only in their layer number share a
/// row unless `all` is set.
fn write_tensors(
    report: &PlanReport<'_>,
    plan: &WritePlan,
    shards: bool,
    all: bool,
    out: &mut Screen<impl Write>,
) -> Result<(), Stop> {
    // The files of each name, in order: every rank has tensors with the same names.
    let mut files: HashMap<&str, VecDeque<usize>> = HashMap::new();
    for (number, file) in (1..).zip(&report.files).filter(|_| shards) {
        file.tensors.iter().for_each(|name| files.entry(name).or_default().push_back(number));
    }
    let tensors = plan.tensors.iter().map(|tensor| {
        let own = files.get_mut(tensor.name.as_str()).and_then(VecDeque::pop_front);
        (own.unwrap_or(0), tensor)
    });
    let mut tensors: Vec<(usize, &PlannedTensor)> = tensors.collect();
    tensors.sort_by(|(file, a), (other, b)| {
        let [first, second] = [a, b].map(|tensor| Text::new(tensor.name.as_bytes()));
        file.cmp(other).then_with(|| first.natural_cmp(second))
    });
    let mut rows: Rows<'_, Alike<'_>, u64> = Rows::new(!all);
    for (file, tensor) in tensors {
        let (shape, from, method) = (&*tensor.shape, &*tensor.from, tensor.method);
        let alike = (file, shape, from, label(tensor), method);
        rows.add(&tensor.name, alike, tensor.bytes, |sum, more| *sum = sum.saturating_add(more));
    }
    // A split or merged model has the dtypes that it had.
    let copies = plan.tensors.iter().all(|tensor| tensor.method == Method::Copied);
    let mut columns = vec![left("NAME").middle(22)];
    let shape_column = right("SHAPE").optional(2);
    columns.extend(match copies {
        true => vec![left("DTYPE"), shape_column],
        false => vec![shape_column, left("FROM"), left("TO"), left("METHOD").optional(1)],
    });
    columns.push(right("SIZE"));
    if shards {
        columns.insert(0, right("FILE"));
    }
    let mut table = Table::new(&columns);
    for row in rows.into_rows() {
        let (file, dims, from, to, method) = &row.alike;
        let (dims, from, to) = (shape(dims), (*from).to_owned(), to.clone());
        let middle = match copies {
            true => vec![to, dims],
            false => vec![dims, from, to, method.name().to_owned()],
        };
        let number = shards.then(|| file.to_string());
        let cells = number.into_iter().chain([row.name()]).chain(middle);
        table.row(cells.chain([bytes(row.value)]));
    }
    table.write(out)?;
    Ok(())
}

/// Writes why tensors are produced as they are, and what of the source is left out, one line for each reason.
fn write_reasons(plan: &WritePlan, all: bool, out: &mut Screen<impl Write>) -> Result<(), Stop> {
    let tensors = plan.tensors.iter().filter_map(|tensor| {
        Some((method(tensor.method), tensor.reason.as_deref()?, tensor.name.as_str()))
    });
    let left_out = plan.account.items.iter().filter(|item| item.outcome == Outcome::LeftOut);
    let left_out = left_out.map(|item| ("left out", item.detail.as_str(), item.name.as_str()));
    let mut reasons: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for (how, why, name) in tensors.chain(left_out) {
        match reasons.iter_mut().find(|row| (row.0, row.1) == (how, why)) {
            Some((.., names)) => names.push(name),
            None => reasons.push((how, why, vec![name])),
        }
    }
    if !reasons.is_empty() {
        writeln!(out)?;
    }
    for (how, why, names) in reasons {
        let shown = if all { names.len() } else { 1 };
        let first = names.iter().take(shown).map(|name| Text::new(name.as_bytes()).brief());
        let first = first.collect::<Vec<_>>().join(", ");
        let more = match names.len().saturating_sub(shown) {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        writeln!(out, "{how}: {} ({first}{more})", Text::new(why.as_bytes()).brief())?;
    }
    Ok(())
}

/// The method in text reports.
fn method(method: Method) -> &'static str {
    match method {
        Method::Exact => "converted exactly",
        other => other.name(),
    }
}

fn write_text(report: &PlanReport<'_>, plan: &WritePlan, dst: &Path) -> Result<(), Stop> {
    let mut out = print::stdout();
    let bold = anstyle::Style::new().bold();
    let elements = elements(report);
    let name = match plan.files().len() {
        1 => title(report, dst),
        files => format!("{} ({})", shown(dst), plural(files, "file")),
    };
    writeln!(
        out,
        "{bold}{name}{bold:#}: {}, {} weights, {}{}",
        plural(report.tensors.len(), "tensor"),
        count(elements),
        bytes(report.bytes),
        match bits_per_weight(report) {
            Some(each) => format!(" ({} bits per weight)", bits(Some(each))),
            None => String::new(),
        }
    )?;
    writeln!(out, "{}", methods(plan))?;
    let mut requantized: Vec<(f64, &str, &str)> = report
        .tensors
        .iter()
        .filter_map(|tensor| Some((tensor.relative_rms?, tensor.name, tensor.from)))
        .collect();
    requantized.sort_by(|a, b| b.0.total_cmp(&a.0));
    if let Some((rms, name, from)) = requantized.first() {
        let others = match requantized.len() {
            1 => String::new(),
            several => format!(", the largest of {several} tensors"),
        };
        let percent = rms * 100.0;
        writeln!(
            out,
            "requantization error: {percent:.3} % relative RMS in {name} ({from}){others}"
        )?;
    }
    let lost: Vec<&ReportedTensor<'_>> = report
        .tensors
        .iter()
        .filter(|tensor| tensor.lost_to_infinity > 0 || tensor.lost_to_zero > 0)
        .collect();
    for tensor in lost.iter().take(8) {
        let rounded = print::rounded(tensor.lost_to_infinity, tensor.lost_to_zero);
        writeln!(out, "{}: {rounded}", tensor.name)?;
    }
    if lost.len() > 8 {
        writeln!(out, "rounding did the same in {} more tensors", lost.len() - 8)?;
    }
    if !report.replaced.is_empty() {
        write_replaced("replaced or deleted", &report.replaced, &mut out)?;
    }
    let seconds = report.seconds;
    match seconds < 1.0 {
        true => writeln!(out, "written in {seconds:.2} s")?,
        false => {
            let rate = count(print::whole(elements as f64 / seconds));
            writeln!(out, "written in {seconds:.2} s ({rate} weights/s)")?;
        }
    }
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_have_the_name_of_the_source() {
        for (src, name) in [
            ("hub/models--acme--Tiny-1B", "Tiny-1B"),
            (
                "hub/models--acme--Tiny-1B/snapshots/c1899de289a04d12100db370d81485cdf75e47ca",
                "Tiny-1B",
            ),
            ("models/Tiny-1B-BF16", "Tiny-1B"),
            ("models/snapshots/Tiny", "Tiny"),
        ] {
            assert_eq!(default_name(Path::new(src), ".gguf"), Path::new(&format!("{name}.gguf")));
        }
    }
}
