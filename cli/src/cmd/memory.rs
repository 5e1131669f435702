//! `memory`: what running a model takes, how it fits on devices, and how long a context fits.

use std::io::Write;
use std::path::Path;

use serde::Serialize;
use weighbridge::ops::{FileTypeSize, file_type_sizes};
use weighbridge::recipe::FileType;
use weighbridge::{DType, Error, ErrorKind, Model};
use weighbridge_reference::{
    Footprint, Kept, LayerMemory, Memory, MemoryOptions, Placement, Share,
};
use weighbridge_web::MemoryToRun;

use super::{Done, separated};
use crate::args::run::{Memory as Args, Room, SizedDevice};
use crate::args::values::{size, size_for_path};
use crate::json::{self, SCHEMA};
use crate::print::{self, Fields, Screen, Table, bytes, grouped, left, plural, right, shown};
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
    /// Null, as are `buffers` and `total`, if it is unknown.
    cache: Option<u64>,
    buffers: Option<u64>,
    total: Option<u64>,
    /// The reason why the cache is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<String>,
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
    cache: Option<u64>,
    /// The contents of the cache: keys and values, those of a window, a state.
    keeps: Option<String>,
}

#[derive(Serialize)]
struct RoomReport {
    bytes: u64,
    /// Whether the model fits with the context; null if its weights do and its cache is unknown.
    fits: Option<bool>,
    /// Layers that fit with the context, counted from the last.
    layers: Option<usize>,
    /// The longest context with which the model fits.
    max_context: Option<u64>,
    /// The largest of llama-quantize's types with which the model fits with the context, if it does
    /// not as it is. Types that need an importance matrix or training are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    quantize_to: Option<&'static str>,
}

/// The division of the model among devices.
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
    separated(&args.paths, args.json, |path| one(args, path))
}

/// The advice for a size in place of a path: `7B` are weights, `8G` is a room.
fn of_size(text: &str) -> String {
    let digits = text.trim_end_matches(['b', 'B']);
    let weights = if digits == text { None } else { size(&format!("{digits}GB")).ok() };
    let taken = |dtype: DType| {
        let blocks = weights?.next_multiple_of(32);
        Some(format!("{} in {}", bytes(dtype.tensor_bytes(&[blocks])?), dtype.name()))
    };
    let taken: Vec<String> =
        [DType::F16, DType::Q8_0, DType::Q4_0].into_iter().filter_map(taken).collect();
    match taken.is_empty() || !digits.ends_with(|c: char| c.is_ascii_digit()) {
        true => format!(
            "no file is named {text}: `memory MODEL --room {text}` says whether a model fits"
        ),
        false => format!(
            "no file is named {text}: so many weights take {}, without the cache; give a model for the rest",
            taken.join(", ")
        ),
    }
}

/// A note on a draft model of Ollama's store, which has a cache too.
fn draft_counted(model: &Model) -> Option<String> {
    let is_draft = |kind: &str| kind == "draft" || kind == "tensor";
    let layers: Vec<_> = model.attachments().iter().filter(|it| is_draft(&it.kind)).collect();
    let weights = bytes(layers.iter().map(|layer| layer.bytes).fold(0, u64::saturating_add));
    let how = match layers.as_slice() {
        [] => return None,
        [file] if file.kind == "draft" => {
            format!(": `weighbridge memory {}` computes that", shown(&file.path))
        }
        _ => String::new(),
    };
    Some(format!(
        "the weights of the draft model that Ollama runs ahead of this one are counted ({weights}), its cache is not{how}"
    ))
}

