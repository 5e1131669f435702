//! `memory`: what running a model takes, how it fits on devices, and how long a context fits.

use std::io::Write;

use serde::Serialize;
use weighbridge::Model;
use weighbridge::ops::{FileTypeSize, file_type_sizes};
use weighbridge_reference::{Footprint, Kept, Memory, MemoryOptions, Placement, Share};

use super::Done;
use crate::args::run::{Memory as Args, SizedDevice};
use crate::json::{self, SCHEMA};
use crate::print::{self, Fields, Screen, Table, bytes, left, plural, right, shown};
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
    /// The longest context with which the model fits the room, or all devices together; without
    /// either, the trained one.
    max_context: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rooms: Vec<RoomReport>,
    #[serde(flatten)]
    placed: Option<PlacementReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

#[derive(Serialize)]
struct LayerReport {
    weights: u64,
    cache: u64,
    /// What the cache has: keys and values, those of a window, a state.
    keeps: String,
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

/// How the model is divided among devices.
#[derive(Serialize)]
struct PlacementReport {
    devices: Vec<ShareReport>,
    host: ShareReport,
    /// The largest of llama-quantize's types with which all layers would lie on the devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    quantize_to: Option<&'static str>,
}

#[derive(Serialize)]
struct ShareReport {
    name: String,
    /// The size of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    layers: usize,
    /// The first of its layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_layer: Option<usize>,
    weights: u64,
    cache: u64,
    buffers: u64,
    total: u64,
}

impl ShareReport {
    fn new(name: &str, bytes: Option<u64>, share: &Share) -> Self {
        let first_layer = (share.layers > 0).then_some(share.first);
        let Share { layers, weights, cache, buffers, .. } = *share;
        let (name, total) = (name.to_owned(), share.total());
        Self { name, bytes, layers, first_layer, weights, cache, buffers, total }
    }
}

/// A model, and for what it is run.
struct Measured<'m> {
    model: &'m Model,
    footprint: Footprint,
    options: MemoryOptions,
    memory: Memory,
    trained: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Done {
    let model = args.open.options().open(&args.path)?;
    remark(&model);
    let footprint = Footprint::of(&model)?;
    let trained = model.config()?.max_seq_len.as_ref().map(|field| u64::from(field.value));
    let context = args.context.or(trained).unwrap_or(USUAL_CONTEXT);
    let options = MemoryOptions { context, batch: args.batch, cache: args.kv };
    let memory = footprint.at(options)?;
    let measured = Measured { model: &model, footprint, options, memory, trained };
    let rooms = args.room.iter().map(|&room| measured.fit(room));
    let rooms = rooms.collect::<Result<Vec<_>, Stop>>()?;
    let placed = match args.device.as_slice() {
        [] => None,
        devices => Some(measured.place(devices)?),
    };
    if !args.json {
        return show(args, &measured, &rooms, placed.as_ref());
    }
    let of_devices = || {
        let sizes: Vec<u64> = args.device.iter().map(|device| device.bytes).collect();
        measured.longest_on(&sizes)
    };
    let max_context = match (rooms.first(), &placed) {
        (Some(room), _) => room.max_context,
        (None, Some(_)) => of_devices()?,
        (None, None) => trained,
    };
    let Measured { memory, footprint, .. } = &measured;
    let layer = |(layer, kept): (&weighbridge_reference::LayerMemory, &Kept)| LayerReport {
        weights: layer.weights,
        cache: layer.cache,
        keeps: kept.describe(),
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
        layers: memory.layers.iter().zip(footprint.kept()).map(layer).collect(),
        shared: memory.shared(),
        trained_context: trained,
        max_context,
        rooms,
        placed: placed.map(|(placed, quantize_to)| PlacementReport {
            devices: shares(&args.device, &placed).collect(),
            host: ShareReport::new("host", None, &placed.host),
            quantize_to,
        }),
        notes: failure::take_notes(),
    })?;
    Ok(Status::Fine)
}

/// The context for a model that does not say for which it was trained.
const USUAL_CONTEXT: u64 = 4096;

