//! Names and transforms of architectures, held against real lists of names: a model is made of
//! random values in each form that there is a list for, and every canonical tensor is the same in
//! all of them. The large lists are those in `../shared/data/names`, where that folder lies beside
//! the repository; what those lack stands in `names/lists.rs`.
#![allow(
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    reason = "the sizes are the test's own"
)]

#[path = "names/lists.rs"]
mod lists;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value as Json;
use support::{Gguf, Kv, Safetensors, f32s, folder};
use tempfile::TempDir;
use weighbridge::arch::{ARCHITECTURES, Architecture, Change, Dialect, Mapping, Transform};
use weighbridge::device::Cpu;
use weighbridge::{Convention, DType, ErrorKind, OpenOptions, Strictness, WeightProvider};

/// Stored tensors without a canonical name: the list, the form, the name with `{n}` for a layer,
/// and why.
const UNKNOWN: &[(&str, Form, &str, &str)] = &[];

/// Canonical tensors that one form lacks: the list, the form, the name with `{n}` for a layer, and
/// why.
const LACKING: &[(&str, Form, &str, &str)] = &[
    ("bert", Form::Gguf, "masked_words.dense.weight", "llama.cpp's converter drops it"),
    ("bert", Form::Gguf, "masked_words.dense.bias", "llama.cpp's converter drops it"),
    ("bert", Form::Gguf, "masked_words.norm.weight", "llama.cpp's converter drops it"),
    ("bert", Form::Gguf, "masked_words.norm.bias", "llama.cpp's converter drops it"),
    ("bert", Form::Gguf, "masked_words.output.bias", "llama.cpp's converter drops it"),
    ("qwen3.5, dense", Form::HuggingFace, "layers.{n}.attention_norm.weight", BEHIND),
    ("qwen3.5, dense", Form::HuggingFace, "layers.{n}.ffn_norm.weight", BEHIND),
    ("qwen3.5, dense", Form::HuggingFace, "layers.{n}.nextn.embedding_norm.weight", BEHIND),
    ("qwen3.5, dense", Form::HuggingFace, "layers.{n}.nextn.hidden_norm.weight", BEHIND),
    ("qwen3.5, dense", Form::HuggingFace, "layers.{n}.nextn.projection.weight", BEHIND),
    ("qwen3.5, dense", Form::HuggingFace, "layers.{n}.nextn.output_norm.weight", BEHIND),
    ("whisper of mlx-examples", Form::Mlx, "enc.position_embedding.weight", "computed"),
    ("whisper of mlx-examples", Form::Mlx, "output.weight", "tied"),
    ("qwen3_moe", Form::Gguf, "layers.{n}.ffn.gate.weight", NO_DENSE),
    ("qwen3_moe", Form::Gguf, "layers.{n}.ffn.up.weight", NO_DENSE),
    ("qwen3_moe", Form::Gguf, "layers.{n}.ffn.down.weight", NO_DENSE),
    ("embeddinggemma", Form::HuggingFace, "dense_2.weight", "it lies in a folder of its own"),
    ("embeddinggemma", Form::HuggingFace, "dense_3.weight", "it lies in a folder of its own"),
];

const BEHIND: &str = "of the layer behind the others, which Hugging Face keeps apart";
const NO_DENSE: &str = "the converter stops at dense layers, which no published model has";

/// What a list of names is of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Form {
    /// A directory of Hugging Face's transformers.
    HuggingFace,
    /// A file of llama.cpp's converter.
    Gguf,
    /// A directory of mlx-lm.
    Mlx,
    /// A publisher's own checkpoint.
    Publisher,
}

/// Values of a tensor, in memory.
#[derive(Clone, Debug, PartialEq)]
struct Tensor {
    shape: Vec<usize>,
    values: Vec<f32>,
}

type Tensors = BTreeMap<String, Tensor>;

/// A model in all forms that there are names for.
struct Model {
    name: String,
    /// Where the names are from.
    source: String,
    config: Json,
    /// `general.architecture`.
    gguf: String,
    /// The first is the one whose values the others were made of.
    forms: Vec<(Form, Tensors)>,
}