fn one(args: &Args, path: &Path) -> Done {
    if let Some(text) = size_for_path(path) {
        return Err(Stop::Usage(of_size(text)));
    }
    if path.ends_with("config.json") {
        let fault = "a config alone does not say which tensors the model has";
        let error = Error::new(ErrorKind::Unsupported, fault).in_file(path);
        let advice = "`weighbridge memory hf://ORG/NAME` reads the headers of a model on the hub, not its weights";
        return Err(error.advise(advice).into());
    }
    let model = args.open.options().open(path)?;
    remark(&model);
    draft_counted(&model).iter().for_each(|text| failure::note(text));
    let footprint = Footprint::of(&model)?;
    // The config of an unknown architecture may be unreadable.
    let config = model.config().ok();
    let trained = config.and_then(|config| config.max_seq_len.as_ref());
    let trained = trained.map(|field| u64::from(field.value));
    let context = args.context.or(trained).unwrap_or(USUAL_CONTEXT);
    let options = MemoryOptions { context, batch: args.batch, cache: args.kv };
    let memory = footprint.at(options)?;
    let measured = Measured { model: &model, footprint, options, memory, trained };
    let rooms = args.room.iter().map(|room| measured.fit(room.bytes));
    let rooms = rooms.collect::<Result<Vec<_>, Stop>>()?;
    let placed = match args.device.as_slice() {
        [] => None,
        devices => Some(measured.place(devices)?),
    };
    let fits = rooms.iter().all(|room| room.fits != Some(false));
    let status = if fits { Status::Fine } else { Status::Found };
    if !args.json {
        show(args, &measured, &rooms, placed.as_ref())?;
        return Ok(status);
    }
    let of_devices = || {
        let sizes: Vec<u64> = args.device.iter().map(|device| device.room.bytes).collect();
        measured.longest_on(&sizes)
    };
    let max_context = match (rooms.first(), &placed) {
        (Some(room), _) => room.max_context,
        (None, Some(_)) => of_devices()?,
        (None, None) => trained,
    };
    let Measured { memory, footprint, .. } = &measured;
    let layer = |(number, layer): (usize, &LayerMemory)| {
        let kept = footprint.kept().get(number);
        let cache = kept.map(|_| layer.cache);
        LayerReport { weights: layer.weights, cache, keeps: kept.map(Kept::describe) }
    };
    json::write(&Report {
        schema: SCHEMA,
        path: weighbridge::bytes::Text::from_path(model.path()).spelling().into_owned(),
        context,
        batch: args.batch,
        cache_type: args.kv.name().to_owned(),
        weights: memory.weights(),
        cache: memory.cache(),
        buffers: memory.cache().map(|_| memory.buffers),
        total: memory.total(),
        unknown: memory.unknown.clone(),
        layers: memory.layers.iter().enumerate().map(layer).collect(),
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
    Ok(status)
}

/// The context for a model that does not say for which it was trained.
const USUAL_CONTEXT: u64 = 4096;

/// The default of --batch.
const USUAL_BATCH: u64 = 512;

/// The memory that running a model takes with the options that `memory` has by default; `None` if it is
/// unknown.
pub(super) fn to_run(model: &Model) -> Option<MemoryToRun> {
    let config = model.config().ok();
    let trained = config.and_then(|config| config.max_seq_len.as_ref());
    let context = trained.map_or(USUAL_CONTEXT, |field| u64::from(field.value));
    let options = MemoryOptions { context, batch: USUAL_BATCH, cache: DType::F16 };
    let memory = Footprint::of(model).and_then(|footprint| footprint.at(options)).ok()?;
    memory.total().map(|bytes| MemoryToRun { bytes, context })
}

impl Measured<'_> {
    /// The longest context that is of use.
    fn most(&self) -> u64 {
        self.trained.unwrap_or(self.options.context).max(self.options.context)
    }

    /// The part of the model that fits into a room.
    fn fit(&self, room: u64) -> Result<RoomReport, Stop> {
        let Self { footprint, options, memory, .. } = self;
        let fits = match memory.total() {
            Some(total) => Some(total <= room),
            None => (memory.weights() > room).then_some(false),
        };
        let quantize_to =
            if fits == Some(false) { self.quantized(room, memory.buffers) } else { None };
        Ok(RoomReport {
            bytes: room,
            fits,
            layers: memory.total().map(|_| memory.layers_within(room)),
            max_context: footprint.longest_context(*options, room, self.most())?,
            quantize_to,
        })
    }

    /// The largest file type with which the model, its cache and these buffers fit, among those that
    /// need neither an importance matrix nor a model trained for them.
    fn quantized(&self, room: u64, buffers: u64) -> Option<&'static str> {
        let rest = self.memory.cache()?.saturating_add(buffers);
        let smaller = |sizes: Vec<FileTypeSize>| {
            let fitting = sizes.into_iter().filter(|size| {
                let FileTypeSize { file_type, needs_importance, .. } = *size;
                size.bytes.saturating_add(rest) <= room
                    && !needs_importance
                    && !file_type.needs_importance()
                    && !file_type.needs_training()
                    && file_type != FileType::COPY
            });
            fitting.max_by_key(|size| size.bytes).map(|size| size.file_type.descriptor().name)
        };
        // A model that no GGUF file could hold has no such sizes.
        file_type_sizes(self.model).ok().and_then(smaller)
    }

    /// Whether the model fits a room with the context, and what would fit instead, in words.
    fn answer(&self, given: &Room, room: &RoomReport) -> String {
        let (memory, context) = (&self.memory, grouped(self.options.context));
        // The unit that the user wrote, and that of the table.
        let in_both = |count: u64| match (given.amount(count), bytes(count)) {
            (own, usual) if own == usual => own,
            (own, usual) => format!("{own} ({usual})"),
        };
        match (memory.total(), room.fits, room.max_context) {
            (Some(_), Some(true), Some(most)) if most > self.options.context => {
                format!("yes, with {context} tokens; with up to {}", grouped(most))
            }
            (Some(_), Some(true), _) => match self.trained {
                Some(trained) if trained < self.options.context => {
                    format!("yes, with {context} tokens; it was trained on {}", grouped(trained))
                }
                _ => format!("yes, with {context} tokens"),
            },
            (Some(total), ..) => {
                let needed = format!("{context} tokens take {}", in_both(total));
                format!("no: {needed}{}", self.instead(room))
            }
            (None, Some(_), _) => {
                format!("no: the weights alone take {}", in_both(memory.weights()))
            }
            (None, None, _) => {
                "unknown: the weights fit, the size of the cache is unknown".to_owned()
            }
        }
    }

    /// The alternatives that would fit a room that is too small, each after a semicolon.
    fn instead(&self, room: &RoomReport) -> String {
        let tokens = room.max_context.map(|most| format!("with at most {} tokens", grouped(most)));
        let smaller = room.quantize_to.map(|name| format!("quantized to {name}"));
        let all: Vec<String> = tokens.into_iter().chain(smaller).collect();
        let layers = room.layers.map(|layers| match (layers, self.memory.layers.len()) {
            (0, 1) => "its layer does not fit".to_owned(),
            (0, _) => "no layer fits".to_owned(),
            (_, 1) => "its layer fits".to_owned(),
            (_, all) => format!("{layers} of {all} layers fit"),
        });
        // What fits as a whole says more than that nothing else does.
        let layers = layers.filter(|_| all.is_empty() || room.layers != Some(0));
        let whole = if layers.is_some() { "all fit" } else { "it fits" };
        let all = (!all.is_empty()).then(|| format!("{whole} {}", all.join(", or ")));
        layers.into_iter().chain(all).map(|it| format!("; {it}")).collect()
    }

    /// Divides the model among devices, and finds the file type with which it would fit whole.
    fn place(&self, devices: &[SizedDevice]) -> Result<(Placement, Option<&'static str>), Stop> {
        if let Some(reason) = &self.memory.unknown {
            let fault = "--device divides layers with their cache, which is unknown";
            let error = Error::new(ErrorKind::Unsupported, format!("{fault}: {reason}"));
            let advice = "use --room, which compares the weights alone";
            return Err(error.in_file(self.model.path()).advise(advice).into());
        }
        let sizes: Vec<u64> = devices.iter().map(|device| device.room.bytes).collect();
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
        ShareReport::new(&device.name, Some(device.room.bytes), share)
    };
    devices.iter().zip(&placed.devices).map(report)
}

