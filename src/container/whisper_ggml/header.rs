//! Parses what precedes the tensors: hyperparameters, filters, a vocabulary.

use std::ops::Range;

use super::super::OpenOptions;
use super::super::foreign::OLD_GGML;
use crate::bytes::{Cursor, Source};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::index::hash;
use crate::limits::Limits;
use crate::metadata::{Item, ItemKind, ValueType};
use crate::store::{ArrayListing, check_count};

/// The header of one program's files. The magic is the same for all; the first numbers differ.
#[derive(Debug)]
pub(super) struct HeaderFormat {
    /// The value of `general.architecture`, and the prefix of the other keys.
    pub(super) architecture: &'static str,
    detect: fn(&[u8]) -> bool,
    fields: &'static [HeaderField],
    /// The number of tensors without those of layers.
    tensors: u64,
    /// The hyperparameters that count layers, and the number of tensors of each such layer.
    layers: &'static [(&'static str, u64)],
}

impl HeaderFormat {
    /// The number of tensors that whisper.cpp allocates and requires.
    pub(super) fn tensors(&self, counts: &Hyperparameters) -> u64 {
        let each = self.layers.iter().map(|(name, each)| u64::from(counts.of(name)) * each);
        each.fold(self.tensors, u64::saturating_add)
    }
}