impl Tensor {
    /// Values between -1 and 1 that nothing but the name decides.
    fn random(name: &str, shape: Vec<usize>) -> Self {
        // FNV-1a, then a linear congruential generator with Knuth's numbers.
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let mut state = name.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
        let next = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u32 << 23) as f32 - 1.0
        };
        Self { values: (0..shape.iter().product()).map(next).collect(), shape }
    }

    fn map(mut self, change: impl Fn(f32) -> f32) -> Self {
        self.values.iter_mut().for_each(|value| *value = change(*value));
        self
    }

    /// The elements along an axis that `which` gives, in that order.
    fn pick(&self, axis: usize, which: &[usize]) -> Self {
        let inner: usize = self.shape[axis + 1..].iter().product();
        let outer: usize = self.shape[..axis].iter().product();
        let len = self.shape[axis];
        let mut shape = self.shape.clone();
        shape[axis] = which.len();
        let starts = (0..outer).flat_map(|o| which.iter().map(move |w| (o * len + w) * inner));
        let values = starts.flat_map(|start| self.values[start..start + inner].to_vec()).collect();
        Self { shape, values }
    }

    fn transposed(&self) -> Self {
        let (rank, mut shape) = (self.shape.len(), self.shape.clone());
        let (rows, columns) = (shape[rank - 2], shape[rank - 1]);
        shape.swap(rank - 2, rank - 1);
        let mut values = Vec::with_capacity(self.values.len());
        for matrix in self.values.chunks(rows * columns) {
            values
                .extend((0..columns).flat_map(|c| (0..rows).map(move |r| matrix[r * columns + c])));
        }
        Self { shape, values }
    }

    /// One step of a transform, in the words of `data/names/README.md`.
    fn step(self, word: &str) -> Self {
        let (head, arguments) = word.split_once('(').map_or((word, ""), |(head, rest)| {
            (head, rest.strip_suffix(')').expect("a closing parenthesis"))
        });
        let number = |name: &str| {
            let found = arguments.split([',', '(', ')']).find_map(|part| part.strip_prefix(name));
            found.map(|digits| digits.parse::<usize>().expect("a number"))
        };
        let ranges = |list: &str| -> Vec<usize> {
            let number = |text: &str| text.trim().parse::<usize>().expect("a row");
            let range = |text: &str| match text.split_once('-') {
                Some((from, to)) => number(from)..number(to) + 1,
                None => number(text)..number(text) + 1,
            };
            list.split(',').flat_map(range).collect()
        };
        if let Some(list) = word.strip_prefix("rows:").or(word.strip_prefix("row_permutation:")) {
            return self.pick(0, &ranges(list.trim_matches(['[', ']'])));
        }
        if let Some(list) = word.strip_prefix("columns:") {
            return self.pick(self.shape.len() - 1, &ranges(list));
        }
        match head {
            "" | "reshape" => self,
            "plus_one" => self.map(|value| value + 1.0),
            "neg_exp" => self.map(|value| -value.exp()),
            "transpose_last_two" | "moveaxis" => self.transposed(),
            "rope_row_interleave" => {
                let width = number("head_dim=").expect("a head's width");
                let row = |at: usize| {
                    let (head, within) = (at / width, at % width);
                    head * width + within % 2 * (width / 2) + within / 2
                };
                let rows: Vec<usize> = (0..self.shape[0]).map(row).collect();
                self.pick(0, &rows)
            }
            "slice" => {
                let axis = number("axis=").expect("an axis");
                let (start, all) = (number("start=").expect("a start"), self.shape[axis]);
                let end = number("len=").map_or(all, |len| start + len);
                let which: Vec<usize> =
                    (start..end).step_by(number("step=").unwrap_or(1)).collect();
                self.pick(axis, &which)
            }
            "per_head" => {
                let (heads, rows) = (number("n=").expect("heads"), number("rows=").expect("rows"));
                let (start, len) =
                    (number("start=").expect("a start"), number("len=").expect("a length"));
                let shape = [&[heads, rows], &self.shape[1..]].concat();
                let which: Vec<usize> = (start..start + len).collect();
                Self { shape, ..self }.pick(1, &which)
            }
            _ => panic!("what is {word}?"),
        }
    }
}

