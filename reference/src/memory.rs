//! The memory that running a model takes: its weights, what it remembers of a text, and room to
//! compute in.

use weighbridge::{DType, Model};

use crate::error::{Error, Result};
use crate::plan::{AttentionPlan, LayerPlan, LinearPlan, MixerPlan, Plan};

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

/// The memory that a model takes, in bytes.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Each layer's.
    pub layers: Vec<LayerMemory>,
    /// Tensors of no layer: embedding, output matrix, norms, an encoder.
    pub shared: u64,
    /// Room for the values of a batch: an estimate, see [`Memory::of`].
    pub buffers: u64,
}

impl Memory {
    /// Computes the memory that a model takes.
    ///
    /// The cache has what llama.cpp's has: a row of keys and a row of values for each position, a
    /// window's and a batch's positions in a layer with a sliding window (rounded up to 256), the
    /// latent and the rotated part in latent attention, nothing in a layer that uses the keys of
    /// another, and a state of fixed size in linear attention.
    ///
    /// The buffers are those of the widest step for a batch, in F32: the logits of all positions,
    /// or a layer's activations with the mask of attention. Programs differ in what they keep
    /// beside.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the model's family has no plan, or the dtype cannot hold a row of keys.
    pub fn of(model: &Model, plan: &Plan, options: MemoryOptions) -> Result<Self> {
        let mut memory = Self {
            layers: plan.layers.iter().map(|_| LayerMemory::default()).collect(),
            shared: 0,
            buffers: buffers(model, plan, options)?,
        };
        for tensor in model.tensors()? {
            let tensor = tensor?;
            let bytes = tensor.stored_bytes();
            let layer = tensor.name().strip_prefix("layers.").and_then(|rest| rest.split_once('.'));
            let layer = layer.and_then(|(number, _)| number.parse::<usize>().ok());
            match layer.and_then(|number| memory.layers.get_mut(number)) {
                Some(layer) => layer.weights += bytes,
                None => memory.shared += bytes,
            }
        }
        for (layer, memory) in plan.layers.iter().zip(&mut memory.layers) {
            memory.cache = cache(plan, layer, options)?;
        }
        Ok(memory)
    }

    /// All weights.
    pub fn weights(&self) -> u64 {
        self.layers.iter().map(|layer| layer.weights).fold(self.shared, u64::saturating_add)
    }

    /// The cache of all layers.
    pub fn cache(&self) -> u64 {
        self.layers.iter().map(|layer| layer.cache).fold(0, u64::saturating_add)
    }

    /// Weights, cache and buffers.
    pub fn total(&self) -> u64 {
        self.weights().saturating_add(self.cache()).saturating_add(self.buffers)
    }

    /// How many layers, counted from the last, fit into `room` with their cache, the buffers and
    /// the tensors of no layer.
    pub fn layers_within(&self, room: u64) -> usize {
        let mut left = room.checked_sub(self.buffers.saturating_add(self.shared));
        let mut fitting = 0;
        for layer in self.layers.iter().rev() {
            left =
                left.and_then(|left| left.checked_sub(layer.weights.saturating_add(layer.cache)));
            if left.is_none() {
                break;
            }
            fitting += 1;
        }
        fitting
    }
}

/// The longest context, up to `most`, with which a model takes no more than `room`; `None` if not
/// even one position fits.
///
/// # Errors
///
/// Same as [`Memory::of`].
pub fn longest_context(
    model: &Model,
    plan: &Plan,
    options: MemoryOptions,
    room: u64,
    most: u64,
) -> Result<Option<u64>> {
    let weights = Memory::of(model, plan, options)?.weights();
    let fits = |context: u64| -> Result<bool> {
        let options = MemoryOptions { context, ..options };
        let layers = plan.layers.iter().map(|layer| cache(plan, layer, options));
        let cache = layers.sum::<Result<u64>>()?;
        let rest = buffers(model, plan, options)?.saturating_add(cache);
        Ok(weights.saturating_add(rest) <= room)
    };
    // The memory grows with the context.
    let (mut fitting, mut beyond) = (0, most.saturating_add(1));
    while beyond - fitting > 1 {
        let middle = fitting.midpoint(beyond);
        if fits(middle)? { fitting = middle } else { beyond = middle }
    }
    Ok((fitting > 0).then_some(fitting))
}

/// The bytes that a layer remembers.
fn cache(plan: &Plan, layer: &LayerPlan, options: MemoryOptions) -> Result<u64> {
    if plan.encodes() {
        return Ok(0);
    }
    let row = |elements: usize| {
        options.cache.tensor_bytes(&[elements as u64]).ok_or_else(|| {
            let dtype = options.cache.name();
            let fault =
                format!("a cache of {dtype}: a row of {elements} elements is no whole block");
            Error::Unsupported(fault)
        })
    };
    let positions = |attention: &AttentionPlan| match attention.window {
        // A batch is added before the positions behind the window are forgotten.
        Some(window) => {
            let held = (window as u64).saturating_add(options.batch).next_multiple_of(256);
            held.min(options.context)
        }
        None => options.context,
    };
    let own = match &layer.mixer {
        MixerPlan::Attention(attention) if attention.keys_of.is_some() => 0,
        MixerPlan::Attention(attention) => {
            let keys = row(attention.kv_heads * attention.head_dim)?;
            let values = row(attention.kv_heads * attention.value_dim)?;
            positions(attention).saturating_mul(keys + values)
        }
        MixerPlan::Latent(attention, latent) => {
            positions(attention).saturating_mul(row(latent.kv_rank + latent.rotated)?)
        }
        MixerPlan::Linear(linear) => state(linear),
    };
    // The keys and values of what a decoder hears are those of the encoder's positions.
    let heard = match (&plan.encoder, &layer.mixer) {
        (Some(encoder), MixerPlan::Attention(attention)) => {
            let keys = row(attention.kv_heads * attention.head_dim)?;
            let values = row(attention.kv_heads * attention.value_dim)?;
            (encoder.positions as u64).saturating_mul(keys + values)
        }
        _ => 0,
    };
    Ok(own.saturating_add(heard))
}

/// The state of linear attention, which is F32: a matrix for each value head, and the inputs that
/// the convolution still sees.
fn state(plan: &LinearPlan) -> u64 {
    let inputs = 2 * plan.key_heads * plan.key_dim + plan.value_heads * plan.value_dim;
    let elements =
        plan.kernel.saturating_sub(1) * inputs + plan.value_heads * plan.key_dim * plan.value_dim;
    (elements as u64).saturating_mul(4)
}

/// The values of the widest step.
fn buffers(model: &Model, plan: &Plan, options: MemoryOptions) -> Result<u64> {
    let config = model.config()?;
    let batch = options.batch.min(options.context);
    let wide = |field: Option<u32>| u64::from(field.unwrap_or(0));
    let logits = if plan.encodes() { 0 } else { wide(config.vocab_size.as_ref().map(|f| f.value)) };
    let ffn = wide(config.ffn_dim.as_ref().map(|f| f.value));
    let experts = &config.experts;
    let expert = wide(experts.expert_ffn_dim.as_ref().map(|f| f.value))
        * wide(experts.n_experts_used.as_ref().map(|f| f.value));
    let mask = if plan.encodes() { batch } else { options.context };
    let dim = plan.dim as u64;
    let layer = 3 * dim + 2 * ffn.max(expert) + mask;
    Ok(batch.saturating_mul(4).saturating_mul(layer.max(logits.saturating_add(dim))))
}