fn show(
    args: &Args,
    measured: &Measured<'_>,
    rooms: &[RoomReport],
    placed: Option<&(Placement, Option<&'static str>)>,
) -> Result<(), Stop> {
    let Measured { memory, options, trained, .. } = measured;
    let mut out = print::stdout();
    for (given, room) in args.room.iter().zip(rooms) {
        out.paragraph(&format!("{given}: {}", measured.answer(given, room)), 2)?;
    }
    if !rooms.is_empty() {
        writeln!(out)?;
    }
    let mut fields = Fields::default();
    fields.add("weights", bytes(memory.weights()));
    let MemoryOptions { context, batch, cache } = options;
    match (memory.cache(), &memory.unknown) {
        (Some(kept), _) => {
            let of =
                format!("for {} tokens, keys and values in {}", grouped(*context), cache.name());
            fields.add("cache", format!("{} {of}", bytes(kept)));
            let of = format!("estimated for {batch} tokens at a time");
            fields.add("buffers", format!("{}, {of}", bytes(memory.buffers)));
        }
        (None, reason) => {
            let cache = match measured.model.is_projector() {
                true => "none: the vectors of a projector are in the cache of its language model"
                    .to_owned(),
                false => format!("unknown: {}", reason.as_deref().unwrap_or_default()),
            };
            fields.add("cache", cache);
            fields.add("buffers", "unknown".to_owned());
        }
    }
    match memory.total() {
        Some(total) => fields.add("total", bytes(total)),
        None => fields.add("total", format!("more than {}", bytes(memory.weights()))),
    }
    if let Some(trained) = trained {
        fields.add("trained context", format!("{} tokens", grouped(*trained)));
    }
    fields.write(&shown(measured.model.path()), &mut out)?;
    if let Some((placed, quantize_to)) = placed {
        writeln!(out)?;
        write_placement(args, measured, placed, *quantize_to, &mut out)?;
    }
    if args.layers {
        writeln!(out)?;
        write_layers(measured, &mut out)?;
    }
    Ok(out.flush()?)
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
    let sizes = args.device.iter().map(|device| device.room.to_string());
    let sizes = sizes.chain(["-".to_owned()]);
    for (share, size) in shares(&args.device, placed).chain([host]).zip(sizes) {
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
            size,
        ]);
    }
    table.write(out)?;
    let all = measured.memory.layers.len();
    let held = all - placed.host.layers;
    let mut said = match placed.is_whole() {
        true => format!("all {} are on the devices", plural(all, "layer")),
        false => {
            let are = if all == 1 { "is" } else { "are" };
            format!("{held} of {} {are} on the devices", plural(all, "layer"))
        }
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
    for (number, layer) in memory.layers.iter().enumerate() {
        let unknown = || "unknown".to_owned();
        let kept = footprint.kept().get(number);
        let cache = kept.map_or_else(unknown, |_| bytes(layer.cache));
        let keeps = kept.map_or_else(unknown, Kept::describe);
        table.row([number.to_string(), bytes(layer.weights), cache, keeps]);
    }
    table.write(out)?;
    Ok(())
}
