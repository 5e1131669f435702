//! Descriptions of plans: what is written, and from which files.

use std::path::Path;

use crate::json::{Json, json};

use super::produce::work_of;
use crate::bytes::{Access, Source, Text};
use crate::digest::Hasher;
use crate::error::{Error, Result};
use crate::write::out::PlacedTensor;

/// The bytes at the start and at the end of a source that its identity includes.
const SAMPLE: u64 = 64 << 10;

/// The description of a tensor: what it is produced from, and where it goes.
pub(super) fn described(placed: &PlacedTensor, pieces: Option<usize>) -> Json {
    let output = &placed.tensor.output;
    let from = output.producer.view().into_iter().flat_map(crate::model::Tensor::stored_tensors);
    let from: Vec<Json> = from
        .map(|tensor| {
            let place = tensor.place(crate::store::Part::Weight).map(|(_, offset)| offset);
            json!([tensor.name().spelling(), place])
        })
        .collect();
    json!({
        "name": placed.tensor.name,
        "method": output.method.name(),
        "bytes": placed.bytes,
        "work": work_of(placed),
        "offsets": placed.offsets,
        "pieces": pieces,
        "from": from,
    })
}

/// The identity of a file that a plan was made from: its path, length and time of change, and a digest of its start and
/// its end.
pub(super) fn identity(path: &Path) -> Result<Json> {
    let failed = |error| Error::io("cannot read the file", error).in_file(path);
    let path = path.canonicalize().map_err(failed)?;
    let metadata = path.metadata().map_err(failed)?;
    let modified = metadata.modified().ok();
    let since = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let modified = since.map(|since| format!("{}.{:09}", since.as_secs(), since.subsec_nanos()));
    let mut hasher = Hasher::new()?;
    if metadata.is_file() {
        let source = Source::open(&path, Access::Read)?;
        let len = source.len();
        for range in [0..len.min(SAMPLE), len.saturating_sub(SAMPLE)..len] {
            hasher.update(&source.bytes(range)?);
        }
    }
    Ok(json!({
        "path": Text::from_path(&path).spelling(),
        "bytes": metadata.len(),
        "modified": modified,
        "ends_sha256": hasher.finish(),
    }))
}

/// Checks that the files of this machine that a description names did not change since. Files on servers
/// are compared by [`Slices::check`](super::Slices::check).
///
/// # Errors
///
/// `Mismatch`, naming the file, if one has changed; `Io` or `NotFound` if one cannot be read.
pub fn check_sources(description: &Json) -> Result<()> {
    let on_disk = |planned: &&Json| planned.get("version").is_none();
    for planned in array(description, "sources").iter().filter(on_disk) {
        let path = Path::new(planned["path"].as_str().unwrap_or_default());
        let found = identity(path)?;
        for field in ["bytes", "modified", "ends_sha256"] {
            let value = |json: &Json| json.get(field).cloned().unwrap_or_default();
            if value(&found) != value(planned) {
                return Err(changed(field, &value(&found), &value(planned)).in_file(path));
            }
        }
    }
    Ok(())
}

/// Checks that the files on servers have the versions that an earlier description names.
pub(super) fn check_versions(description: &Json, now: &Json) -> Result<()> {
    for planned in array(description, "sources") {
        let Some(version) = planned.get("version") else { continue };
        let same = |found: &&Json| found.get("path") == planned.get("path");
        let Some(found) = array(now, "sources").iter().find(same) else { continue };
        let value = |field: &str| found.get(field).cloned().unwrap_or_default();
        for (field, then) in [("version", version), ("bytes", &planned["bytes"])] {
            if value(field) != *then {
                let path = Path::new(planned["path"].as_str().unwrap_or_default());
                return Err(changed(field, &value(field), then).in_file(path));
            }
        }
    }
    Ok(())
}

fn changed(field: &str, now: &Json, then: &Json) -> Error {
    let fault =
        format!("the file has changed since the plan was made: {field} is {now}, but was {then}");
    Error::mismatch(fault).advise("make a new plan")
}

pub(super) fn array<'j>(json: &'j Json, name: &str) -> &'j [Json] {
    json.get(name).and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

/// The SHA-256 of a description. Members of objects count in the order of their names, since programs
/// may keep them in different orders.
pub(super) fn digest_of(description: &Json) -> Result<String> {
    fn add(json: &Json, hasher: &mut Hasher) {
        match json {
            Json::Object(members) => {
                let mut members: Vec<(&String, &Json)> = members.iter().collect();
                members.sort_by_key(|(name, _)| *name);
                for (name, value) in members {
                    hasher.update(Json::from(name.as_str()).to_string().as_bytes());
                    add(value, hasher);
                }
                hasher.update(b"}");
            }
            Json::Array(values) => {
                values.iter().for_each(|value| add(value, hasher));
                hasher.update(b"]");
            }
            plain => hasher.update(format!("{plain},").as_bytes()),
        }
    }
    let mut hasher = Hasher::new()?;
    add(description, &mut hasher);
    Ok(hasher.finish())
}
