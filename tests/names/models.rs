//! Models of random values, made from lists of names in each form that there is a list for. The
//! large lists are those in `tests/data/names`; what those lack stands in `lists.rs`.
#![allow(dead_code, reason = "each test file uses a part of it")]

#[path = "alone.rs"]
mod alone;
#[path = "lists.rs"]
pub(crate) mod lists;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value as Json;
use tempfile::TempDir;
use weighbridge::{DType, Model, OpenOptions, Strictness};

use crate::support::{Gguf, Kv, Safetensors, f32s, folder};

/// The kind of model that a list of names belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
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
pub(crate) struct Array {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f32>,
}

pub(crate) type Tensors = BTreeMap<String, Array>;

/// A model in all forms that there are names for.
#[derive(Clone)]
pub(crate) struct NamedModel {
    pub(crate) name: String,
    /// The source of the names.
    pub(crate) source: String,
    pub(crate) config: Json,
    /// `general.architecture`.
    pub(crate) gguf: String,
    /// The first is the one whose values the others were made of.
    pub(crate) forms: Vec<(Form, Tensors)>,
}

impl Array {
    /// Values between -1 and 1 that nothing but the name decides.
    pub(crate) fn random(name: &str, shape: Vec<usize>) -> Self {
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
            "exp" => self.map(f32::exp),
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
            "apart" => {
                let arrays: usize = arguments.parse().expect("a number of arrays");
                let shape = [&[arrays, self.shape[0] / arrays], &self.shape[1..]].concat();
                Self { shape, ..self }
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
pub(crate) fn made(
    from: &Tensors,
    links: &[(String, String, String)],
    shapes: &BTreeMap<String, Vec<usize>>,
) -> Tensors {
    let mut parts: BTreeMap<&str, Vec<(usize, &str, Array)>> = BTreeMap::new();
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
        tensors.insert(name.to_owned(), Array { shape, values });
    }
    for (name, shape) in shapes {
        // Divisors of 1 are ones that a config can make.
        let made = || match name.as_str() {
            "rope_freqs.weight" => Array::random(name, shape.clone()).map(|_| 1.0),
            _ => Array::random(name, shape.clone()),
        };
        tensors.entry(name.clone()).or_insert_with(made);
    }
    tensors
}

pub(crate) fn shapes(json: &Json) -> BTreeMap<String, Vec<usize>> {
    let dims = |shape: &Json| serde_json::from_value(shape.clone()).expect("dimensions");
    let all = json.as_object().into_iter().flatten();
    all.map(|(name, shape)| (name.clone(), dims(shape))).collect()
}

/// The names that each tensor of Hugging Face becomes. A tensor that `names` omits keeps its own
/// name, if that is so in this form.
pub(crate) fn links(
    list: &Json,
    names: &str,
    transforms: &str,
    keeps: bool,
) -> Vec<(String, String, String)> {
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
pub(crate) fn correct_experts(links: &mut [(String, String, String)]) {
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
pub(crate) fn listed(name: &str, list: &Json) -> NamedModel {
    let random = |(name, shape): (String, _)| (name.clone(), Array::random(&name, shape));
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
    NamedModel { name, source, config: list["config"].clone(), gguf, forms }
}

/// The models of the files of names, if they are here.
pub(crate) fn listed_models() -> Vec<NamedModel> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/names");
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
pub(crate) fn own(list: &lists::List) -> NamedModel {
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
            hf.entry(name.to_owned()).or_insert_with(|| Array::random(name, shape));
            if let Some(other) = other.filter(|other| **other != "-") {
                let transform = columns.get(3).copied().unwrap_or("");
                let other = if *other == "=" { name } else { other };
                links.push((other.to_owned(), transform.to_owned(), name.to_owned()));
            }
        }
    }
    let other = made(&hf, &links, &alone);
    let config: Json = serde_json::from_str(list.config).expect("JSON");
    let mut forms = vec![(Form::HuggingFace, hf), (list.form, other)];
    forms.retain(|(_, tensors)| !tensors.is_empty());
    let (name, source) = (list.name.to_owned(), list.source.to_owned());
    NamedModel { name, source, config, gguf: list.gguf.to_owned(), forms }
}

pub(crate) fn models() -> Vec<NamedModel> {
    let mut models = listed_models();
    models.extend(lists::LISTS.iter().map(own));
    models
}

/// The models of architectures that GGUF alone has.
pub(crate) fn of_gguf_alone() -> Vec<NamedModel> {
    alone::ALONE.iter().map(own).collect()
}

/// The models of `tests/data/classes.json`, as transformers' classes write them.
pub(crate) fn of_classes() -> Vec<NamedModel> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/classes.json");
    let text = std::fs::read_to_string(path).expect("a file");
    let found: Json = serde_json::from_str(&text).expect("JSON");
    let case = |case: &Json| {
        let tensors =
            case["tensors"].as_object().expect("an object").iter().map(|(name, shape)| {
                let lengths = shape.as_array().expect("a list").iter();
                let shape =
                    lengths.map(|length| length.as_u64().expect("a length") as usize).collect();
                (name.clone(), Array::random(name, shape))
            });
        NamedModel {
            name: case["name"].as_str().expect("a name").to_owned(),
            source: found["source"].as_str().expect("a text").to_owned(),
            config: case["config"].clone(),
            gguf: String::new(),
            forms: vec![(Form::HuggingFace, tensors.collect())],
        }
    };
    found["cases"].as_array().expect("a list").iter().map(case).collect()
}

/// The keys that llama.cpp's converter writes of a config: the key after the architecture's name,
/// and the names in `config.json` (conversion/base.py, `set_gguf_parameters`).
#[rustfmt::skip]
pub(crate) const KEYS: &[(&str, &[&str])] = &[
    ("embedding_length",                  &["hidden_size", "n_embd", "d_model"]),
    ("block_count",                       &["num_hidden_layers", "n_layer", "num_layers"]),
    ("context_length",                    &["max_position_embeddings", "n_positions"]),
    ("feed_forward_length",               &["intermediate_size_mlp", "intermediate_size", "n_inner", "d_ff"]),
    ("attention.head_count",              &["num_attention_heads", "n_head", "num_heads"]),
    ("attention.head_count_kv",           &["num_key_value_heads", "num_kv_heads"]),
    ("attention.key_length",              &["global_head_dim", "head_dim", "d_kv"]),
    ("attention.value_length",            &["global_head_dim", "head_dim", "d_kv"]),
    ("decoder_block_count",               &["num_decoder_layers"]),
    ("attention.relative_buckets_count",  &["relative_attention_num_buckets"]),
    ("attention.sliding_window",          &["sliding_window"]),
    ("attention.shared_kv_layers",        &["num_kv_shared_layers"]),
    ("embedding_length_per_layer_input",  &["hidden_size_per_layer_input"]),
    ("altup.active_idx",                  &["altup_active_idx"]),
    ("altup.num_inputs",                  &["altup_num_inputs"]),
    ("attention.layer_norm_rms_epsilon",  &["rms_norm_eps"]),
    ("attention.layer_norm_epsilon",      &["layer_norm_eps", "layer_norm_epsilon"]),
    ("vocab_size",                        &["vocab_size"]),
    ("expert_count",                      &["num_local_experts", "num_experts", "n_routed_experts"]),
    ("expert_used_count",                 &["num_experts_per_tok", "top_k_experts", "moe_k", "moe_topk", "moe_top_k"]),
    ("expert_feed_forward_length",        &["moe_intermediate_size"]),
    ("expert_shared_feed_forward_length", &["shared_expert_intermediate_size"]),
    ("expert_shared_count",               &["n_shared_experts"]),
    ("leading_dense_block_count",         &["first_k_dense_replace", "num_dense_layers"]),
    ("attention.q_lora_rank",             &["q_lora_rank"]),
    ("attention.kv_lora_rank",            &["kv_lora_rank"]),
    ("rope.dimension_count",              &["qk_rope_head_dim"]),
    ("attention.value_length_mla",        &["v_head_dim"]),
    ("attention.indexer.head_count",      &["index_n_heads"]),
    ("attention.indexer.key_length",      &["index_head_dim"]),
    ("attention.indexer.top_k",           &["index_topk"]),
    ("ssm.conv_kernel",                   &["linear_conv_kernel_dim", "mamba_d_conv", "conv_kernel"]),
    ("ssm.state_size",                    &["linear_key_head_dim", "mamba_d_state", "state_size"]),
    ("ssm.group_count",                   &["linear_num_key_heads", "n_groups"]),
    ("ssm.time_step_rank",                &["linear_num_value_heads", "mamba_dt_rank", "num_heads", "time_step_rank"]),
    ("shortconv.l_cache",                 &["conv_L_cache"]),
    ("interleave_moe_layer_step",         &["interleave_moe_layer_step"]),
    ("moe_every_n_layers",                &["moe_every_n_layers"]),
    // The converter has no Whisper; these are as ggml's docs/gguf.md has them.
    ("encoder.block_count",               &["encoder_layers"]),
    ("encoder.attention.head_count",      &["encoder_attention_heads"]),
    ("encoder.feed_forward_length",       &["encoder_ffn_dim"]),
    ("encoder.context_length",            &["max_source_positions"]),
    ("encoder.mels_count",                &["num_mel_bins"]),
    ("decoder.block_count",               &["decoder_layers"]),
    ("decoder.attention.head_count",      &["decoder_attention_heads"]),
    ("decoder.feed_forward_length",       &["decoder_ffn_dim"]),
    ("decoder.context_length",            &["max_target_positions"]),
];

pub(crate) fn number(json: &Json) -> Kv {
    match json.as_u64() {
        Some(number) => Kv::U32(u32::try_from(number).expect("a small number")),
        None => Kv::F32(json.as_f64().expect("a number") as f32),
    }
}

/// The metadata that a GGUF file of this config has.
pub(crate) fn metadata(architecture: &str, config: &Json) -> Vec<(String, Kv)> {
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
    if let (Some(width), Some(times)) =
        (count("hidden_size"), count("mamba_expand").or(count("expand")))
    {
        found.insert("ssm.inner_size", (width * times).into());
    }
    // Layers without attention have no key heads.
    let heads = count("num_key_value_heads");
    if let Some(kinds) = config.get("layer_types").and_then(Json::as_array)
        && kinds.iter().any(|kind| kind == "conv")
    {
        let of = |kind: &Json| heads.filter(|_| kind != "conv").unwrap_or(0);
        found.insert("attention.head_count_kv", kinds.iter().map(of).collect());
    }
    if let (Some(period), Some(offset)) = (count("attn_layer_period"), count("attn_layer_offset")) {
        let layers = 0..count("num_hidden_layers").unwrap_or(0);
        let of = |layer: u64| heads.filter(|_| layer % period == offset).unwrap_or(0);
        found.insert("attention.head_count_kv", layers.map(of).collect());
    }
    if let (Some(narrow), Some(_)) = (count("head_dim"), count("global_head_dim")) {
        found.insert("attention.key_length_swa", narrow.into());
        found.insert("attention.value_length_swa", narrow.into());
    }
    found.extend(
        config["rope_parameters"]["sliding_attention"]
            .get("rope_theta")
            .map(|theta| ("rope.freq_base_swa", theta.clone())),
    );
    let mut keys = vec![("general.architecture".to_owned(), Kv::text(architecture))];
    let mut list = |key: &str, code: u32, values: Vec<Kv>| {
        keys.push((format!("{architecture}.{key}"), Kv::Array(code, values)));
    };
    if let Some(kinds) = config.get("layer_types").and_then(Json::as_array) {
        for (kind, key) in [
            ("sliding_attention", "attention.sliding_window_pattern"),
            ("linear_attention", "attention.recurrent_layers"),
        ] {
            if kinds.iter().any(|found| found == kind) {
                list(key, 7, kinds.iter().map(|found| Kv::Bool(found == kind)).collect());
            }
        }
    }
    // Half of a normal distribution lies below its mean; other parts no list has.
    if let Some(parts) = config.get("activation_sparsity_pattern").and_then(Json::as_array) {
        assert!(parts.iter().all(|part| *part == 0.5), "{parts:?}");
        list("activation_sparsity_scale", 6, vec![Kv::F32(0.0); parts.len()]);
    }
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
pub(crate) struct Opened {
    pub(crate) form: Form,
    pub(crate) model: Model,
    _folder: Option<TempDir>,
}

pub(crate) fn open(model: &NamedModel, form: Form, tensors: &Tensors) -> Opened {
    let dims = |tensor: &Array| tensor.shape.iter().map(|dim| *dim as u64).collect::<Vec<u64>>();
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
        // A model has the name of its folder.
        let files = [("named/config.json", config), ("named/model.safetensors", file.build())];
        let folder = folder(&files);
        let named = folder.path().join("named");
        (OpenOptions::new().open(named).expect("a directory"), Some(folder))
    };
    let model = crate::support::resolved(store).unwrap_or_else(|error| {
        panic!("{}, {form:?}: {error}", model.name);
    });
    Opened { form, model, _folder: folder }
}

/// Puts `{n}` for a layer's number.
pub(crate) fn pattern(name: &str) -> String {
    let mut layer = false;
    let component = |component: &str| {
        let number = !layer && component.parse::<u32>().is_ok();
        layer |= number;
        if number { "{n}".to_owned() } else { component.to_owned() }
    };
    name.split('.').map(component).collect::<Vec<_>>().join(".")
}
