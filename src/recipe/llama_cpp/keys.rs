//! Changes of metadata that quantizing makes.

use super::options::LlamaOptions;
use super::setting::{MetadataSetting, SettingValue};
use super::source::{Hparams, SourceTensor, by_layer};
use crate::dtype::DType;
use crate::recipe::FileType;

/// Keys that describe how a model is split into files.
pub(super) static SPLIT: &[&str] = &["split.no", "split.count", "split.tensors.count"];

/// Marks a file type that was derived from the tensors (`LLAMA_FTYPE_GUESSED`).
const GUESSED: u32 = 1024;

/// The keys of a quantized model, in llama-quantize's order.
pub(super) fn settings(
    model: &Hparams,
    tensors: &[SourceTensor<'_>],
    options: &LlamaOptions,
    layers: Option<u64>,
) -> Vec<MetadataSetting> {
    let mut all = vec![MetadataSetting::new("general.quantization_version", SettingValue::U32(2))];
    let number = options.file_type.descriptor().number;
    let number = number.or(model.file_type).unwrap_or_else(|| guess(tensors));
    all.push(MetadataSetting::new("general.file_type", SettingValue::U32(number)));
    all.extend(options.overrides.iter().cloned());
    if let Some(layers) = layers {
        let layers = SettingValue::U32(u32::try_from(layers).unwrap_or(u32::MAX));
        all.push(MetadataSetting::new(format!("{}.block_count", model.architecture), layers));
    }
    // Of two settings with the same key, the later one applies.
    let mut settings: Vec<MetadataSetting> = Vec::new();
    for setting in all {
        settings.retain(|earlier| earlier.key != setting.key);
        settings.push(setting);
    }
    settings
}

/// The file type of a model that does not state it: that of its most frequent dtype, counted as in
/// src/llama-model-loader.cpp. Of two equally frequent dtypes, the one that reached the count first
/// applies.
fn guess(tensors: &[SourceTensor<'_>]) -> u32 {
    let mut order: Vec<&SourceTensor<'_>> = tensors.iter().collect();
    order.sort_by(|a, b| by_layer(a.name, b.name));
    let mut counts: Vec<(DType, usize)> = Vec::new();
    let mut most = (DType::F32, 0);
    for tensor in order {
        if !counts.iter().any(|(dtype, _)| *dtype == tensor.dtype) {
            counts.push((tensor.dtype, 0));
        }
        let count = counts.iter_mut().find(|(dtype, _)| *dtype == tensor.dtype);
        let Some((_, count)) = count else { continue };
        *count = count.saturating_add(1);
        if *count > most.1 {
            most = (tensor.dtype, *count);
        }
    }
    // Q4_K is an alias of Q4_K_M; NVFP4 is the only file type that is read and never written.
    let number = match most.0 {
        DType::NVFP4 => Some(39),
        dtype => FileType::from_name(dtype.name()).and_then(|found| found.descriptor().number),
    };
    number.unwrap_or(0) | GUESSED
}
