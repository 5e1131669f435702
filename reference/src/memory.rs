//! The memory that running a model takes: its weights, what it remembers of a text, and room to
//! compute in.

use std::collections::HashSet;

use weighbridge::arch::{Field, LayerKind};
use weighbridge::model::Encoding;
use weighbridge::{DType, Model, ModelConfig};

use crate::error::{Error, Result};
use crate::plan::{AttentionPlan, LayerPlan, LinearPlan, MixerPlan, Plan, StateSpacePlan};

/// The kinds of layers of Ollama's store that are weights next to those of the model. A draft model is one file, or
/// tensors.
const ATTACHED: [&str; 4] = ["adapter", "projector", "draft", "tensor"];

/// For what a model is run.
#[derive(Clone, Copy, Debug)]
pub struct MemoryOptions {
    /// Positions that the cache holds.
    pub context: u64,
    /// Positions that are computed at a time.
    pub batch: u64,
    /// The dtype of keys and values in the cache.
    pub cache: DType,
}

/// The memory that one layer takes, in bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LayerMemory {
    /// Its tensors, packed as they are stored.
    pub weights: u64,
    /// Its keys and values, or its state.
    pub cache: u64,
}

impl LayerMemory {
    fn total(self) -> u64 {
        self.weights.saturating_add(self.cache)
    }
}

/// The memory that a model takes, in bytes.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Each layer's.
    pub layers: Vec<LayerMemory>,
    /// Tensors before the layers: the embedding, an encoder, and what has no place in the model; and the adapters,
    /// vision models and draft models that a store attaches to the model.
    pub input: u64,
    /// Tensors behind the layers: the output matrix and its norm. A tied output matrix is the
    /// embedding, and counts there.
    pub output: u64,
    /// Whether the output matrix is the embedding.
    pub is_tied: bool,
    /// Room for the values of a batch: an estimate, see [`Footprint::at`].
    pub buffers: u64,
    /// The reason why the cache and the buffers are unknown; they are then 0 here.
    pub unknown: Option<String>,
}

impl Memory {
    /// Tensors of no layer.
    pub fn shared(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// All weights.
    pub fn weights(&self) -> u64 {
        self.layers.iter().map(|layer| layer.weights).fold(self.shared(), u64::saturating_add)
    }

    /// The cache of all layers; `None` if it is unknown.
    pub fn cache(&self) -> Option<u64> {
        let cache = self.layers.iter().map(|layer| layer.cache).fold(0, u64::saturating_add);
        self.unknown.is_none().then_some(cache)
    }

    /// Weights, cache and buffers; `None` if one of them is unknown.
    pub fn total(&self) -> Option<u64> {
        Some(self.weights().saturating_add(self.cache()?).saturating_add(self.buffers))
    }

    /// The number of layers, counted from the last, that fit into `room` with their cache, the
    /// buffers and the tensors of no layer. An unknown cache counts as 0.
    pub fn layers_within(&self, room: u64) -> usize {
        let mut left = room.checked_sub(self.buffers.saturating_add(self.shared()));
        let mut fitting = 0;
        for layer in self.layers.iter().rev() {
            left = left.and_then(|left| left.checked_sub(layer.total()));
            if left.is_none() {
                break;
            }
            fitting += 1;
        }
        fitting
    }

    /// Divides the model among devices of these sizes, as llama.cpp does: the last layers, as many
    /// as fit, lie on the devices in order; the output matrix lies on the last device that is used;
    /// the embedding and the other layers stay in the memory of the host. Each device has separate
    /// buffers. An unknown cache counts as 0.
    pub fn place(&self, sizes: &[u64]) -> Placement {
        let all = self.layers.len();
        let placed = (0..=all).rev().find_map(|count| self.try_place(sizes, count));
        let (devices, on_devices) =
            placed.unwrap_or_else(|| (vec![Share::default(); sizes.len()], 0));
        let first = all.saturating_sub(on_devices);
        let mut host = Share { layers: first, weights: self.input, ..Share::default() };
        for layer in self.layers.iter().take(first) {
            host.weights = host.weights.saturating_add(layer.weights);
            host.cache = host.cache.saturating_add(layer.cache);
        }
        if on_devices == 0 {
            host.weights = host.weights.saturating_add(self.output);
        }
        // With all layers on devices, the host only looks up embeddings.
        host.buffers = if first > 0 { self.buffers } else { 0 };
        Placement { devices, host }
    }

    /// The shares of the devices if the last `count` layers lie on them; `None` if these do not
    /// fit.
    fn try_place(&self, sizes: &[u64], count: usize) -> Option<(Vec<Share>, usize)> {
        let mut shares = vec![Share::default(); sizes.len()];
        let mut device = 0;
        let begin = self.layers.len().checked_sub(count)?;
        // The output matrix takes room on the last device; a tied one is a second embedding there.
        let output = self.output.saturating_add(if self.is_tied { self.input } else { 0 });
        for (number, layer) in self.layers.iter().enumerate().skip(begin) {
            let is_last = number + 1 == self.layers.len();
            let more = layer.total().saturating_add(if is_last { output } else { 0 });
            loop {
                let (size, share) = (*sizes.get(device)?, shares.get_mut(device)?);
                let held = if share.layers > 0 { share.total() } else { self.buffers };
                if held.saturating_add(more) <= size {
                    if share.layers == 0 {
                        (share.first, share.buffers) = (number, self.buffers);
                    }
                    share.layers += 1;
                    share.weights = share.weights.saturating_add(layer.weights);
                    share.cache = share.cache.saturating_add(layer.cache);
                    if is_last {
                        share.weights = share.weights.saturating_add(output);
                    }
                    break;
                }
                device += 1;
            }
        }
        (count > 0).then_some((shares, count))
    }
}

/// A model that is divided among devices.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The share of each device, in order.
    pub devices: Vec<Share>,
    /// The share of the host.
    pub host: Share,
}

