//! The tensors that a config promises: facts that are read before the config as a whole, to report missing tensors.

use super::check;
use super::class_name;
use super::keys::key;
use super::read::ConfigReader;
use super::values::LayerKind;
use crate::arch::Architecture;
use crate::engines::transformers;
use crate::store::Encoding;

/// The layers that a config states, used to report missing tensors. The numbers are unchecked: never
/// use them as loop bounds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PromisedLayers {
    /// The number of layers of the language model.
    pub(crate) own: u32,
    /// The same, with the layers that predict further tokens, if the config counts them too.
    pub(crate) all: u32,
    /// The number of layers of an encoder beside a decoder; 0 without one.
    pub(crate) encoder: u32,
    /// The first layer that stores no keys and values of its own.
    pub(crate) sharing: Option<u32>,
    /// Whether layers with experts have shared ones too.
    pub(crate) shares_experts: bool,
    /// Whether the class is that of an encoder without the decoder that its family has.
    pub(crate) encoder_alone: bool,
}

/// The ends of the names of classes that have the encoder alone, of families with a decoder.
const ENCODERS: [&str; 3] = ["EncoderModel", "ForAudioClassification", "ForTokenClassification"];

/// The layers that the config states.
pub(crate) fn promised_layers(
    reader: &ConfigReader<'_>,
    architecture: &Architecture,
) -> Option<PromisedLayers> {
    // The layers of a group are one layer, which is run several times.
    let groups = reader.field(key("layer_groups")?, check::layers).ok()?;
    let stated = match groups {
        Some(groups) => Some(groups),
        None => reader.field(key("n_layers")?, check::layers).ok()?,
    };
    // Transformers omits the number where the class derives it from the list.
    let listed = || reader.field(key("layer_types")?, check::kinds).ok()?;
    let count = |kinds: Vec<LayerKind>| u32::try_from(kinds.len()).ok();
    let mut all = match stated {
        Some(stated) => stated.value,
        None => count(listed()?.value)?,
    };
    let mut encoder = reader.field(key("enc_n_layers")?, check::layers).ok()?.map(|own| own.value);
    if architecture.counts_encoder_layers {
        encoder = Some(all);
        let decoder = reader.field(key("decoder_layers")?, check::layers).ok()?;
        all = decoder.map_or(all, |decoder| decoder.value);
    }
    let shared = reader.field_or_default(key("n_kv_shared_layers")?, check::count).ok()?;
    let shared = shared.map_or(0, |field| field.value);
    // As in transformers: if all layers would share, none does.
    let sharing = all.checked_sub(shared).filter(|&first| first > 0 && shared > 0);
    // GGUF counts the layers that predict further tokens, and config.json does not.
    let next = match reader.store.encoding() {
        Encoding::Gguf => reader.field(key("n_next_token_layers")?, check::count).ok()?,
        _ => None,
    };
    let own = all.saturating_sub(next.map_or(0, |next| next.value));
    let shares_experts = shares_experts(reader).unwrap_or(false);
    let class = reader.store.document("config.json").and_then(class_name);
    let encoder_alone = class.is_some_and(|class| ENCODERS.iter().any(|end| class.ends_with(end)));
    let encoder = encoder.unwrap_or(0);
    Some(PromisedLayers { own, all, encoder, sharing, shares_experts, encoder_alone })
}

/// Whether the config, or the default of its class, states a number of shared experts, or else their width.
fn shares_experts(reader: &ConfigReader<'_>) -> Option<bool> {
    let shared = reader.field(key("n_shared_experts")?, check::largest).ok()?;
    let width = reader.field(key("shared_expert_ffn_dim")?, check::room).ok()?;
    Some(shared.or(width)?.value > 0)
}

/// Whether the config, or else its class or family, ties the output matrix to the embedding.
pub(crate) fn ties(reader: &ConfigReader<'_>) -> bool {
    let Some(key) = key("tie_embeddings") else { return false };
    let stated = reader.field(key, check::flag).ok().flatten().map(|tied| tied.value);
    let of_class = || transformers::ties_by_default(&reader.architecture.value);
    let of_family = || reader.field_or_default(key, check::flag).ok().flatten();
    stated.or_else(of_class).or_else(|| Some(of_family()?.value)).unwrap_or(false)
}