/// Makes the tensors of another form: `links` are their names, the transform, and the name of
/// which they are made. Those that the converter makes itself are random.
fn made(
    from: &Tensors,
    links: &[(String, String, String)],
    shapes: &BTreeMap<String, Vec<usize>>,
) -> Tensors {
    let mut parts: BTreeMap<&str, Vec<(usize, &str, Tensor)>> = BTreeMap::new();
    for (name, transform, source) in links {
        let (mut order, mut tensor, mut kind) = (0, from[source].clone(), "");
        for word in transform.split('+') {
            let numbered =
                |head| word.strip_prefix(head).and_then(|rest: &str| rest.strip_suffix(']'));
            match (numbered("stacked["), numbered("joined[")) {
                (Some(number), _) => (kind, order) = ("stacked", number.parse().expect("a number")),
                (_, Some(number)) => (kind, order) = ("joined", number.parse().expect("a number")),
                _ => tensor = tensor.step(word),
            }
        }
        parts.entry(name).or_default().push((order, kind, tensor));
    }
    let mut tensors = Tensors::new();
    for (name, mut parts) in parts {
        parts.sort_by_key(|(order, ..)| *order);
        let (_, kind, first) = &parts[0];
        assert!(parts.len() == 1 || !kind.is_empty(), "{name} is made of several");
        let mut shape = first.shape.clone();
        let joined = shape.len().saturating_sub(2);
        match *kind {
            "stacked" => shape.insert(0, parts.len()),
            "joined" => shape[joined] = parts.iter().map(|(.., part)| part.shape[joined]).sum(),
            _ => {}
        }
        // Of tensors with experts, each expert's parts lie together.
        let outer = if *kind == "joined" { shape[..joined].iter().product() } else { 1 };
        let mut values = Vec::new();
        for number in 0..outer {
            for (.., part) in &parts {
                let len = part.values.len() / outer;
                values.extend_from_slice(&part.values[number * len..(number + 1) * len]);
            }
        }
        let reshaped = links
            .iter()
            .any(|(target, transform, _)| target == name && transform.contains("reshape"));
        if let Some(listed) = shapes.get(name) {
            let count: usize = listed.iter().product();
            assert!(
                *listed == shape || reshaped && count == values.len(),
                "{name}: {shape:?}, not {listed:?}"
            );
            shape.clone_from(listed);
        }
        tensors.insert(name.to_owned(), Tensor { shape, values });
    }
    for (name, shape) in shapes {
        tensors.entry(name.clone()).or_insert_with(|| Tensor::random(name, shape.clone()));
    }
    tensors
}

fn shapes(json: &Json) -> BTreeMap<String, Vec<usize>> {
    let dims = |shape: &Json| serde_json::from_value(shape.clone()).expect("dimensions");
    let all = json.as_object().into_iter().flatten();
    all.map(|(name, shape)| (name.clone(), dims(shape))).collect()
}

/// What each tensor of Hugging Face becomes. Where `names` has none, it keeps its own name, if
/// that is so in this form.
fn links(list: &Json, names: &str, transforms: &str, keeps: bool) -> Vec<(String, String, String)> {
    let mut links = Vec::new();
    for (source, _) in list["hf"].as_object().expect("names") {
        let own = if keeps { Json::from(source.as_str()) } else { Json::Null };
        let targets = match list[names].get(source).unwrap_or(&own) {
            Json::Array(several) => several.clone(),
            one => vec![one.clone()],
        };
        for target in targets.iter().filter_map(Json::as_str) {
            let transform = match &list[transforms][source] {
                Json::Object(each) => each.get(target).and_then(Json::as_str),
                one => one.as_str(),
            };
            links.push((target.to_owned(), transform.unwrap_or("").to_owned(), source.clone()));
        }
    }
    links
}

/// mlx-lm reads experts of gpt-oss in MXFP4 alone: of others it makes names that its class has not,
/// as mlx_notes say. These are the class's own.
fn correct_experts(links: &mut [(String, String, String)]) {
    for (name, transform, source) in links {
        let experts =
            source.ends_with("experts.gate_up_proj") || source.ends_with("experts.down_proj");
        if experts {
            name.push_str(".weight");
            let rest = if transform.is_empty() { "" } else { "+" };
            *transform = format!("transpose_last_two{rest}{transform}");
        }
    }
}

/// The model of one file of names.
fn listed(name: &str, list: &Json) -> Model {
    let random = |(name, shape): (String, _)| (name.clone(), Tensor::random(&name, shape));
    let hf: Tensors = shapes(&list["hf"]).into_iter().map(random).collect();
    let mut forms = Vec::new();
    if list["gguf_tensors"].is_object() {
        let links = links(list, "gguf", "gguf_transforms", false);
        forms.push((Form::Gguf, made(&hf, &links, &shapes(&list["gguf_tensors"]))));
    }
    if list["openai"].is_object() {
        forms.push((
            Form::Gguf,
            made(&hf, &links(list, "openai", "openai_transforms", false), &BTreeMap::new()),
        ));
    }
    let mlx = shapes(&list["mlx"]);
    if !mlx.is_empty() {
        let mut links = links(list, "mlx_from_hf", "mlx_transforms", true);
        if name == "gpt_oss" {
            correct_experts(&mut links);
        }
        forms.push((Form::Mlx, made(&hf, &links, &mlx)));
    }
    forms.insert(0, (Form::HuggingFace, hf));
    let gguf = list["gguf_arch"].as_str().unwrap_or(name).to_owned();
    let (name, source) = (name.to_owned(), format!("data/names/{name}.json"));
    Model { name, source, config: list["config"].clone(), gguf, forms }
}

/// The models of the files of names, if they are here.
fn listed_models() -> Vec<Model> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/names");
    if !folder.is_dir() {
        let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!ci, "{} is not here, and CI must not do without", folder.display());
        println!("skipped: {} is not here", folder.display());
        return Vec::new();
    }
    let mut models = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder of lists") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|ending| ending == "json") {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).expect("a list");
            models.push(listed(&name, &serde_json::from_str(&text).expect("JSON")));
        }
    }
    assert!(models.len() > 20, "{} lists", models.len());
    models.sort_by(|a, b| a.name.cmp(&b.name));
    models
}