impl Placement {
    /// Whether all layers lie on devices.
    pub fn is_whole(&self) -> bool {
        self.host.layers == 0
    }
}

/// The share of a device, in bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Share {
    /// The first of its layers.
    pub first: usize,
    /// The number of its layers.
    pub layers: usize,
    /// Their tensors; on the last device also the output matrix.
    pub weights: u64,
    /// Their cache.
    pub cache: u64,
    /// Room for the values of a batch.
    pub buffers: u64,
}

impl Share {
    /// Weights, cache and buffers.
    pub fn total(&self) -> u64 {
        self.weights.saturating_add(self.cache).saturating_add(self.buffers)
    }
}

/// The state that a layer keeps for earlier positions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kept {
    /// A row of keys and one of values for each position, or for those of a window.
    Rows {
        /// Elements of a row of keys.
        keys: usize,
        /// Elements of a row of values; 0 in latent attention.
        values: usize,
        /// The positions that a layer sees, if not all.
        window: Option<usize>,
        /// Elements of the F32 state of a state space next to attention.
        state: usize,
    },
    /// A state of so many F32 numbers, whatever the context.
    State(usize),
    /// Nothing: an encoder, or a layer that uses the keys of another.
    Nothing,
}

impl Kept {
    /// A description in a few words.
    pub fn describe(&self) -> String {
        match self {
            Self::Rows { values: 0, .. } => "latent attention".to_owned(),
            Self::Rows { window: Some(window), .. } => format!("attention to {window} positions"),
            Self::Rows { state: 1.., .. } => "attention and a state".to_owned(),
            Self::Rows { .. } => "attention".to_owned(),
            Self::State(_) => "a state".to_owned(),
            Self::Nothing => "no cache of its own".to_owned(),
        }
    }
}

/// The facts that determine a model's memory, besides the context: see [`at`](Self::at).
#[derive(Clone, Debug)]
pub struct Footprint {
    weights: Vec<u64>,
    input: u64,
    output: u64,
    is_tied: bool,
    kept: Vec<Kept>,
    /// The reason why it is unknown what layers keep.
    unknown: Option<String>,
    /// Elements of the rows of keys and values of what a decoder hears, in each layer.
    heard: (u64, usize),
    encodes: bool,
    /// The elements of a position in the widest step of a layer, without the mask of attention.
    layer_width: u64,
    /// The elements of a position in the last step.
    last_width: u64,
}

