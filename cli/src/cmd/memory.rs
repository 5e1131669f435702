//! `memory`: what running a model takes, and how long a context fits.

use std::io::Write;

use serde::Serialize;
use weighbridge::Model;
use weighbridge::ops::{FileTypeSize, file_type_sizes};
use weighbridge_reference::{Memory, MemoryOptions, Plan, longest_context};

use super::Done;
use crate::args::run::Memory as Args;
use crate::json::{self, SCHEMA};
use crate::print::{self, Fields, bytes, shown};
use crate::{Status, Stop, failure, remark};

#[derive(Serialize)]
struct Report {
    schema: u32,
    path: String,
    context: u64,
    batch: u64,
    cache_type: String,
    /// Bytes, as are all that follow.
    weights: u64,
    cache: u64,
    buffers: u64,
    total: u64,
    layers: Vec<LayerReport>,
    /// Tensors of no layer.
    shared: u64,
    /// The context that the model was trained for.
    trained_context: Option<u64>,
    /// The longest context with which the model fits the room; without a room, the trained one.
    max_context: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rooms: Vec<RoomReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

#[derive(Serialize)]
struct LayerReport {
    weights: u64,
    cache: u64,
}

#[derive(Serialize)]
struct RoomReport {
    bytes: u64,
    fits: bool,
    /// Layers that fit, counted from the last.
    layers: usize,
    max_context: Option<u64>,
    /// The largest of llama-quantize's types with which the model fits, if it does not as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    quantize_to: Option<&'static str>,
}

pub(crate) fn run(args: &Args) -> Done {
    let model = args.open.options().open(&args.path)?;
    remark(&model);
    let plan = Plan::of(&model)?;
    let trained = model.config()?.max_seq_len.as_ref().map(|field| u64::from(field.value));
    let context = args.context.or(trained).unwrap_or(USUAL_CONTEXT);
    let options = MemoryOptions { context, batch: args.batch, cache: args.kv };
    let memory = Memory::of(&model, &plan, options)?;
    let most = trained.unwrap_or(context).max(context);
    let rooms = args.room.iter().map(|&room| fit(&model, &plan, options, &memory, room, most));
    let rooms = rooms.collect::<Result<Vec<_>, Stop>>()?;
    if !args.json {
        return show(args, options, &memory, trained, &rooms);
    }
    let max_context = match rooms.first() {
        Some(room) => room.max_context,
        None => trained,
    };
    let layer = |layer: &weighbridge_reference::LayerMemory| LayerReport {
        weights: layer.weights,
        cache: layer.cache,
    };
    json::write(&Report {
        schema: SCHEMA,
        path: weighbridge::bytes::Text::from_path(model.path()).spelling().into_owned(),
        context,
        batch: args.batch,
        cache_type: args.kv.name().to_owned(),
        weights: memory.weights(),
        cache: memory.cache(),
        buffers: memory.buffers,
        total: memory.total(),
        layers: memory.layers.iter().map(layer).collect(),
        shared: memory.shared,
        trained_context: trained,
        max_context,
        rooms,
        notes: failure::take_notes(),
    })?;
    Ok(Status::Fine)
}

/// The context for a model that does not say for which it was trained.
const USUAL_CONTEXT: u64 = 4096;

/// What fits into a room.
fn fit(
    model: &Model,
    plan: &Plan,
    options: MemoryOptions,
    memory: &Memory,
    room: u64,
    most: u64,
) -> Result<RoomReport, Stop> {
    let fits = memory.total() <= room;
    let rest = memory.cache().saturating_add(memory.buffers);
    let smaller = |sizes: Vec<FileTypeSize>| {
        let fitting = sizes.into_iter().filter(|size| size.bytes.saturating_add(rest) <= room);
        fitting.max_by_key(|size| size.bytes).map(|size| size.file_type.descriptor().name)
    };
    Ok(RoomReport {
        bytes: room,
        fits,
        layers: memory.layers_within(room),
        max_context: longest_context(model, plan, options, room, most)?,
        // A model that no GGUF file could hold has no such sizes.
        quantize_to: if fits { None } else { file_type_sizes(model).ok().and_then(smaller) },
    })
}

fn show(
    args: &Args,
    options: MemoryOptions,
    memory: &Memory,
    trained: Option<u64>,
    rooms: &[RoomReport],
) -> Done {
    let mut out = print::stdout();
    let mut fields = Fields::default();
    fields.add("weights", bytes(memory.weights()));
    let MemoryOptions { context, batch, cache } = options;
    let kept = bytes(memory.cache());
    fields
        .add("cache", format!("{kept} for {context} tokens, keys and values in {}", cache.name()));
    fields.add(
        "buffers",
        format!("{}, estimated for {batch} tokens at a time", bytes(memory.buffers)),
    );
    fields.add("total", bytes(memory.total()));
    if let Some(trained) = trained {
        fields.add("trained context", format!("{trained} tokens"));
    }
    fields.write(&shown(&args.path), &mut out)?;
    for room in rooms {
        let all = memory.layers.len();
        let mut said = match (room.fits, room.max_context) {
            (true, Some(most)) => format!("fits, with up to {most} tokens"),
            (true, None) => "fits".to_owned(),
            (false, Some(most)) => format!("fits with at most {most} tokens"),
            (false, None) => format!("does not fit: {} of {all} layers do", room.layers),
        };
        if let Some(name) = room.quantize_to {
            said.push_str(&format!("; quantized to {name}, it would"));
        }
        let mut fields = Fields::default();
        fields.add("of this model", said);
        writeln!(out)?;
        fields.write(&bytes(room.bytes), &mut out)?;
    }
    Ok(out.flush().map(|()| Status::Fine)?)
}
