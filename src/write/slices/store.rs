//! Slices into an object store: the parts of uploads, which any process may send, and the store joins.
//!
//! A piece of such a plan is a part of a file. `.NAME.slices-DIGEST/` is a folder of the store, with the
//! names of the uploads and the records of the slices.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::cut::{SlicePiece, SliceReport, Slices, SlicesStatus};
use super::description::{array, check_sources};
use super::finished::{self, FinishedFile, FinishedState, status_of};
use super::layout::{CHECKED, RECORDS, folder, put};
use super::produce::SliceBench;
use super::records::{Checksum, SliceRecord};
use crate::bytes::Text;
use crate::container::writer::Placement;
use crate::error::{Error, ErrorKind, Result};
use crate::json::{Json, json};
use crate::remote::{UploadedPart, WritableBucket};
use crate::write::rename::exists;
use crate::write::{WriteOptions, WritePlan};

/// The file that names the uploads, in the folder of a plan.
const UPLOADS: &str = "uploads.json";

/// The files of a plan in a store.
fn places(plan: &WritePlan, path: &Path) -> Vec<PathBuf> {
    match plan.placement {
        Placement::Directory => plan.files().map(|(name, _)| path.join(name)).collect(),
        Placement::Files | Placement::Store(_) => plan.file_paths(path),
    }
}

/// Begins the uploads, unless that was done. If the store has given up one of them, all are begun again.
pub(super) fn begin(slices: &Slices<'_>, bucket: &WritableBucket) -> Result<()> {
    let folder = folder(&slices.path, &slices.digest)?;
    let places = places(slices.plan, &slices.path);
    if let Some(uploads) = uploads(slices, bucket)? {
        // Of uploads that are being joined, some are gone because they are complete.
        if bucket.length(&folder.join(CHECKED))?.is_some() {
            return Ok(());
        }
        let mut all_known = true;
        for (path, upload) in places.iter().zip(&uploads) {
            all_known &= bucket.parts(path, upload)?.is_some();
        }
        if all_known {
            return Ok(());
        }
        abort(bucket, &places, &uploads)?;
        bucket.delete(&folder.join(UPLOADS))?;
    }
    // Records of parts that no upload has.
    for name in bucket.names(&folder.join(RECORDS))? {
        bucket.delete(&folder.join(RECORDS).join(name))?;
    }
    let begun = places.iter().map(|path| bucket.begin(path)).collect::<Result<Vec<String>>>()?;
    let text = json!({ "uploads": begun }).to_string();
    if bucket.write_new(&folder.join(UPLOADS), text.as_bytes())? {
        return Ok(());
    }
    match bucket.read(&folder.join(UPLOADS))? {
        // The answer was lost, and the request repeated.
        Some(found) if found == text.as_bytes() => Ok(()),
        // Another process has begun the same plan meanwhile.
        Some(_) => abort(bucket, &places, &begun),
        None => {
            abort(bucket, &places, &begun)?;
            let fault = "another process begins the uploads, or ends them";
            Err(Error::new(ErrorKind::Io, fault).advise("try again").in_file(&folder))
        }
    }
}

/// Ends uploads, so that the store does not keep their parts.
fn abort(bucket: &WritableBucket, places: &[PathBuf], uploads: &[String]) -> Result<()> {
    places.iter().zip(uploads).try_for_each(|(path, upload)| bucket.abort(path, upload))
}

/// The names of the uploads, in the order of the files; `None` if none were begun.
fn uploads(slices: &Slices<'_>, bucket: &WritableBucket) -> Result<Option<Vec<String>>> {
    let path = folder(&slices.path, &slices.digest)?.join(UPLOADS);
    let Some(text) = bucket.read(&path)? else { return Ok(None) };
    let json: Json = Json::parse(&text).unwrap_or_default();
    let names = array(&json, "uploads").iter().map(|name| name.as_str().map(str::to_owned));
    let names = names.collect::<Option<Vec<String>>>();
    let names = names.filter(|names| names.len() == slices.plan.files().len());
    names.map(Some).ok_or_else(|| Error::malformed("no list of uploads").in_file(&path))
}

fn not_begun(slices: &Slices<'_>) -> Error {
    let fault = "the store has no uploads of the plan: it is finished, or was not begun";
    Error::not_found(fault).advise("make the plan again").in_file(&slices.path)
}