impl Footprint {
    /// Reads from a model what its memory depends on. Families that the reference cannot run are
    /// measured by their tensors, and unknown ones by the keys of their config. Where these do not
    /// suffice, the cache and the buffers are unknown.
    ///
    /// # Errors
    ///
    /// `Model` if the config of a known family cannot be read.
    pub fn of(model: &Model) -> Result<Self> {
        let config = match model.config() {
            Ok(config) => config,
            // The config of an unknown family may have other keys.
            Err(error) if model.resolution()?.architecture.is_none() => {
                let mut footprint = Self::empty(0);
                footprint.unknown = Some(match model.is_projector() {
                    true => {
                        "a projector has no cache, and its buffers depend on the images or sounds"
                            .to_owned()
                    }
                    false => error.to_string(),
                });
                footprint.weigh(model, None)?;
                return Ok(footprint);
            }
            Err(error) => return Err(error.into()),
        };
        let layers = config.n_layers.value as usize;
        let plan = match Plan::of(model) {
            // To the plan, a layer whose matrices are not decoded has none.
            Ok(_) if !model.resolution()?.undecoded.is_empty() => None,
            Ok(plan) => Some(plan),
            Err(Error::Unsupported(_)) => None,
            Err(error) => return Err(error),
        };
        let mut footprint = Self::empty(layers);
        footprint.encodes = match &plan {
            Some(plan) => plan.encodes(),
            None => encodes(model)?,
        };
        let kept = match &plan {
            Some(plan) => Ok(plan.layers.iter().map(|layer| of_plan(model, plan, layer)).collect()),
            None if footprint.encodes => Ok(vec![Kept::Nothing; layers]),
            None => (0..layers).map(|layer| without_plan(model, config, layer)).collect(),
        };
        match kept {
            Ok(mut kept) => {
                as_in_llama_cpp(model, config, &mut kept);
                footprint.kept = kept;
            }
            Err(reason) => footprint.unknown = Some(reason),
        }
        if let Some(Plan { encoder: Some(encoder), .. }) = &plan {
            let rows = footprint.kept.iter().map(|kept| match kept {
                Kept::Rows { keys, values, .. } => keys + values,
                _ => 0,
            });
            footprint.heard = (encoder.positions as u64, rows.max().unwrap_or(0));
        }
        footprint.weigh(model, Some(config))?;
        let wide = |field: Option<u32>| u64::from(field.unwrap_or(0));
        let experts = &config.experts;
        let expert = wide(experts.expert_ffn_dim.as_ref().map(|f| f.value))
            * wide(experts.n_experts_used.as_ref().map(|f| f.value));
        let (dim, ffn) =
            (u64::from(config.dim.value), wide(config.ffn_dim.as_ref().map(|f| f.value)));
        // The inputs of a product are there twice, the second time by columns.
        footprint.layer_width = 3 * dim + 2 * ffn.max(expert) + dim.max(ffn).max(expert);
        let vocabulary = wide(config.vocab_size.as_ref().map(|f| f.value));
        footprint.last_width =
            if footprint.encodes { 0 } else { vocabulary.saturating_add(2 * dim) };
        Ok(footprint)
    }

    fn empty(layers: usize) -> Self {
        Self {
            weights: vec![0; layers],
            input: 0,
            output: 0,
            is_tied: false,
            kept: Vec::new(),
            unknown: None,
            heard: (0, 0),
            encodes: false,
            layer_width: 0,
            last_width: 0,
        }
    }

