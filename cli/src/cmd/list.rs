//! `list`: prints the library's tables. `completions`: prints completion scripts.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weighbridge::arch;
use weighbridge::bytes::Text;
use weighbridge::container::CONTAINERS;
use weighbridge::device::kernel::{DECODED, KERNELS, Kernel, Operation};
use weighbridge::device::{Cpu, Device};
use weighbridge::dtype::DTYPES;
use weighbridge::inventory::PROGRAMS;
use weighbridge::ops;
use weighbridge::recipe::{FILE_TYPES, FileType, FileTypeDescriptor};
use weighbridge::remote::Network;
use weighbridge::{Error, ErrorKind, OpenOptions};

use super::Done;
use crate::args::{self, Completions, List, Listing};
use crate::json::SCHEMA;
use crate::print::{self, Column, Table, bytes, left, right};
use crate::{Status, Stop, remark};

/// A row's cells under their JSON names.
type Row = Vec<(&'static str, Value)>;

pub(crate) fn run(args: &List) -> Done {
    let text = args.text.as_deref();
    let model = text.filter(|text| text.exists() || args::in_store(&text.to_string_lossy()));
    let (head, mut rows) = match args.what {
        Listing::Types if text.is_none() || model.is_some() => return types(model, args.json),
        Listing::Types => file_types(),
        Listing::Containers => containers(),
        Listing::Architectures => architectures(),
        Listing::Dtypes => dtypes(),
        Listing::Devices => devices(),
        Listing::Kernels => kernels(),
        Listing::Settings => settings(),
    };
    if let Some(text) = text {
        rows = with_text(rows, &text.to_string_lossy())?;
    }
    if args.json {
        let rows: Vec<Value> = rows
            .into_iter()
            .map(|row| Value::Object(row.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()))
            .collect();
        crate::json::write(&json!({"schema": SCHEMA, "rows": rows}))?;
        return Ok(Status::Fine);
    }
    let mut out = print::stdout();
    let mut table = Table::new(&head);
    for row in rows {
        table.row(row.into_iter().map(|(_, value)| cell(&value)));
    }
    table.write(&mut out)?;
    out.flush()?;
    Ok(Status::Fine)
}

/// The rows with a text in a cell: `qwen3`, or the name of a class of transformers.
fn with_text(rows: Vec<Row>, text: &str) -> Result<Vec<Row>, Stop> {
    let lower = text.to_lowercase();
    let ends = ["forcausallm", "forconditionalgeneration", "model"];
    let class =
        ends.iter().find_map(|end| lower.strip_suffix(end)).filter(|class| !class.is_empty());
    let has = |row: &Row, text: &str| {
        row.iter().any(|(_, value)| cell(value).to_lowercase().contains(text))
    };
    for text in [Some(lower.as_str()), class].into_iter().flatten() {
        if rows.iter().any(|row| has(row, text)) {
            return Ok(rows.into_iter().filter(|row| has(row, text)).collect());
        }
    }
    let fault = format!("no row has \"{}\"", Text::new(text.as_bytes()).brief());
    Err(Error::new(ErrorKind::NotFound, fault).into())
}

/// A listing: its columns and rows.
type TableRows = (Vec<Column>, Vec<Row>);

/// The file types of `quantize`, without sizes.
fn file_types() -> TableRows {
    let row = |row: &FileTypeDescriptor| {
        vec![("name", json!(row.name)), ("summary", json!(row.summary.replace('`', "")))]
    };
    let head = vec![left("NAME"), left("DESCRIPTION").end(30)];
    (head, FILE_TYPES.iter().map(row).collect())
}

fn containers() -> TableRows {
    (
        vec![left("NAME"), left("DESCRIPTION").end(24)],
        CONTAINERS
            .iter()
            .map(|row| vec![("name", json!(row.name)), ("summary", json!(row.summary))])
            .collect(),
    )
}

fn architectures() -> TableRows {
    let mut families = arch::architectures();
    families.sort_by_key(|row| row.name);
    (
        vec![
            left("NAME"),
            left("GGUF").end(36).optional(1),
            left("CONFIG.JSON").end(36).optional(2),
            left("DESCRIPTION").end(32),
        ],
        families
            .into_iter()
            .map(|row| {
                vec![
                    ("name", json!(row.name)),
                    ("gguf", json!(row.gguf)),
                    ("hf", json!(row.hf)),
                    ("summary", json!(row.summary)),
                ]
            })
            .collect(),
    )
}

fn dtypes() -> TableRows {
    (
        vec![
            left("NAME"),
            left("PACKING").optional(4),
            right("ELEMENTS"),
            right("BYTES"),
            right("GGML").optional(2),
            left("SAFETENSORS").optional(3),
            left("VALUES").optional(1),
            left("DESCRIPTION").end(30).optional(1),
        ],
        DTYPES
            .iter()
            .map(|row| {
                vec![
                    ("name", json!(row.name)),
                    ("packing", json!(format!("{:?}", row.packing).to_lowercase())),
                    ("block_len", json!(row.block_len)),
                    ("block_bytes", json!(row.block_bytes)),
                    ("ggml", json!(row.ggml)),
                    ("safetensors", json!(row.safetensors)),
                    ("values", json!(row.codec.is_some())),
                    ("summary", json!(row.summary)),
                ]
            })
            .collect(),
    )
}

/// The devices that models can be loaded to.
fn devices() -> TableRows {
    let cpu = vec![
        ("name", json!("cpu")),
        ("device", json!("host memory")),
        ("kind", json!("cpu")),
        ("backend", Value::Null),
        ("driver", Value::Null),
        ("alignment", json!(Cpu.limits().alignment)),
        ("max_binding_bytes", Value::Null),
        ("max_buffer_bytes", Value::Null),
    ];
    #[cfg(feature = "gpu")]
    let gpus = weighbridge_gpu::Gpu::list();
    #[cfg(feature = "gpu")]
    let gpus = gpus.iter().enumerate().map(|(number, gpu)| {
        vec![
            ("name", json!(format!("gpu:{number}"))),
            ("device", json!(gpu.name)),
            ("kind", json!(gpu.kind)),
            ("backend", json!(gpu.backend)),
            ("driver", json!(gpu.driver)),
            ("alignment", json!(gpu.alignment)),
            ("max_binding_bytes", json!(gpu.max_binding_bytes)),
            ("max_buffer_bytes", json!(gpu.max_buffer_bytes)),
        ]
    });
    #[cfg(not(feature = "gpu"))]
    let gpus = std::iter::empty();
    let head = vec![
        left("NAME"),
        left("DEVICE").end(32),
        left("KIND"),
        left("BACKEND").optional(2),
        left("DRIVER").end(24).optional(1),
        right("ALIGNMENT").optional(4),
        right("BINDING").optional(3),
        right("BUFFER").optional(3),
    ];
    (head, std::iter::once(cpu).chain(gpus).collect())
}

/// The kernels with which a GPU computes.
fn kernels() -> TableRows {
    let row = |kernel: &'static Kernel, operation: Operation| {
        let dtype = kernel.dtype.descriptor();
        let (number, unit) = operation.per_workgroup();
        vec![
            ("dtype", json!(dtype.name)),
            ("operation", json!(operation.name())),
            ("block_len", json!(dtype.block_len)),
            ("block_bytes", json!(dtype.block_bytes)),
            ("per_workgroup", json!(format!("{number} {unit}"))),
            ("values", json!(kernel.exactness.name())),
        ]
    };
    let without = DECODED.iter().map(|(from, to)| {
        let row = from.descriptor();
        vec![
            ("dtype", json!(row.name)),
            ("operation", json!("decoded by the CPU while loading")),
            ("block_len", json!(row.block_len)),
            ("block_bytes", json!(row.block_bytes)),
            ("per_workgroup", Value::Null),
            ("values", json!(format!("rounded to {to}"))),
        ]
    });
    let all = |kernel| Operation::ALL.into_iter().map(move |operation| row(kernel, operation));
    let head = vec![
        left("DTYPE"),
        left("OPERATION"),
        right("ELEMENTS"),
        right("BYTES"),
        right("PER WORKGROUP"),
        left("VALUES"),
    ];
    (head, KERNELS.iter().flat_map(all).chain(without).collect())
}