/// Refuses objects that exist. A store cannot replace several objects at once, so an interruption would
/// leave a model of new and old files.
pub(super) fn check_place(
    slices: &Slices<'_>,
    bucket: &WritableBucket,
    options: &WriteOptions<'_>,
) -> Result<()> {
    if options.overwrite {
        let fault = "models in an object store are not overwritten";
        let error =
            Error::unsupported(fault).advise("write to another name, or delete the objects first");
        return Err(error.in_file(&slices.path));
    }
    let checked = folder(&slices.path, &slices.digest)?.join(CHECKED);
    if bucket.length(&checked)?.is_some() {
        return Ok(());
    }
    // A stray index or shard would be read as a part of the model.
    if slices.plan.placement == Placement::Directory
        && let Some(name) = bucket.names(&slices.path)?.first()
    {
        let error = Error::mismatch(format!("the folder is not empty: it has {name}"));
        return Err(error.advise("write to a folder without files").in_file(&slices.path));
    }
    for path in places(slices.plan, &slices.path) {
        if bucket.length(&path)?.is_some() {
            return Err(exists(&path));
        }
    }
    Ok(())
}

/// Writes the parts of a slice, and its record.
pub(super) fn run(
    slices: &Slices<'_>,
    bucket: &WritableBucket,
    (numbers, pieces): (Range<u64>, Vec<SlicePiece<'_>>),
    mut report: SliceReport,
    options: &WriteOptions<'_>,
) -> Result<SliceReport> {
    let records = folder(&slices.path, &slices.digest)?.join(RECORDS);
    let record = records.join(SliceRecord::file_name(&numbers));
    if numbers.is_empty() || bucket.read(&record)?.is_some() {
        report.was_done = true;
        return Ok(report);
    }
    let uploads = uploads(slices, bucket)?.ok_or_else(|| not_begun(slices))?;
    let places = places(slices.plan, &slices.path);
    let done = AtomicU64::new(0);
    let sent = options.threads.in_order(
        pieces.into_iter(),
        || SliceBench::new(options),
        |bench, piece| {
            let number = slices.part_number(&piece);
            let torn = || Error::mismatch("a part that belongs to no file");
            let (path, upload) =
                places.get(piece.file).zip(uploads.get(piece.file)).ok_or_else(torn)?;
            let bytes = piece.make(bench)?;
            let tag = bucket.put_part(path, upload, number, bytes)?;
            let done = done.fetch_add(piece.len(), Ordering::Relaxed) + piece.len();
            options.progress.report(done, report.bytes)?;
            Ok((Checksum::of(bytes), tag))
        },
    )?;
    // What was read may have changed meanwhile.
    check_sources(&slices.description)?;
    let (checksums, tags): (Vec<Checksum>, Vec<String>) = sent.into_iter().unzip();
    let name = format!("{}/{}", report.slice, report.of);
    let checksum = Checksum::of_all(&checksums);
    let text = SliceRecord { name, pieces: numbers, checksum, tags }.to_json();
    bucket.write(&record, text.as_bytes())?;
    // Another worker may have written the same parts, and `finish` joined them.
    if bucket.length(&folder(&slices.path, &slices.digest)?.join(UPLOADS))?.is_none() {
        bucket.delete(&record)?;
        return Err(not_begun(slices));
    }
    Ok(report)
}

/// The records of slices, in the order of their pieces.
fn records(bucket: &WritableBucket, folder: &Path) -> Result<Vec<SliceRecord>> {
    let folder = folder.join(RECORDS);
    let mut found = Vec::new();
    for name in bucket.names(&folder)? {
        let path = folder.join(&name);
        // Another process may have deleted it.
        if let Some(text) = bucket.read(&path)? {
            found.push(SliceRecord::parse(&text, &path)?);
        }
    }
    found.sort_by_key(|record| (record.pieces.start, record.pieces.end));
    Ok(found)
}

/// The progress of a plan.
pub(super) fn status(
    path: &Path,
    record: &Path,
    digest: &str,
    pieces: u64,
) -> Result<SlicesStatus> {
    let bucket = WritableBucket::of(path, None)?;
    let folder = folder(path, digest)?;
    let records = records(&bucket, &folder)?;
    for name in [UPLOADS, CHECKED] {
        if bucket.length(&folder.join(name))?.is_some() {
            return Ok(status_of(records, pieces, FinishedState::Unknown));
        }
    }
    let state = finished::state(record, digest, |file| is_same(&bucket, file))?;
    Ok(status_of(records, pieces, state))
}

/// Whether an object is still the same. Stores that give no ETag are compared by length alone.
fn is_same(bucket: &WritableBucket, file: &FinishedFile) -> Result<bool> {
    let found = bucket.identity(&file.path)?;
    let version = |version: Option<String>| version.is_none() || version == file.version;
    Ok(found.is_some_and(|(bytes, tag)| bytes == file.bytes && version(tag)))
}

/// Deletes the objects of a plan whose files are in their places.
fn clear(bucket: &WritableBucket, folder: &Path) -> Result<()> {
    for name in bucket.names(&folder.join(RECORDS))? {
        bucket.delete(&folder.join(RECORDS).join(name))?;
    }
    bucket.delete(&folder.join(UPLOADS))?;
    bucket.delete(&folder.join(CHECKED))
}

/// Checks that the store has every part, and joins the parts.
pub(super) fn finish(
    slices: &Slices<'_>,
    bucket: &WritableBucket,
    record: &Path,
    options: &WriteOptions<'_>,
) -> Result<Vec<PathBuf>> {
    let folder = folder(&slices.path, &slices.digest)?;
    let state = finished::state(record, &slices.digest, |file| is_same(bucket, file))?;
    if matches!(state, FinishedState::Finished) {
        clear(bucket, &folder)?;
        return Ok(slices.written());
    }
    check_place(slices, bucket, options)?;
    let checked = folder.join(CHECKED);
    // A run that was ended while it joined parts goes on.
    let begun = bucket.length(&checked)?.is_some();
    let uploads = uploads(slices, bucket)?;
    if uploads.is_none() && !begun {
        return Err(not_begun(slices));
    }
    let records = records(bucket, &folder)?;
    if !begun {
        slices.check_records(&records)?;
    }
    let places = places(slices.plan, &slices.path);
    let uploads = uploads.unwrap_or_default();
    let mut complete = Vec::new();
    for (number, path) in places.iter().enumerate() {
        let parts = uploads.get(number).map(|upload| bucket.parts(path, upload)).transpose()?;
        match parts.flatten() {
            Some(parts) => {
                check_parts(slices, bucket, &records, number, path, &parts)?;
                complete.push((number, parts));
            }
            // Its parts were joined by a run that was ended.
            None if begun => {}
            None => return Err(not_begun(slices)),
        }
        let done = number as u64 + 1;
        options.progress.report(done, places.len() as u64)?;
    }
    bucket.write(&checked, b"")?;
    // The first file of a split model is the last to appear, and the documents of a directory are.
    if slices.plan.placement != Placement::Directory {
        complete.reverse();
    }
    for (number, parts) in complete {
        if let Some((path, upload)) = places.get(number).zip(uploads.get(number)) {
            bucket.complete(path, upload, &parts)?;
        }
    }
    let mut files = Vec::new();
    for (path, (_, len)) in places.iter().zip(slices.plan.files()) {
        let found = bucket.identity(path)?;
        let Some((bytes, version)) = found.clone().filter(|(bytes, _)| *bytes == len) else {
            let found = found.map_or("nothing".to_owned(), |(bytes, _)| format!("{bytes} bytes"));
            let fault = format!("the store has {found}, but the file has {len} bytes");
            return Err(Error::mismatch(fault).advise("make the plan again").in_file(path));
        };
        files.push(FinishedFile { path: path.clone(), bytes, version, checksum: None });
    }
    put(record, finished::record_of(&slices.digest, &files).as_bytes())?;
    clear(bucket, &folder)?;
    Ok(slices.written())
}

/// Checks that the store has the parts of a file that the slices wrote. Deletes the records of slices
/// whose parts it has not.
fn check_parts(
    slices: &Slices<'_>,
    bucket: &WritableBucket,
    records: &[SliceRecord],
    file: usize,
    path: &Path,
    parts: &[UploadedPart],
) -> Result<()> {
    let own = slices.items.iter().filter(|item| item.file == file);
    let found: BTreeMap<u64, &UploadedPart> =
        parts.iter().map(|part| (part.number, part)).collect();
    for (number, item) in (1..).zip(own) {
        // Two slices may have written the part, each with its own tag.
        let by = records.iter().filter(|record| record.pieces.contains(&item.first));
        let place = |record: &SliceRecord| usize::try_from(item.first - record.pieces.start).ok();
        let tag = |record: &SliceRecord| record.tags.get(place(record)?).cloned();
        let has = |part: &&UploadedPart| {
            part.bytes == item.bytes
                && by.clone().any(|record| tag(record).as_ref() == Some(&part.tag))
        };
        if found.get(&number).copied().filter(has).is_some() {
            continue;
        }
        let names: Vec<&str> = by.clone().map(|record| record.name.as_str()).collect();
        let fault = match found.get(&number) {
            None => "is missing".to_owned(),
            Some(part) => format!(
                "has {} bytes and the tag {}, but others were sent, {} bytes",
                part.bytes,
                Text::new(part.tag.as_bytes()).brief(),
                item.bytes
            ),
        };
        let fault = format!("part {number} of the upload {fault} (slice {})", names.join(", "));
        for record in by {
            let folder = folder(&slices.path, &slices.digest)?.join(RECORDS);
            bucket.delete(&folder.join(SliceRecord::file_name(&record.pieces)))?;
        }
        return Err(Error::mismatch(fault).advise("run the slice again").in_file(path));
    }
    let planned = slices.items.iter().filter(|item| item.file == file).count();
    if found.len() != planned {
        let fault = format!("the upload has {} parts, but {planned} are planned", found.len());
        return Err(Error::mismatch(fault).advise("make the plan again").in_file(path));
    }
    Ok(())
}