/// The model of one of the test's own lists.
fn own(list: &lists::List) -> Model {
    let (mut hf, mut links) = (Tensors::new(), Vec::new());
    let mut alone = BTreeMap::new();
    let lines = list.tensors.iter().flat_map(|lines| lines.lines());
    for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
        let experts = if line.contains("{e}") { 2 } else { 1 };
        for expert in 0..experts {
            let line = line.replace("{e}", &expert.to_string());
            let columns: Vec<&str> = line.split_whitespace().collect();
            let (name, dims, other) = (columns[0], columns[1], columns.get(2));
            let shape: Vec<usize> =
                dims.split(',').map(|dim| dim.parse().expect("a length")).collect();
            if name == "-" {
                alone.insert(columns[2].to_owned(), shape);
                continue;
            }
            hf.entry(name.to_owned()).or_insert_with(|| Tensor::random(name, shape));
            if let Some(other) = other.filter(|other| **other != "-") {
                let transform = columns.get(3).copied().unwrap_or("");
                let other = if *other == "=" { name } else { other };
                links.push((other.to_owned(), transform.to_owned(), name.to_owned()));
            }
        }
    }
    let other = made(&hf, &links, &alone);
    let config: Json = serde_json::from_str(list.config).expect("JSON");
    let forms = vec![(Form::HuggingFace, hf), (list.form, other)];
    let (name, source) = (list.name.to_owned(), list.source.to_owned());
    Model { name, source, config, gguf: list.gguf.to_owned(), forms }
}

fn models() -> Vec<Model> {
    let mut models = listed_models();
    models.extend(lists::LISTS.iter().map(own));
    models
}

/// What llama.cpp's converter writes of a config: the key behind the architecture's name, and the
/// names in `config.json` (conversion/base.py, `set_gguf_parameters`).
#[rustfmt::skip]
const KEYS: &[(&str, &[&str])] = &[
    ("embedding_length",                  &["hidden_size", "n_embd", "d_model"]),
    ("block_count",                       &["num_hidden_layers", "n_layer"]),
    ("context_length",                    &["max_position_embeddings", "n_positions"]),
    ("feed_forward_length",               &["intermediate_size", "n_inner"]),
    ("attention.head_count",              &["num_attention_heads", "n_head"]),
    ("attention.head_count_kv",           &["num_key_value_heads", "num_kv_heads"]),
    ("attention.key_length",              &["head_dim"]),
    ("attention.value_length",            &["head_dim"]),
    ("attention.layer_norm_rms_epsilon",  &["rms_norm_eps"]),
    ("attention.layer_norm_epsilon",      &["layer_norm_eps", "layer_norm_epsilon"]),
    ("vocab_size",                        &["vocab_size"]),
    ("expert_count",                      &["num_local_experts", "num_experts", "n_routed_experts"]),
    ("expert_used_count",                 &["num_experts_per_tok", "top_k_experts"]),
    ("expert_feed_forward_length",        &["moe_intermediate_size"]),
    ("expert_shared_count",               &["n_shared_experts"]),
    ("leading_dense_block_count",         &["first_k_dense_replace"]),
    ("attention.q_lora_rank",             &["q_lora_rank"]),
    ("attention.kv_lora_rank",            &["kv_lora_rank"]),
    ("rope.dimension_count",              &["qk_rope_head_dim"]),
    ("attention.value_length_mla",        &["v_head_dim"]),
    ("ssm.conv_kernel",                   &["linear_conv_kernel_dim"]),
    ("ssm.state_size",                    &["linear_key_head_dim"]),
    ("ssm.group_count",                   &["linear_num_key_heads"]),
    ("ssm.time_step_rank",                &["linear_num_value_heads"]),
];

fn number(json: &Json) -> Kv {
    match json.as_u64() {
        Some(number) => Kv::U32(u32::try_from(number).expect("a small number")),
        None => Kv::F32(json.as_f64().expect("a number") as f32),
    }
}