    /// Adds each stored tensor to its layer. A tensor that holds several canonical ones counts once.
    fn weigh(&mut self, model: &Model, config: Option<&ModelConfig>) -> Result<()> {
        let resolution = model.resolution()?;
        let mut seen = HashSet::new();
        let mapped = resolution.mapped.iter().flat_map(|mapping| {
            mapping.stored.iter().map(|stored| (mapping.canonical.as_str(), stored.as_str()))
        });
        let undecoded = resolution.undecoded.iter();
        let undecoded = undecoded.map(|array| (array.canonical.as_str(), array.stored.as_str()));
        let mut has_output = false;
        for (name, stored) in mapped.chain(undecoded) {
            has_output |= name == "output.weight";
            if !seen.insert(stored) {
                continue;
            }
            let bytes = model.stored_tensor(stored)?.stored_bytes();
            let layer = name.strip_prefix("layers.").and_then(|rest| rest.split_once('.'));
            let layer = layer.and_then(|(number, _)| number.parse::<usize>().ok());
            match layer.and_then(|number| self.weights.get_mut(number)) {
                Some(weights) => *weights = weights.saturating_add(bytes),
                None if name.starts_with("output") => {
                    self.output = self.output.saturating_add(bytes);
                }
                None => self.input = self.input.saturating_add(bytes),
            }
        }
        // The stored names of an unknown family have the number of the layer too.
        let is_unknown = resolution.architecture.is_none();
        for tensor in model.stored_tensors() {
            if seen.contains(tensor.name()) {
                continue;
            }
            let (name, bytes) = (tensor.name(), tensor.stored_bytes());
            let number = name.split('.').find_map(|part| part.parse::<usize>().ok());
            let layer = number.filter(|_| is_unknown);
            let is_output = is_unknown && (name == "output.weight" || name.contains("lm_head"));
            has_output |= is_output;
            match layer.and_then(|number| self.weights.get_mut(number)) {
                Some(weights) => *weights = weights.saturating_add(bytes),
                None if is_output => self.output = self.output.saturating_add(bytes),
                None => self.input = self.input.saturating_add(bytes),
            }
        }
        // Engines load them next to the weights.
        let attached = model.attachments().iter();
        let attached = attached.filter(|layer| ATTACHED.contains(&&*layer.kind));
        let attached = attached.map(|layer| layer.bytes).fold(0, u64::saturating_add);
        self.input = self.input.saturating_add(attached);
        let tied = config.and_then(|config| config.tie_embeddings.as_ref());
        let tied = tied.is_some_and(|tied| tied.value);
        self.is_tied = !self.encodes && (tied || !has_output);
        Ok(())
    }

    /// The state that each layer keeps; empty if it is unknown.
    pub fn kept(&self) -> &[Kept] {
        &self.kept
    }

    /// Computes the memory that the model takes.
    ///
    /// The cache has what llama.cpp's has: a row of keys and a row of values for each position, a
    /// window's and a batch's positions in a layer with a sliding window, the latent and the rotated
    /// part in latent attention, nothing in a layer that uses the keys of another, and a state of
    /// fixed size in linear attention, state-space layers and short convolutions. Positions are
    /// rounded up to 256.
    ///
    /// The buffers are those of the widest step for a batch, in F32 (the logits of all positions, or
    /// a layer's activations), and the mask of attention, in F16. Programs differ in what they keep
    /// beside.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the dtype of the cache cannot hold a row of keys.
    pub fn at(&self, options: MemoryOptions) -> Result<Memory> {
        let layers = self.weights.iter().enumerate().map(|(number, &weights)| {
            let kept = self.kept.get(number).map(|kept| self.cache(kept, options));
            Ok(LayerMemory { weights, cache: kept.transpose()?.unwrap_or(0) })
        });
        Ok(Memory {
            layers: layers.collect::<Result<_>>()?,
            input: self.input,
            output: self.output,
            is_tied: self.is_tied,
            buffers: if self.unknown.is_none() { self.buffers(options) } else { 0 },
            unknown: self.unknown.clone(),
        })
    }

    /// The bytes that a layer remembers.
    fn cache(&self, kept: &Kept, options: MemoryOptions) -> Result<u64> {
        let row = |elements: usize| {
            options.cache.tensor_bytes(&[elements as u64]).ok_or_else(|| {
                let dtype = options.cache.name();
                let fault =
                    format!("a cache of {dtype}: a row of {elements} elements is no whole block");
                Error::Unsupported(fault)
            })
        };
        let own = match *kept {
            Kept::Rows { keys, values, window, state } => {
                let context = options.context.next_multiple_of(CELLS);
                let positions = window.map_or(context, |window| {
                    // A batch is added before the positions behind the window are forgotten.
                    (window as u64)
                        .saturating_add(options.batch)
                        .next_multiple_of(CELLS)
                        .min(context)
                });
                let values = if values == 0 { 0 } else { row(values)? };
                let rows = positions.saturating_mul(row(keys)?.saturating_add(values));
                rows.saturating_add((state as u64).saturating_mul(4))
            }
            Kept::State(elements) => (elements as u64).saturating_mul(4),
            Kept::Nothing => 0,
        };
        // The keys and values of what a decoder hears are those of the encoder's positions.
        let heard = match self.heard {
            (0, _) | (_, 0) => 0,
            (positions, elements) => positions.saturating_mul(row(elements)?),
        };
        Ok(own.saturating_add(heard))
    }

