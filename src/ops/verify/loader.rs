//! Checks what the loader of a container's reference reader requires: llama.cpp's graphs for GGUF, a
//! class of mlx-lm for MLX.

use crate::arch::{Resolution, family, graph, other_models};
use crate::bytes::Text;
use crate::container::gguf::ALIGNMENT_KEY;
use crate::dtype::DType;
use crate::engines::{llama_cpp, mlx_lm, mlx_vlm};
use crate::json::Json;
use crate::recipe;
use crate::store::tensor::StoredTensor;
use crate::store::{Encoding, Part, Store};
use crate::translate::key_types::{WrongType, wrong_types};

/// The reasons why the reference reader does not load a model, one sentence for each fault. Empty
/// for a model of which the tables know nothing.
pub(super) fn faults(store: &Store, resolution: &Resolution) -> Vec<String> {
    match (store.encoding(), store.container()) {
        (Encoding::Gguf, _) => match lone_experts(resolution) {
            Some(fault) => vec![fault],
            None => {
                let alignment = store.metadata().u64(ALIGNMENT_KEY).and_then(narrow_alignment);
                alignment.into_iter().chain(graph_faults(store)).collect()
            }
        },
        (_, "mlx") => match MlxReader::of(store, resolution) {
            Some(MlxReader { fault, program: None }) => vec![fault],
            Some(_) => Vec::new(),
            None => {
                let faults = [bare_modules(store), global_scales(store), unstated_scales(store)];
                faults.into_iter().flatten().collect()
            }
        },
        _ => Vec::new(),
    }
}

/// The fault of a GGUF file whose tensors are aligned to fewer bytes than ggml requires (`TENSOR_ALIGNMENT`): tried with
/// ggml 0.25.3, which aborts with 8 and 16.
pub(in crate::ops) fn narrow_alignment(alignment: u64) -> Option<String> {
    const LEAST: u64 = 32;
    (alignment < LEAST)
        .then(|| format!("{ALIGNMENT_KEY} is {alignment}: llama.cpp aborts with less than {LEAST}"))
}

/// The fault of a directory with a quantized tensor that mlx-lm's class has in plain form only.
fn bare_modules(store: &Store) -> Option<String> {
    let model_type = store.document("config.json")?.get("model_type")?.as_str()?;
    let is_bare = |name: &str| {
        name.strip_suffix(".weight").is_some_and(|path| recipe::mlx_lm::is_bare(model_type, path))
    };
    let quantized = store.tensors().filter(|tensor| tensor.dtype().is_ok_and(DType::is_quantized));
    let mut names = quantized.map(|tensor| tensor.name().to_string()).filter(|name| is_bare(name));
    let first = names.next()?;
    Some(format!(
        "{first} is quantized, and mlx-lm's class of {model_type} has no quantized form of it: mlx-lm does not load the model"
    ))
}

/// The fault of a directory with a quantized matrix that has a global scale: of mlx-lm's modules, those of experts
/// alone take one.
fn global_scales(store: &Store) -> Option<String> {
    let has_global = |tensor: &StoredTensor<'_>| {
        let mut segments = tensor.segments();
        tensor.shape().len() < 3 && segments.any(|segment| segment.part == Part::GlobalAmax)
    };
    let mut tensors = store.tensors().filter(has_global);
    let first = tensors.next()?.name().to_string();
    let more = match tensors.count() {
        0 => String::new(),
        more => format!(", and so have {more} more"),
    };
    Some(format!(
        "{first} has a global scale{more}, which mlx-lm's linear layers do not take: it does not load the model"
    ))
}

/// The fault of a directory with a global scale that the entry of its module in `config.json` does not state.
fn unstated_scales(store: &Store) -> Option<String> {
    let listed = store.document("config.json")?.get("quantization")?.as_object()?;
    let is_unstated = |path: &str| {
        let entry = listed.get(path).filter(|entry| entry.is_object());
        entry.is_some_and(|entry| entry["global_scale"].as_bool() != Some(true))
    };
    let path = store.tensors().find_map(|tensor| {
        let mut segments = tensor.segments();
        let has_global = segments.any(|segment| segment.part == Part::GlobalAmax);
        let path = tensor.name().to_string().strip_suffix(".weight").map(str::to_owned)?;
        (has_global && is_unstated(&path)).then_some(path)
    })?;
    Some(format!(
        "config.json lists {path} without global_scale, which is stored: mlx-lm does not load the model"
    ))
}

/// The fault of a GGUF file of 2023, whose experts are stored one by one.
fn lone_experts(resolution: &Resolution) -> Option<String> {
    let mut stored = resolution.mapped.iter().filter(|of| of.stacked).flat_map(|of| &of.stored);
    let (first, more) = (stored.next()?, stored.count());
    Some(format!(
        "{first} and {more} more matrices of experts are stored one by one, which llama.cpp no longer loads: `convert OLD NEW` joins them"
    ))
}

/// The fault of a GGUF file whose architecture llama.cpp does not know.
pub(in crate::ops) fn unknown_architecture(store: &Store) -> Option<String> {
    let name = store.metadata().str("general.architecture")?;
    let is_unknown = store.encoding() == Encoding::Gguf && !llama_cpp::knows_architecture(name);
    is_unknown.then(|| {
        let elsewhere = llama_cpp::elsewhere(name).map(|program| format!("; {program}"));
        let name = Text::new(name.as_bytes()).brief();
        format!(
            "general.architecture is \"{name}\", which llama.cpp does not know: it does not load the file{}",
            elsewhere.unwrap_or_default()
        )
    })
}