impl Measured<'_> {
    /// The longest context that is of use.
    fn most(&self) -> u64 {
        self.trained.unwrap_or(self.options.context).max(self.options.context)
    }

    /// What fits into a room.
    fn fit(&self, room: u64) -> Result<RoomReport, Stop> {
        let Self { footprint, options, memory, .. } = self;
        let fits = memory.total() <= room;
        Ok(RoomReport {
            bytes: room,
            fits,
            layers: memory.layers_within(room),
            max_context: footprint.longest_context(*options, room, self.most())?,
            quantize_to: if fits { None } else { self.quantized(room, memory.buffers) },
        })
    }

    /// The largest file type with which the model, its cache and these buffers fit.
    fn quantized(&self, room: u64, buffers: u64) -> Option<&'static str> {
        let rest = self.memory.cache().saturating_add(buffers);
        let smaller = |sizes: Vec<FileTypeSize>| {
            let fitting = sizes.into_iter().filter(|size| size.bytes.saturating_add(rest) <= room);
            fitting.max_by_key(|size| size.bytes).map(|size| size.file_type.descriptor().name)
        };
        // A model that no GGUF file could hold has no such sizes.
        file_type_sizes(self.model).ok().and_then(smaller)
    }

    /// How the model is divided among devices, and the file type with which it would fit whole.
    fn place(&self, devices: &[SizedDevice]) -> Result<(Placement, Option<&'static str>), Stop> {
        let sizes: Vec<u64> = devices.iter().map(|device| device.bytes).collect();
        let placed = self.memory.place(&sizes);
        let room = sizes.iter().copied().fold(0, u64::saturating_add);
        let buffers = self.memory.buffers.saturating_mul(sizes.len() as u64);
        let quantize_to = if placed.is_whole() { None } else { self.quantized(room, buffers) };
        Ok((placed, quantize_to))
    }

    /// The longest context with which all layers lie on the devices.
    fn longest_on(&self, sizes: &[u64]) -> Result<Option<u64>, Stop> {
        let fits = |context| -> Result<bool, Stop> {
            let memory = self.footprint.at(MemoryOptions { context, ..self.options })?;
            Ok(memory.place(sizes).is_whole())
        };
        let (mut fitting, mut beyond) = (0, self.most().saturating_add(1));
        while beyond - fitting > 1 {
            let middle = u64::midpoint(fitting, beyond);
            if fits(middle)? { fitting = middle } else { beyond = middle }
        }
        Ok((fitting > 0).then_some(fitting))
    }
}

fn shares<'p>(
    devices: &'p [SizedDevice],
    placed: &'p Placement,
) -> impl Iterator<Item = ShareReport> + 'p {
    let report = |(device, share): (&SizedDevice, &Share)| {
        ShareReport::new(&device.name, Some(device.bytes), share)
    };
    devices.iter().zip(&placed.devices).map(report)
}

fn show(
    args: &Args,
    measured: &Measured<'_>,
    rooms: &[RoomReport],
    placed: Option<&(Placement, Option<&'static str>)>,
) -> Done {
    let Measured { memory, options, trained, .. } = measured;
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
    if let Some((placed, quantize_to)) = placed {
        writeln!(out)?;
        write_placement(args, measured, placed, *quantize_to, &mut out)?;
    }
    if args.layers {
        writeln!(out)?;
        write_layers(measured, &mut out)?;
    }
    Ok(out.flush().map(|()| Status::Fine)?)
}

fn write_placement(
    args: &Args,
    measured: &Measured<'_>,
    placed: &Placement,
    quantize_to: Option<&str>,
    out: &mut Screen<impl Write>,
) -> Result<(), Stop> {
    let mut table = Table::new(&[
        left("DEVICE").end(16),
        left("LAYERS"),
        right("WEIGHTS").optional(1),
        right("CACHE").optional(2),
        right("BUFFERS").optional(3),
        right("TOTAL"),
        right("SIZE"),
    ]);
    let host = ShareReport::new("host", None, &placed.host);
    for share in shares(&args.device, placed).chain([host]) {
        let layers = match (share.first_layer, share.layers) {
            (Some(first), count) => format!("{first} to {}", first + count - 1),
            (None, _) => "none".to_owned(),
        };
        table.row([
            share.name,
            layers,
            bytes(share.weights),
            bytes(share.cache),
            bytes(share.buffers),
            bytes(share.total),
            share.bytes.map_or("-".to_owned(), bytes),
        ]);
    }
    table.write(out)?;
    let all = measured.memory.layers.len();
    let held = all - placed.host.layers;
    let mut said = match placed.is_whole() {
        true => format!("all {} are on the devices", plural(all, "layer")),
        false => format!("{held} of {all} layers are on the devices"),
    };
    if let Some(name) = quantize_to {
        said.push_str(&format!("; quantized to {name}, all would be"));
    }
    writeln!(out)?;
    out.paragraph(&said, 0)?;
    Ok(())
}

fn write_layers(measured: &Measured<'_>, out: &mut Screen<impl Write>) -> Result<(), Stop> {
    let mut table =
        Table::new(&[right("LAYER"), right("WEIGHTS"), right("CACHE"), left("KEEPS").end(12)]);
    let Measured { memory, footprint, .. } = measured;
    for (number, (layer, kept)) in memory.layers.iter().zip(footprint.kept()).enumerate() {
        let cells = [number.to_string(), bytes(layer.weights), bytes(layer.cache), kept.describe()];
        table.row(cells);
    }
    table.write(out)?;
    Ok(())
}