/// The servers and folders that are used, and the variables that set them.
fn settings() -> TableRows {
    let network = Network::from_env();
    let is_set = |it: bool| json!(if it { "set" } else { "not set" });
    let folders = |folders: Vec<PathBuf>| {
        json!(folders.iter().map(|folder| print::shown(folder)).collect::<Vec<_>>())
    };
    let of_programs = [("huggingface", "HF_HUB_CACHE, HF_HOME"), ("ollama", "OLLAMA_MODELS")];
    let of_programs = of_programs.into_iter().filter_map(|(name, variables)| {
        let program = PROGRAMS.iter().find(|program| program.name == name)?;
        Some((format!("models of {name}"), folders(program.folders()), variables))
    });
    let rows = [
        ("version", json!(env!("CARGO_PKG_VERSION")), ""),
        ("hub", json!(network.hub), "HF_ENDPOINT"),
        ("token of the hub", is_set(network.token.is_some()), "HF_TOKEN, HF_TOKEN_PATH"),
        ("offline", json!(network.offline), "HF_HUB_OFFLINE"),
        ("registry of Ollama", json!(network.registry), "WEIGHBRIDGE_OLLAMA_REGISTRY"),
        ("kept headers", folders(network.cache.into_iter().collect()), "WEIGHBRIDGE_CACHE"),
    ];
    let rows = rows.map(|(name, value, variables)| (name.to_owned(), value, variables));
    let row = |(name, value, variables)| {
        vec![("name", json!(name)), ("value", value), ("variables", json!(variables))]
    };
    let head = vec![left("NAME"), left("VALUE").end(32), left("SET BY").optional(1)];
    (head, rows.into_iter().chain(of_programs).map(row).collect())
}