/// The metadata that a GGUF file of this config has.
fn metadata(architecture: &str, config: &Json) -> Vec<(String, Kv)> {
    let config = config.get("text_config").unwrap_or(config);
    let count = |name: &str| config.get(name).and_then(Json::as_u64);
    let mut found: BTreeMap<&str, Json> = BTreeMap::new();
    for (key, names) in KEYS {
        let value = names.iter().find_map(|name| config.get(name)).filter(|value| !value.is_null());
        found.extend(value.map(|value| (*key, value.clone())));
    }
    if let (Some(rank), Some(rope)) = (count("kv_lora_rank"), count("qk_rope_head_dim")) {
        // Attention in the latent space has one key head.
        let nope = count("qk_nope_head_dim").expect("beside qk_rope_head_dim");
        found.insert("attention.head_count_kv", 1.into());
        found.insert("attention.key_length", (rank + rope).into());
        found.insert("attention.value_length", rank.into());
        found.insert("attention.key_length_mla", (nope + rope).into());
    }
    if let (Some(heads), Some(width)) =
        (count("linear_num_value_heads"), count("linear_value_head_dim"))
    {
        found.insert("ssm.inner_size", (heads * width).into());
    }
    let mut keys = vec![("general.architecture".to_owned(), Kv::text(architecture))];
    for (key, value) in found {
        let value = match &value {
            Json::Array(each) => Kv::Array(4, each.iter().map(number).collect()),
            one => number(one),
        };
        keys.push((format!("{architecture}.{key}"), value));
    }
    keys
}

/// A model in one form, opened. A directory is needed for as long as it is.
struct Opened {
    form: Form,
    model: WeightProvider,
    _folder: Option<TempDir>,
}

fn open(model: &Model, form: Form, tensors: &Tensors) -> Opened {
    let dims = |tensor: &Tensor| tensor.shape.iter().map(|dim| *dim as u64).collect::<Vec<u64>>();
    let (store, folder) = if form == Form::Gguf {
        let keys = metadata(&model.gguf, &model.config);
        let file = keys.into_iter().fold(Gguf::new(), |file, (key, value)| file.key(key, value));
        let file = tensors.iter().fold(file, |file, (name, tensor)| {
            file.tensor(name, DType::F32, &dims(tensor), f32s(&tensor.values))
        });
        let options = OpenOptions::new().strictness(Strictness::Default);
        (options.open_memory("model.gguf", file.build()).expect("a GGUF file"), None)
    } else {
        let file = match form {
            Form::Mlx => Safetensors::new().metadata("format", "mlx"),
            _ => Safetensors::new().metadata("format", "pt"),
        };
        let file = tensors.iter().fold(file, |file, (name, tensor)| {
            file.tensor(name, "F32", &dims(tensor), f32s(&tensor.values))
        });
        let config = model.config.to_string().into_bytes();
        let folder = folder(&[("config.json", config), ("model.safetensors", file.build())]);
        (OpenOptions::new().open(folder.path()).expect("a directory"), Some(folder))
    };
    let model = WeightProvider::new(store, Cpu).unwrap_or_else(|error| {
        panic!("{}, {form:?}: {error}", model.name);
    });
    Opened { form, model, _folder: folder }
}

/// Puts `{n}` for a layer's number.
fn pattern(name: &str) -> String {
    let mut layer = false;
    let component = |component: &str| {
        let number = !layer && component.parse::<u32>().is_ok();
        layer |= number;
        if number { "{n}".to_owned() } else { component.to_owned() }
    };
    name.split('.').map(component).collect::<Vec<_>>().join(".")
}

fn open_all(model: &Model) -> Vec<Opened> {
    model.forms.iter().map(|(form, tensors)| open(model, *form, tensors)).collect()
}

/// Where the forms of a model are not understood, or have other tensors.
fn faults(model: &Model) -> Vec<String> {
    let (at, opened) = (&model.name, open_all(model));
    let mut faults = Vec::new();
    let named = |table: &[(&str, Form, &str, &str)], form: Form, name: &str| {
        let name = pattern(name);
        table.iter().any(|(list, of, pattern, _)| *list == at && *of == form && *pattern == name)
    };
    let mut all: BTreeMap<&str, (usize, Tensor)> = BTreeMap::new();
    for (place, Opened { form, model, .. }) in opened.iter().enumerate() {
        let resolution = model.resolution();
        let known = resolution.architecture.map(|architecture| architecture.name);
        if known.is_none() {
            faults.push(format!("{at}, {form:?}: {}", resolution.reason));
        }
        let unknown = resolution.unknown.iter().filter(|name| !named(UNKNOWN, *form, name));
        faults.extend(unknown.map(|name| format!("{at}, {form:?}: {name} is unknown")));
        let excused = |name: &&String| !name.split(" | ").any(|name| named(LACKING, *form, name));
        let missing = resolution.missing.iter().filter(excused);
        faults.extend(missing.map(|name| format!("{at}, {form:?}: {name} is missing")));
        for mapping in &resolution.mapped {
            let name = &*mapping.canonical;
            let view = model.tensor(name);
            let found = view.and_then(|view| Ok((view.shape().to_vec(), view.dequantize()?)));
            let (shape, values) = match found {
                Ok(found) => found,
                Err(error) => {
                    faults.push(format!("{at}, {form:?}: {name}: {error}"));
                    continue;
                }
            };
            let shape: Vec<usize> = shape.iter().map(|dim| *dim as usize).collect();
            let found = Tensor { shape, values: values.to_vec() };
            let Some((_, expected)) = all.get(name) else {
                all.insert(name, (place, found));
                continue;
            };
            if found.shape != expected.shape {
                faults.push(format!(
                    "{at}, {form:?}: {name}: {:?}, not {:?}",
                    found.shape, expected.shape
                ));
                continue;
            }
            // To add 1 and to take it off again rounds.
            let changed = mapping.transform.values != Change::None;
            let tolerance = if changed { 1e-6 } else { 0.0 };
            let mut pairs = found.values.iter().zip(&expected.values);
            if let Some(at_value) = pairs.position(|(a, b)| (a - b).abs() > tolerance) {
                faults.push(format!(
                    "{at}, {form:?}: {name} differs at {at_value} ({})",
                    mapping.transform
                ));
            }
        }
    }
    for (name, (place, _)) in &all {
        for Opened { form, model, .. } in &opened {
            let has = model.resolution().mapped.iter().any(|mapping| mapping.canonical == *name);
            if !has && !named(LACKING, *form, name) {
                faults.push(format!(
                    "{at}, {form:?}: no {name}, which {:?} has",
                    opened[*place].form
                ));
            }
        }
    }
    if !faults.is_empty() {
        faults.push(format!("{at} is from {}", model.source));
    }
    faults
}