    /// The values of the widest step, and the mask of attention.
    fn buffers(&self, options: MemoryOptions) -> u64 {
        let batch = options.batch.min(options.context);
        let attends =
            self.encodes || self.kept.iter().any(|kept| matches!(kept, Kept::Rows { .. }));
        let masked = match attends {
            true if self.encodes => batch,
            true => options.context.next_multiple_of(CELLS),
            false => 0,
        };
        let values = self.layer_width.max(self.last_width).saturating_mul(4);
        batch.saturating_mul(values.saturating_add(masked.saturating_mul(2)))
    }

    /// The longest context, up to `most`, with which the model takes no more than `room`; `None` if
    /// not even one position fits, or the cache is unknown.
    ///
    /// # Errors
    ///
    /// Same as [`at`](Self::at).
    pub fn longest_context(
        &self,
        options: MemoryOptions,
        room: u64,
        most: u64,
    ) -> Result<Option<u64>> {
        let fits = |context| {
            let memory = self.at(MemoryOptions { context, ..options })?;
            Ok(memory.total().is_some_and(|total| total <= room))
        };
        // The memory grows with the context.
        let (mut fitting, mut beyond) = (0, most.saturating_add(1));
        while beyond - fitting > 1 {
            let middle = fitting.midpoint(beyond);
            let fits: Result<bool> = fits(middle);
            if fits? { fitting = middle } else { beyond = middle }
        }
        Ok((fitting > 0).then_some(fitting))
    }
}

/// llama.cpp has a multiple of so many positions.
const CELLS: u64 = 256;

/// The positions of a chunk in llama.cpp, whatever the model has (src/models/llama4.cpp).
const CHUNK: usize = 8192;

/// In a GGUF file, the windows that the keys of llama.cpp do not state have no effect: it keeps every position.
fn as_in_llama_cpp(model: &Model, config: &ModelConfig, layers: &mut [Kept]) {
    let architecture = model.metadata().str("general.architecture").unwrap_or_default();
    let states = |key: &str| model.metadata().get(&format!("{architecture}.{key}")).is_some();
    if model.encoding() != Encoding::Gguf || states("attention.sliding_window") {
        return;
    }
    for (number, kept) in (0..).zip(layers) {
        if let Kept::Rows { window, .. } = kept {
            let is_chunk = matches!(config.layer_kind(number), Some(LayerKind::Chunked));
            *window = window.filter(|_| is_chunk).map(|_| CHUNK);
        }
    }
}

/// The state that a layer keeps, by its plan.
fn of_plan(model: &Model, plan: &Plan, layer: &LayerPlan) -> Kept {
    let rows = |attention: &AttentionPlan, keys: usize, values: usize| Kept::Rows {
        keys,
        values,
        window: attention.window,
        state: 0,
    };
    let state_of = |own: &StateSpacePlan| {
        own.kernel.saturating_sub(1) * own.channels() + own.inner * own.state
    };
    match &layer.mixer {
        _ if plan.encodes() => Kept::Nothing,
        MixerPlan::Attention(attention) if attention.keys_of.is_some() => Kept::Nothing,
        MixerPlan::Attention(attention) => {
            let keys = attention.kv_heads * attention.head_dim;
            rows(attention, keys, attention.kv_heads * attention.value_dim)
        }
        MixerPlan::Latent(attention, latent) => match keeps_latent(model) {
            true => rows(attention, latent.kv_rank + latent.rotated, 0),
            false => {
                let keys = attention.heads * attention.head_dim;
                rows(attention, keys, attention.heads * attention.value_dim)
            }
        },
        MixerPlan::Linear(linear) => Kept::State(state(linear)),
        MixerPlan::StateSpace(own) => Kept::State(state_of(own)),
        MixerPlan::Both(attention, own, _) => Kept::Rows {
            keys: attention.kv_heads * attention.head_dim,
            values: attention.kv_heads * attention.value_dim,
            window: attention.window,
            state: state_of(own),
        },
        MixerPlan::Decaying(own) => Kept::State(own.heads * own.head_dim * own.head_dim),
        MixerPlan::GatedLru(own) => Kept::State(own.kernel * own.channels),
        MixerPlan::MatrixLstm(own) => {
            Kept::State(own.heads * (own.key_dim * own.value_dim + own.key_dim + 1))
        }
        // The inputs of both parts, and three numbers for each channel.
        MixerPlan::TimeMix => Kept::State(5 * plan.dim),
        MixerPlan::None => Kept::Nothing,
        MixerPlan::ShortConvolution(kernel) => Kept::State(kernel.saturating_sub(1) * plan.dim),
    }
}