/// Lists the file types of `quantize`; for a model, with its size in each.
pub(super) fn types(model: Option<&Path>, json: bool) -> Done {
    let model = model.map(|path| OpenOptions::new().open(path)).transpose()?;
    model.iter().for_each(remark);
    let sizes = model.as_ref().map(ops::file_type_sizes).transpose()?;
    // Without a model, the bits are those of the dtype that most tensors get.
    let size = |file_type: FileType| {
        let found = sizes.as_ref()?.iter().find(|size| size.file_type == file_type)?;
        Some((found.bits_per_weight, found.bytes, found.needs_importance))
    };
    let row = |row: &'static FileTypeDescriptor| {
        let base = row.base.map(|base| base.descriptor());
        let per_block =
            base.map(|base| f64::from(base.block_bytes) * 8.0 / f64::from(base.block_len));
        let (bits, bytes, needs) = match &sizes {
            None => (per_block, None, row.file_type.needs_importance()),
            Some(_) => match size(row.file_type) {
                Some((bits, bytes, needs)) => (Some(bits), Some(bytes), needs),
                None => (None, None, row.file_type.needs_importance()),
            },
        };
        (row, bits, bytes, needs)
    };
    let rows = FILE_TYPES.iter().map(row);
    if json {
        let rows: Vec<Value> = rows
            .map(|(row, bits, bytes, needs)| {
                json!({"name": row.name, "number": row.number, "bits_per_weight": bits,
                    "bytes": bytes, "needs_imatrix": needs, "summary": row.summary})
            })
            .collect();
        let path = model.as_ref().map(|model| Text::from_path(model.path()).spelling());
        crate::json::write(&json!({"schema": SCHEMA, "path": path, "rows": rows,
            "notes": crate::failure::take_notes()}))?;
        return Ok(Status::Fine);
    }
    let bits = if sizes.is_some() { right("BITS") } else { left("MOST TENSORS") };
    let mut head =
        vec![left("NAME"), bits, left("IMATRIX"), left("DESCRIPTION").end(30).optional(1)];
    if sizes.is_some() {
        head.insert(2, right("SIZE"));
    }
    let mut table = Table::new(&head);
    for (row, bits, size, needs) in rows {
        let needs = match (needs, row.file_type.needs_importance()) {
            (true, _) => "required",
            (false, true) => "not here",
            (false, false) => "-",
        };
        let base = row.base.filter(|_| sizes.is_none());
        let bits = match base {
            Some(base) => format!("{}, {} bits", base.name(), print::bits(bits)),
            None => print::bits(bits),
        };
        let size = sizes.is_some().then(|| size.map_or("-".to_owned(), bytes));
        let cells = [
            Some(row.name.to_owned()),
            Some(bits),
            size,
            Some(needs.to_owned()),
            Some(row.summary.replace('`', "")),
        ];
        table.row(cells.into_iter().flatten());
    }
    let mut out = print::stdout();
    table.write(&mut out)?;
    out.flush()?;
    Ok(Status::Fine)
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(list) => list.iter().map(cell).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

pub(crate) fn completions(args: &Completions) -> Done {
    // Written in one call, so that a closed pipe fails here and not inside the generator.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::program::command(), "weighbridge", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(Status::Fine)
}