#[test]
fn every_form_has_the_same_tensors() {
    let faults: Vec<String> = models().iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

/// A row of a table as it is used: of which dialect, the canonical and the stored name, and how
/// they differ.
type Row = (&'static str, String, String, String);

fn row(dialect: &'static str, canonical: &str, stored: &str, transform: Transform) -> Row {
    (dialect, canonical.to_owned(), stored.to_owned(), transform.to_string())
}

/// The rows of which a mapping may come: one for each spelling of its stored name.
fn rows_of(architecture: &Architecture, dialect: Dialect, mapping: &Mapping) -> Vec<Row> {
    let stored = pattern(&mapping.stored[0]);
    let stored = if mapping.stacked {
        // The last number is the expert's.
        let expert = pattern(&stored.replace("{n}", "#")).replace("{n}", "{e}");
        let layer = if expert.contains("{e}") { "{n}" } else { "{e}" };
        expert.replace('#', layer)
    } else {
        stored
    };
    let mut spellings = vec![stored.clone()];
    if dialect != Dialect::Gguf {
        let instead = |(prefix, instead): &(&str, &str)| {
            Some(format!("{instead}{}", stored.strip_prefix(prefix)?))
        };
        spellings.extend(architecture.prefixes.iter().filter_map(instead));
    }
    let canonical = pattern(&mapping.canonical);
    let tables: &[&'static str] = match dialect {
        Dialect::Gguf => &["gguf"],
        Dialect::Publisher => &["publisher"],
        Dialect::Mlx => &["mlx", "hugging face"],
        _ => &["hugging face"],
    };
    let of = |stored: &String| {
        tables
            .iter()
            .map(|table| row(table, &canonical, stored, mapping.transform))
            .collect::<Vec<_>>()
    };
    spellings.iter().flat_map(of).collect()
}

#[test]
fn every_row_of_every_table_is_used() {
    let mut used: BTreeSet<Row> = BTreeSet::new();
    let mut met: BTreeSet<&str> = BTreeSet::new();
    let models = models();
    for model in &models {
        for opened in open_all(model) {
            let resolution = opened.model.resolution();
            let architecture = resolution.architecture.expect("an architecture");
            met.insert(architecture.name);
            let rows = resolution.mapped.iter();
            used.extend(
                rows.flat_map(|mapping| rows_of(architecture, resolution.dialect, mapping)),
            );
        }
    }
    if models.len() == lists::LISTS.len() {
        println!("skipped: without the large lists rows stay unused");
        return;
    }
    let mut unused: BTreeSet<Row> = BTreeSet::new();
    for architecture in ARCHITECTURES {
        let rules = architecture.rules.iter().copied().flatten();
        let rows = rules
            .flat_map(|rule| [("gguf", rule, rule.gguf), ("hugging face", rule, rule.hf)])
            .chain(architecture.mlx.iter().map(|rule| ("mlx", rule, rule.hf)))
            .chain(architecture.publisher.iter().map(|rule| ("publisher", rule, rule.hf)));
        let rows = rows.filter(|(_, _, stored)| !stored.name.is_empty());
        let rows = rows.map(|(dialect, rule, stored)| {
            row(dialect, rule.canonical, stored.name, stored.transform)
        });
        unused.extend(rows.filter(|row| !used.contains(row)));
        assert!(met.contains(architecture.name), "no list is of {}", architecture.name);
    }
    assert!(unused.is_empty(), "{} rows that no list needs: {unused:#?}", unused.len());
}

/// Bytes that a number alone decides.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let values = Tensor::random(&seed.to_string(), vec![len]).values;
    values.iter().map(|value| value.to_bits().to_le_bytes()[1]).collect()
}

fn loaded(model: &WeightProvider, name: &str) -> (DType, Vec<u8>) {
    let loaded = model.load(name).expect("a packed tensor");
    let [part] = loaded.parts.as_slice() else { panic!("{name}: {:?}", loaded.parts) };
    let range = part.range.start as usize..part.range.end as usize;
    (loaded.dtype, loaded.buffer[range].to_vec())
}

/// Rows of q and k come back to their places as they are packed, whole or out of a fused tensor.
#[test]
fn packed_rows_are_put_back() {
    // Four heads of width 6 and two key heads, in rows of two blocks.
    let (width, row, rows) = (6, 68, [24, 12, 12]);
    // Row 2i + c of a head in GGUF is row i of its half c, by llama.cpp's LlamaModel.permute.
    let paired = |bytes: &[u8]| -> Vec<u8> {
        let each: Vec<&[u8]> = bytes.chunks(row).collect();
        let from = |at: usize| at / width * width + at % 2 * (width / 2) + at % width / 2;
        (0..each.len()).flat_map(|at| each[from(at)].to_vec()).collect()
    };
    let hf: Vec<Vec<u8>> = (0u64..).zip(rows).map(|(n, rows)| noise(n, rows * row)).collect();
    let stored = [paired(&hf[0]), paired(&hf[1]), hf[2].clone()];
    assert_ne!(stored[1], hf[1]);
    let config = serde_json::json!({"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 6});
    let file = || {
        let keys = metadata("llama", &config);
        keys.into_iter().fold(Gguf::new(), |file, (key, value)| file.key(key, value))
    };
    let apart = ["attn_q", "attn_k", "attn_v"].into_iter().zip(rows).zip(&stored);
    let apart = apart.fold(file(), |file, ((name, rows), bytes)| {
        let shape = [rows as u64, 64];
        file.tensor(format!("blk.0.{name}.weight"), DType::Q8_0, &shape, bytes.clone())
    });
    let fused = file().tensor("blk.0.attn_qkv.weight", DType::Q8_0, &[48, 64], stored.concat());
    for file in [apart, fused] {
        let store = OpenOptions::new().open_memory("model.gguf", file.build()).expect("a file");
        let model = WeightProvider::new(store, Cpu).expect("a model");
        for (part, expected) in ["q", "k", "v"].into_iter().zip(&hf) {
            let name = format!("layers.0.attention.{part}.weight");
            assert!(loaded(&model, &name) == (DType::Q8_0, expected.clone()), "{name}");
        }
        let model = model.convention(Convention::Stored);
        model.unload_all();
        for (part, expected) in ["q", "k", "v"].into_iter().zip(&stored) {
            let name = format!("layers.0.attention.{part}.weight");
            assert!(loaded(&model, &name).1 == *expected, "{name} as it is stored");
        }
    }
}

/// Experts of gpt-oss in MXFP4, in three forms of the same bytes: gate and up in turn in Hugging
/// Face's files, apart in GGUF and in mlx-lm's (`data/names/gpt_oss.json`, mxfp4_checkpoint).
#[test]
fn experts_in_mxfp4_are_the_same_in_all_forms() {
    let (experts, rows, blocks) = (3usize, 4usize, 2usize);
    let config = serde_json::json!({"model_type": "gpt_oss", "hidden_size": 64,
        "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4});
    let codes = noise(1, experts * 2 * rows * blocks * 16);
    let scales: Vec<u8> =
        noise(2, experts * 2 * rows * blocks).iter().map(|byte| 120 + byte % 16).collect();
    // Rows of gate or of up: codes and scales.
    let every_other = |bytes: &[u8], len: usize, first: usize| -> Vec<u8> {
        bytes.chunks(len).skip(first).step_by(2).flatten().copied().collect()
    };
    let part =
        |first| (every_other(&codes, blocks * 16, first), every_other(&scales, blocks, first));
    let dims = |last: &[usize]| -> Vec<u64> {
        [&[experts], last].concat().iter().map(|dim| *dim as u64).collect()
    };
    let hf = Safetensors::new()
        .tensor(
            "model.layers.0.mlp.experts.gate_up_proj_blocks",
            "U8",
            &dims(&[2 * rows, blocks, 16]),
            codes.clone(),
        )
        .tensor(
            "model.layers.0.mlp.experts.gate_up_proj_scales",
            "U8",
            &dims(&[2 * rows, blocks]),
            scales.clone(),
        );
    let keys = metadata("gpt-oss", &config);
    let mut gguf = keys.into_iter().fold(Gguf::new(), |file, (key, value)| file.key(key, value));
    let mut mlx = Safetensors::new().metadata("format", "mlx");
    for (first, role) in ["gate", "up"].into_iter().enumerate() {
        let (codes, scales) = part(first);
        // ggml: the scale, then byte j with element j in its low half and j + 16 in its high one.
        let block = |(codes, scale): (&[u8], &u8)| {
            let element = |at: usize| codes[at / 2] >> (at % 2 * 4) & 15;
            let bytes = (0..16).map(move |j| element(j) | element(j + 16) << 4);
            std::iter::once(*scale).chain(bytes).collect::<Vec<u8>>()
        };
        let packed: Vec<u8> = codes.chunks(16).zip(&scales).flat_map(block).collect();
        let name = format!("blk.0.ffn_{role}_exps.weight");
        gguf = gguf.tensor(name, DType::MXFP4, &dims(&[rows, blocks * 32]), packed);
        let name = |end| format!("model.layers.0.mlp.experts.{role}_proj.{end}");
        mlx = mlx.tensor(&name("weight"), "U32", &dims(&[rows, blocks * 4]), codes);
        mlx = mlx.tensor(&name("scales"), "U8", &dims(&[rows, blocks]), scales);
    }
    let directory = |file: Safetensors, config: &Json| {
        let config = config.to_string().into_bytes();
        folder(&[("config.json", config), ("model.safetensors", file.build())])
    };
    let mut quantized = config.clone();
    quantized["quantization"] = serde_json::json!({"group_size": 32, "bits": 4, "mode": "mxfp4"});
    let mut blocked = config.clone();
    blocked["quantization_config"] = serde_json::json!({"quant_method": "mxfp4"});
    let (hf, mlx) = (directory(hf, &blocked), directory(mlx, &quantized));
    let models = [
        OpenOptions::new().open(hf.path()),
        OpenOptions::new().open_memory("model.gguf", gguf.build()),
        OpenOptions::new().open(mlx.path()),
    ];
    let [hf, gguf, mlx] =
        models.map(|store| WeightProvider::new(store.expect("a store"), Cpu).expect("a model"));
    for role in ["gate", "up"] {
        let name = format!("layers.0.ffn.experts.{role}.weight");
        let values = |model: &WeightProvider| {
            let view = model.tensor(&name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(view.shape(), dims(&[rows, blocks * 32]));
            view.dequantize().expect("values").to_vec()
        };
        let expected = values(&hf);
        assert!(expected.iter().any(|value| *value != expected[0]));
        assert!(values(&gguf) == expected, "{name} in GGUF");
        assert!(values(&mlx) == expected, "{name} in MLX");
        // Rows are taken out of the fused tensor without decoding.
        assert_eq!(hf.load(&name).expect("packed experts").dtype, DType::HF_MXFP4);
    }
}

/// GPTQ packs codes of several inputs in a word, a column of words an output. Where there are as
/// many rows of words as outputs, they are still not the rows of outputs.
#[test]
fn rows_that_are_packed_together_are_not_taken_apart() {
    let (outputs, inputs, groups) = (24usize, 192usize, 2usize);
    let scales: Vec<u8> = (0..groups * outputs)
        .flat_map(|number| half::f16::from_f32(0.25 + number as f32 / 64.0).to_le_bytes())
        .collect();
    let base = "model.layers.0.self_attn.W_pack";
    let file = Safetensors::new()
        .tensor(&format!("{base}.qweight"), "I32", &[24, 24], noise(3, 24 * 24 * 4))
        .tensor(&format!("{base}.qzeros"), "I32", &[2, 3], noise(4, 24))
        .tensor(&format!("{base}.scales"), "F16", &[2, 24], scales);
    let config = r#"{"model_type": "baichuan", "hidden_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 2, "head_dim": 4, "quantization_config": {"quant_method": "gptq"}}"#;
    let folder =
        folder(&[("config.json", config.as_bytes().to_vec()), ("model.safetensors", file.build())]);
    let model = WeightProvider::open(folder.path()).expect("a model");
    let whole = model.store().tensor(&format!("{base}.weight")).expect("the stored tensor");
    assert_eq!((whole.dtype().expect("a dtype"), whole.shape()), (DType::GPTQ4, &[24, 192][..]));
    let whole = whole.dequantize().expect("values");
    for (number, part) in ["q", "k", "v"].into_iter().enumerate() {
        let name = format!("layers.0.attention.{part}.weight");
        let values = model.tensor(&name).expect("a part").dequantize().expect("values");
        let from = number * outputs / 3 * inputs;
        assert!(*values == whole[from..from + outputs / 3 * inputs], "{name}");
        let error = model.load(&name).expect_err("words of several rows");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
}