/// The keys of which a vision or audio model needs one (llama.cpp's clip.cpp).
const PROJECTOR_TYPES: [&str; 3] =
    ["clip.projector_type", "clip.vision.projector_type", "clip.audio.projector_type"];

/// The reasons why llama.cpp does not load a GGUF file, one sentence for each fault.
fn graph_faults(store: &Store) -> Vec<String> {
    if store.metadata().str("general.type") == Some("adapter") {
        // It is read next to its model, and has none of the model's keys.
        return Vec::new();
    }
    let is_projector = store.metadata().str("general.architecture") == Some("clip");
    if is_projector && PROJECTOR_TYPES.iter().all(|key| store.metadata().get(key).is_none()) {
        return vec!["no clip.projector_type: llama.cpp does not load the file".to_owned()];
    }
    let architecture = store.metadata().str("general.architecture").unwrap_or_default();
    let mut wrong = wrong_types(store.metadata().iter(), architecture);
    // The header's reader reports the type of this key, with its offset.
    wrong.retain(|wrong| wrong.key != ALIGNMENT_KEY);
    if !wrong.is_empty() {
        let fault = |WrongType { key, found, required }: &WrongType| {
            let (found, required) = (found.name(), required.name());
            format!("{key} is {found}, but llama.cpp reads it as {required} alone")
        };
        return wrong.iter().map(fault).collect();
    }
    let names: Vec<String> = store.tensors().map(|tensor| tensor.name().to_string()).collect();
    let stored = |name: &str| Some(store.find(name)?.shape().to_vec());
    let Some(graph) = family::graph(architecture) else { return Vec::new() };
    // ggml's operations on the CPU take vectors in F32 alone.
    let is_narrow = |tensor: &StoredTensor<'_>| {
        tensor.shape().len() == 1 && matches!(tensor.dtype(), Ok(DType::F16 | DType::BF16))
    };
    let mut narrow = store.tensors().filter(is_narrow);
    if let Some(first) = narrow.next() {
        let more = match narrow.count() {
            0 => String::new(),
            count => format!(" and {count} more vectors"),
        };
        let dtype = first.dtype().map(|dtype| dtype.to_string()).unwrap_or_default();
        return vec![format!(
            "{}{more}: {dtype}, but llama.cpp computes vectors in F32 alone",
            first.name()
        )];
    }
    let is_wide = |tensor: &StoredTensor<'_>| tensor.dtype().is_ok_and(|dtype| dtype == DType::F64);
    if let Some(first) = store.tensors().find(is_wide) {
        return vec![format!("{}: F64, which llama.cpp computes nothing with", first.name())];
    }
    graph::faults(graph, architecture, store.metadata(), names.iter().map(String::as_str), &stored)
}

/// The reader of an MLX directory that mlx-lm does not load: it has no class for it, or one that requires another config.
#[derive(Debug)]
pub(in crate::ops) struct MlxReader {
    /// The feature that mlx-lm lacks.
    pub(in crate::ops) fault: String,
    /// Another program that reads the directory, if one is known: mlx-vlm for models with a vision or
    /// audio model, and the `mlx_readers` of the family.
    pub(in crate::ops) program: Option<&'static str>,
}

impl MlxReader {
    /// `None` for a directory that mlx-lm reads. Programs that read an unknown architecture are not known
    /// either.
    pub(in crate::ops) fn of(store: &Store, resolution: &Resolution) -> Option<Self> {
        if let Some(fault) = other_models::draft(store) {
            return Some(Self { fault: fault.to_owned(), program: Some("other readers") });
        }
        let readers = resolution.architecture.map(|architecture| architecture.mlx_readers);
        let config = store.document("config.json")?;
        let stated = config.get("model_type").and_then(Json::as_str);
        let Some(model_type) = stated.filter(|name| !name.is_empty()) else {
            let fault =
                "config.json states no model_type, by which mlx-lm finds its class".to_owned();
            return Some(Self { fault, program: Some("other readers") });
        };
        let brief = Text::new(model_type.as_bytes()).brief();
        if mlx_lm::has_class(model_type) {
            let wraps = mlx_lm::class(model_type).is_some_and(|class| class.wraps);
            let fault =
                format!("mlx-lm's class of {brief} requires text_config, which config.json lacks");
            return (wraps && config.get("text_config").is_none())
                .then_some(Self { fault, program: None });
        }
        let class = mlx_vlm::class(model_type);
        let unread = config.as_object().and_then(|config| class?.fault(config));
        let fault = match &unread {
            Some(fault) if resolution.has_towers() => {
                format!("mlx-lm has no class for {brief}, and mlx-vlm's {fault}")
            }
            None if resolution.has_towers() && class.is_none() => {
                format!("neither mlx-lm nor mlx-vlm has a class for {brief}")
            }
            _ => format!("mlx-lm has no class for {brief}"),
        };
        let unknown = readers.is_none().then_some("other readers");
        let mut readers = readers.unwrap_or_default().iter();
        let reader = readers.find(|(read, _)| *read == model_type).map(|(_, program)| *program);
        let of_towers = match class {
            Some(_) if unread.is_none() => "mlx-vlm",
            _ => "other readers",
        };
        let of_towers = resolution.has_towers().then_some(of_towers);
        let program = reader.or(of_towers).or(unknown);
        Some(Self { fault, program })
    }
}