/// Whether the latent is what is kept. In a GGUF file whose matrices of keys and values are not
/// divided, llama.cpp computes keys and values of all heads, and keeps these.
fn keeps_latent(model: &Model) -> bool {
    let mut names = model.stored_tensors().map(|tensor| tensor.name().to_owned());
    model.encoding() != Encoding::Gguf || names.any(|name| name.ends_with(".attn_k_b.weight"))
}

/// The state of linear attention, which is F32: a matrix for each value head, and the inputs that
/// the convolution still sees.
fn state(plan: &LinearPlan) -> usize {
    let inputs = 2 * plan.key_heads * plan.key_dim + plan.value_heads * plan.value_dim;
    plan.kernel.saturating_sub(1) * inputs + plan.value_heads * plan.key_dim * plan.value_dim
}

/// The state that a layer of a family without a plan keeps: by its tensors, and by the config if
/// these have no canonical names, or are not those of keys and values. The error is the reason why
/// it is unknown.
fn without_plan(model: &Model, config: &ModelConfig, layer: usize) -> Result<Kept, String> {
    let resolution = model.resolution().map_err(|error| error.to_string())?;
    if resolution.architecture.is_none() {
        return of_config(config, layer);
    }
    let prefix = format!("layers.{layer}.attention.");
    let mapped = resolution.mapped.iter().map(|row| &row.canonical);
    let undecoded = resolution.undecoded.iter().map(|array| &array.canonical);
    let attends = || mapped.chain(undecoded).any(|name| name.starts_with(&prefix));
    match of_tensors(model, config, layer) {
        Kept::Nothing if attends() => of_config(config, layer),
        kept => Ok(kept),
    }
}

/// Whether the model encodes a text as a whole, by the lines of its family.
fn encodes(model: &Model) -> Result<bool> {
    let lines = model.resolution()?.architecture.and_then(|family| family.decoder);
    let config = model.document("config.json");
    let is_set = |key: &str| config.is_some_and(|config| config[key].as_bool() == Some(true));
    let mut attention = lines.into_iter().flatten().filter(|line| line.block == "attention");
    Ok(attention.any(|line| match line.values {
        ["bidirectional"] => true,
        ["bidirectional", "unless", key] => !is_set(key),
        _ => false,
    }))
}

/// The state that a layer keeps, by the keys of the config: a row of keys and one of values.
fn of_config(config: &ModelConfig, layer: usize) -> Result<Kept, String> {
    let attention = &config.attention;
    if attention.causal.as_ref().is_some_and(|causal| !causal.value) {
        return Ok(Kept::Nothing);
    }
    let ssm = &config.ssm;
    let others = [
        ("a state-space or linear layer", ssm.state_size.as_ref().or(ssm.inner_size.as_ref())),
        ("a convolution", ssm.conv_kernel.as_ref()),
        ("latent attention", attention.kv_lora_rank.as_ref()),
        ("shared keys and values", attention.n_kv_shared_layers.as_ref()),
        ("an encoder", config.encoder.enc_n_layers.as_ref()),
    ];
    for (what, field) in others {
        if let Some(field) = field.filter(|field| field.value > 0) {
            return Err(format!("{} states {what}, in an unknown arrangement", field.source));
        }
    }
    if let (Some(window), None) = (&attention.sliding_window, &config.layers) {
        let fault = "states a sliding window, and no key states for which layers";
        return Err(format!("{} {fault}", window.source));
    }
    let number = u32::try_from(layer).ok();
    let kind = number.and_then(|number| config.layer_kind(number));
    let is_local = matches!(kind, Some(LayerKind::Sliding));
    let window = match kind {
        Some(LayerKind::Full) => None,
        Some(LayerKind::Sliding) => attention.sliding_window.as_ref(),
        Some(LayerKind::Chunked) => attention.chunk_size.as_ref(),
        Some(kind) => return Err(format!("layer {layer} is of kind {}", kind.name())),
        None => return Err(format!("no key states the kind of layer {layer}")),
    };
    let heads = match &attention.n_kv_heads_per_layer {
        Some(listed) => *listed
            .value
            .get(layer)
            .ok_or_else(|| format!("{} does not list layer {layer}", listed.source))?,
        None => match &attention.n_global_kv_heads {
            Some(heads) if !is_local => heads.value,
            _ => config.n_kv_heads.value,
        },
    };
    let local = |field: &Option<Field<u32>>| field.as_ref().filter(|_| is_local).map(|f| f.value);
    let keys = local(&attention.local_head_dim).unwrap_or(config.head_dim.value);
    let values = local(&attention.local_value_head_dim)
        .or(attention.value_head_dim.as_ref().map(|field| field.value))
        .unwrap_or(keys);
    if heads == 0 {
        return Ok(Kept::Nothing);
    }
    let row = |width: u32| (heads as usize).saturating_mul(width as usize);
    let window = window.map(|field| field.value as usize);
    Ok(Kept::Rows { keys: row(keys), values: row(values), window, state: 0 })
}