/// A field of a header. Names are those of whisper.cpp's own fields.
#[derive(Clone, Copy, Debug)]
enum HeaderField {
    /// An i32 that is not negative.
    Number(&'static str),
    /// ggml's file type, plus a thousand for each quantization version.
    FileType,
    /// A length, then text.
    Words(&'static str),
    /// This number of dimensions, outermost first, then the F32 elements.
    Array(&'static str, usize),
    /// u32 values, as many as the second name's number says.
    Numbers(&'static str, &'static str),
    /// A count, then that number of strings.
    Vocabulary,
    /// A count, then three numbers for each.
    EncoderLayers,
}

use HeaderField::{Array, EncoderLayers, FileType, Number, Numbers, Vocabulary, Words};

/// The forms in the order of detection, as read by `whisper_model_load`, `parakeet_model_load` and
/// `whisper_vad_init_with_params` of whisper.cpp at 233fe1fc (August 2026).
#[rustfmt::skip]
static HEADER_FORMATS: &[HeaderFormat] = &[
    HeaderFormat {
        architecture: "silero-vad",
        // Numbers are small, so their bytes include zeros; the name of a model type has none.
        detect: |head| head.get(8..14) == Some(b"silero"),
        fields: &[
            Words("model_type"),
            Number("version.major"), Number("version.minor"), Number("version.patch"),
            Number("n_window"), Number("n_context"), EncoderLayers,
            Number("lstm_input_size"), Number("lstm_hidden_size"),
            Number("final_conv_in"), Number("final_conv_out"),
        ],
        tensors: 7,
        layers: &[("n_encoder_layers", 2)],
    },
    HeaderFormat {
        architecture: "parakeet",
        detect: |head| filters_follow(head, 5, 15),
        fields: &[
            Number("n_vocab"), Number("n_audio_ctx"), Number("n_audio_state"),
            Number("n_audio_head"), Number("n_audio_layer"), Number("n_mels"), FileType,
            Number("n_fft"), Number("subsampling_factor"), Number("n_subsampling_channels"),
            Number("n_conv_kernel"), Number("n_pred_dim"), Number("n_pred_layers"),
            Number("n_tdt_durations"), Number("n_max_tokens"),
            Array("mel_filters", 2), Array("window", 1),
            Numbers("tdt_durations", "n_tdt_durations"), Vocabulary,
        ],
        tensors: 19,
        layers: &[("n_audio_layer", 29), ("n_pred_layers", 3)],
    },
    HeaderFormat {
        architecture: "whisper",
        detect: |head| filters_follow(head, 9, 11),
        fields: &[
            Number("n_vocab"), Number("n_audio_ctx"), Number("n_audio_state"),
            Number("n_audio_head"), Number("n_audio_layer"), Number("n_text_ctx"),
            Number("n_text_state"), Number("n_text_head"), Number("n_text_layer"),
            Number("n_mels"), FileType,
            Array("mel_filters", 2), Vocabulary,
        ],
        tensors: 11,
        layers: &[("n_audio_layer", 15), ("n_text_layer", 24)],
    },
];

/// The number at position `place` after the magic.
fn number(head: &[u8], place: usize) -> Option<u32> {
    head.get(4 + 4 * place..)?.first_chunk().copied().map(u32::from_le_bytes)
}

/// Whether the number of mel bands is at one position, and the same number of filter rows at the
/// other.
fn filters_follow(head: &[u8], bands: usize, rows: usize) -> bool {
    number(head, bands).is_some_and(|bands| bands > 0 && number(head, rows) == Some(bands))
}

/// The bytes that suffice to detect every form.
const TELLING: usize = 4 + 4 * 16;

/// The header buffer of the store: the file's header, followed by tensor names, metadata keys and
/// derived values.
#[derive(Debug)]
pub(super) struct HeaderText {
    pub(super) bytes: Vec<u8>,
    limit: u64,
}

impl HeaderText {
    /// Appends text and returns its range.
    pub(super) fn add(&mut self, text: &[u8]) -> Result<Range<u32>> {
        let place = |len: usize| u32::try_from(len).ok().filter(|&at| u64::from(at) <= self.limit);
        let (start, end) = (self.bytes.len(), self.bytes.len().saturating_add(text.len()));
        let (Some(start), Some(end)) = (place(start), place(end)) else {
            return Err(Error::limit("header bytes", end as u64, self.limit, "header_bytes"));
        };
        self.bytes.extend_from_slice(text);
        Ok(start..end)
    }

    pub(super) fn get(&self, range: &Range<u32>) -> &[u8] {
        self.bytes.get(range.start as usize..range.end as usize).unwrap_or_default()
    }
}

/// The hyperparameters of a header.
#[derive(Debug, Default)]
pub(super) struct Hyperparameters(Vec<(&'static str, u32)>);

impl Hyperparameters {
    fn of(&self, name: &str) -> u32 {
        self.0.iter().find(|(other, _)| *other == name).map_or(0, |(_, count)| *count)
    }
}

/// Everything parsed before the tensors.
pub(super) struct WhisperHeader {
    pub(super) form: &'static HeaderFormat,
    pub(super) text: HeaderText,
    pub(super) items: Vec<Item>,
    /// The arrays in the header.
    pub(super) listing: ArrayListing,
    pub(super) counts: Hyperparameters,
    /// The offset of the first tensor.
    pub(super) end: u64,
}

/// A metadata value.
enum MetadataValue {
    /// Stored in the file as it is.
    There(Range<u32>, ItemKind),
    /// Derived from other content of the file.
    Made(Vec<u8>, ItemKind),
}

struct WhisperParser<'a> {
    cursor: Cursor<'a>,
    limits: &'a Limits,
    found: Vec<(String, MetadataValue)>,
    /// Name, shape and offset.
    arrays: Vec<(&'static str, Vec<u64>, u64)>,
    counts: Hyperparameters,
}

/// Parses the header of a file that starts with the magic.
pub(super) fn parse(source: &Source, options: &OpenOptions) -> Result<WhisperHeader> {
    let limits = &options.limits;
    let mut cursor = Cursor::new(source, limits.header_bytes);
    cursor.take(4, "the magic")?;
    let form = form(cursor.held(), source.len())?;
    let (found, arrays, counts) = (Vec::new(), Vec::new(), Hyperparameters::default());
    let mut parser = WhisperParser { cursor, limits, found, arrays, counts };
    let name = form.architecture;
    parser.derived("general.architecture", name.as_bytes().to_vec(), ItemKind::Text);
    for field in form.fields {
        parser.field(name, *field)?;
    }
    parser.finish(form)
}

fn form(head: &[u8], len: u64) -> Result<&'static HeaderFormat> {
    if let Some(form) = HEADER_FORMATS.iter().find(|form| (form.detect)(head)) {
        return Ok(form);
    }
    if head.len() < TELLING {
        let fault = format!("a whisper.cpp file of {len} bytes that ends within its header");
        return Err(Error::malformed(fault).advise("the file is cut short: fetch it again"));
    }
    let (bands, rows) = (number(head, 9).unwrap_or(0), number(head, 11).unwrap_or(0));
    Err(Error::unsupported(format!(
        "a file in the ggml format from before GGUF (magic \"ggml\"), but not one of whisper.cpp's: \
         in those the number of mel bands, here {bands}, is that of the filters' rows, here {rows}"
    ))
    .at(40)
    .advise(OLD_GGML))
}

/// What the version of the quantized types is multiplied by in a file's type (`GGML_QNT_VERSION_FACTOR` of ggml).
const VERSION: u32 = 1000;

/// Checks that quantized blocks have today's layout: ggml changed all of them in version 1, and those of 4 and 8 bits again
/// in version 2, both in May 2023.
fn check_version(file_type: u32) -> Result<()> {
    const PLAIN: u32 = 2;
    const OF_5_BITS: [u32; 2] = [8, 9];
    let (kind, version) = (file_type % VERSION, file_type / VERSION);
    let needed = if OF_5_BITS.contains(&kind) { 1 } else { 2 };
    if kind < PLAIN || version >= needed {
        return Ok(());
    }
    let fault = format!(
        "ftype {file_type}: quantized blocks of version {version}, but ggml has read only version {needed} or later since \
         May 2023"
    );
    let advice = "fetch a newer file of the model, or quantize its F16 file again";
    Err(Error::unsupported(fault).advise(advice))
}

fn check_keys(count: u64, limits: &Limits) -> Result<()> {
    let allowed = limits.metadata_items;
    if count > allowed {
        return Err(Error::limit("metadata keys", count, allowed, "metadata_items"));
    }
    Ok(())
}

impl WhisperParser<'_> {
    fn there(&mut self, key: String, place: Range<u32>, kind: ItemKind) {
        self.found.push((key, MetadataValue::There(place, kind)));
    }

    fn derived(&mut self, key: &str, value: Vec<u8>, kind: ItemKind) {
        self.found.push((key.to_owned(), MetadataValue::Made(value, kind)));
    }

    /// Reads an i32 that is not negative, and returns it with its location.
    fn number(&mut self, what: &str) -> Result<(u32, Range<u32>)> {
        let at = self.cursor.position();
        let number = self.cursor.u32(what)?;
        let place = u32::try_from(at).unwrap_or(u32::MAX);
        if number > i32::MAX.cast_unsigned() {
            let number = number.cast_signed();
            return Err(Error::malformed(format!("{what} is {number}")).at(at));
        }
        Ok((number, place..place.saturating_add(4)))
    }

    /// Reads a count of items, each of which takes at least `smallest` of the remaining bytes.
    fn count(&mut self, what: &str, smallest: u64) -> Result<(u32, Range<u32>)> {
        let (count, place) = self.number(what)?;
        let room = self.cursor.remaining() / smallest;
        if u64::from(count) > room {
            let fault = format!("{what} is {count}, but the file has room for {room} at most");
            let error = Error::malformed(fault).at(place.start.into());
            return Err(error.advise("the file is cut short or damaged"));
        }
        Ok((count, place))
    }

    fn field(&mut self, prefix: &str, field: HeaderField) -> Result<()> {
        match field {
            Number(name) => {
                let (number, place) = self.number(name)?;
                self.counts.0.push((name, number));
                self.there(format!("{prefix}.{name}"), place, ItemKind::Gguf(ValueType::I32));
            }
            FileType => {
                let (number, place) = self.number("ftype")?;
                check_version(number).map_err(|error| error.at(place.start.into()))?;
                let made = |number: u32| number.to_le_bytes().to_vec();
                let kind = ItemKind::Gguf(ValueType::U32);
                self.derived(&format!("{prefix}.ftype"), made(number % VERSION), kind);
                if number >= VERSION {
                    self.derived("general.quantization_version", made(number / VERSION), kind);
                }
            }
            Words(name) => {
                let at = self.cursor.position();
                let (len, _) = self.number("a string's length")?;
                self.cursor.check_string(len.into(), self.limits.string_bytes, at)?;
                let place = self.cursor.take(len.into(), name)?;
                self.there(format!("{prefix}.{name}"), place, ItemKind::Text);
            }
            Array(name, rank) => {
                let mut shape = Vec::new();
                for _ in 0..rank {
                    shape.push(self.number("a dimension")?.0.into());
                }
                let bytes = DType::F32.tensor_bytes(&shape).unwrap_or(u64::MAX);
                let place = self.cursor.take(bytes, name)?;
                self.arrays.push((name, shape, place.start.into()));
            }
            Numbers(name, count) => {
                let count = self.counts.of(count);
                let place = self.cursor.take(u64::from(count) * 4, name)?;
                self.elements(format!("{prefix}.{name}"), place, ValueType::U32, count)?;
            }
            Vocabulary => {
                let (count, place) = self.count("the number of pieces in the vocabulary", 4)?;
                self.cursor.skip_strings(count.into(), false, self.limits.string_bytes)?;
                let end = u32::try_from(self.cursor.position()).unwrap_or(u32::MAX);
                let key = format!("{prefix}.vocab");
                self.elements(key, place.end..end, ValueType::String, count)?;
            }
            EncoderLayers => {
                let name = "n_encoder_layers";
                let (count, place) = self.count(name, 12)?;
                let keys = u64::from(count).saturating_mul(3);
                check_keys(keys.saturating_add(self.found.len() as u64), self.limits)
                    .map_err(|error| error.at(place.start.into()))?;
                self.counts.0.push((name, count));
                let kind = ItemKind::Gguf(ValueType::I32);
                self.there(format!("{prefix}.{name}"), place, kind);
                for layer in 0..count {
                    for name in ["in_channels", "out_channels", "kernel_size"] {
                        let (_, place) = self.number(name)?;
                        self.there(format!("{prefix}.encoder.{layer}.{name}"), place, kind);
                    }
                }
            }
        }
        Ok(())
    }

    /// Records an array of `count` elements at `place`.
    fn elements(
        &mut self,
        key: String,
        place: Range<u32>,
        element_type: ValueType,
        count: u32,
    ) -> Result<()> {
        let (found, allowed) = (u64::from(count), self.limits.array_elements);
        if found > allowed {
            let error = Error::limit("array elements", found, allowed, "array_elements");
            return Err(error.at(place.start.into()).in_key(key));
        }
        self.there(key, place, ItemKind::Elements(element_type, count));
        Ok(())
    }

    /// Appends keys, names and derived values to the header, and completes it.
    fn finish(self, form: &'static HeaderFormat) -> Result<WhisperHeader> {
        let Self { cursor, limits, found, arrays, counts } = self;
        check_keys(found.len() as u64, limits)?;
        let end = cursor.position();
        let limit = limits.header_bytes.min(u32::MAX.into());
        let mut text = HeaderText { bytes: cursor.into_header(), limit };
        let mut items = Vec::new();
        for (key, found) in found {
            let key = text.add(key.as_bytes())?;
            let (value, kind) = match found {
                MetadataValue::There(place, kind) => (place, kind),
                MetadataValue::Made(value, kind) => (text.add(&value)?, kind),
            };
            let (key, value) = ((key.start, key.end), (value.start, value.end));
            items.push(Item { key, value, kind });
        }
        let mut listing = ArrayListing::default();
        check_count(arrays.len() as u64, limits)?;
        for (name, shape, at) in arrays {
            let place = text.add(name.as_bytes())?;
            let rank = u8::try_from(shape.len()).unwrap_or(u8::MAX);
            shape.into_iter().for_each(|dim| listing.push_dim(dim));
            listing.push(place, hash(name.as_bytes()), Ok(DType::F32), rank, at)?;
        }
        Ok(WhisperHeader { form, text, items, listing, counts, end })
    }
}