/// The state that a layer keeps, by its tensors: keys and values, or the state of a state-space
/// layer or of a short convolution.
fn of_tensors(model: &Model, config: &ModelConfig, layer: usize) -> Kept {
    let shape = |name: &str| -> Option<Vec<usize>> {
        model.tensor(&format!("layers.{layer}.{name}.weight")).ok()?.dims().ok()
    };
    let rows = |name: &str| Some(*shape(name)?.first()?);
    if let (Some(keys), Some(values)) = (rows("attention.k"), rows("attention.v")) {
        let attention = &config.attention;
        let kind = u32::try_from(layer).ok().and_then(|layer| config.layer_kind(layer));
        let window = match kind {
            Some(LayerKind::Sliding) => attention.sliding_window.as_ref(),
            Some(LayerKind::Chunked) => attention.chunk_size.as_ref(),
            _ => None,
        };
        let window = window.map(|field| field.value as usize);
        return Kept::Rows { keys, values, window, state: 0 };
    }
    // A convolution sees one input less than it is wide, of each channel.
    let convolved = shape("ssm.conv").or_else(|| shape("short_conv"));
    let inputs = convolved.and_then(|shape| {
        let (channels, width) = (shape.first()?, shape.last()?);
        channels.checked_mul(width.saturating_sub(1))
    });
    let size = |field: &Option<Field<u32>>| field.as_ref().map_or(0, |field| field.value as usize);
    let is_state_space = model.has(&format!("layers.{layer}.ssm.conv.weight"));
    let state = match is_state_space {
        true => size(&config.ssm.inner_size).saturating_mul(size(&config.ssm.state_size)),
        false => 0,
    };
    match inputs {
        Some(inputs) => Kept::State(inputs.saturating_add(state)),
        None => Kept::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(is_tied: bool) -> Memory {
        let layers = vec![LayerMemory { weights: 90, cache: 10 }; 10];
        Memory { layers, input: 50, output: 20, is_tied, buffers: 30, unknown: None }
    }

    fn shares(placement: &Placement) -> Vec<(usize, usize, u64)> {
        placement.devices.iter().map(|share| (share.first, share.layers, share.total())).collect()
    }

    #[test]
    fn layers_are_placed_on_devices() {
        let whole = memory(false).place(&[2000]);
        assert_eq!(shares(&whole), [(0, 10, 1050)]);
        assert!(whole.is_whole());
        assert_eq!((whole.host.weights, whole.host.total()), (50, 50));
        // 1049 bytes are one too few: the first layer stays on the host.
        let part = memory(false).place(&[1049]);
        assert_eq!(shares(&part), [(1, 9, 950)]);
        assert_eq!((part.host.layers, part.host.weights, part.host.cache), (1, 140, 10));
        assert_eq!(part.host.buffers, 30);
        // Each device has buffers, and the last one the output matrix.
        let two = memory(false).place(&[450, 700]);
        assert_eq!(shares(&two), [(0, 4, 430), (4, 6, 650)]);
        let none = memory(false).place(&[40]);
        assert_eq!((shares(&none), none.host.layers), (vec![(0, 0, 0)], 10));
        assert_eq!(none.host.weights, memory(false).weights());
        // A tied embedding lies on the last device too.
        let tied = memory(true).place(&[2000]);
        assert_eq!((shares(&tied), tied.host.weights), (vec![(0, 10, 1100)], 50));
        assert_eq!(memory(false).layers_within(530), 4);
    }
}
