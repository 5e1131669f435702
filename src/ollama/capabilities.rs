//! The capabilities of a model, as Ollama determines them: for its own models from their manifests,
//! for other files as if they were put into its store.

use super::served::shown_capabilities;
use super::show;
use crate::adapter::Adapter;
use crate::arch::{Resolution, other_models};
use crate::container::ollama::{ConfigBlob, OLLAMA, Sources};
use crate::engines::ollama::chat_of_architecture;
use crate::model::Model;
use crate::store::Encoding;
use crate::tokenizer;

/// The capabilities in Ollama's order. Empty for what it does not run: adapters, projectors, speech
/// recognition, models with an encoder and a decoder, and files that say too little.
pub(crate) fn capabilities(model: &Model) -> Vec<String> {
    if model.container() == OLLAMA.name {
        return show::stored_capabilities(model).ok().flatten().unwrap_or_default();
    }
    let config = model.config().ok();
    let pair = config.is_some_and(|config| config.encoder.enc_n_layers.is_some());
    if pair || model.is_empty() || Adapter::of(model).is_ok_and(|adapter| adapter.is_some()) {
        return Vec::new();
    }
    let encodes = |config: &crate::arch::ModelConfig| {
        config.attention.causal.as_ref().is_some_and(|causal| !causal.value)
    };
    let resolution = model.resolution().ok();
    let family = resolution.and_then(|resolution| resolution.architecture);
    let encodes = config.is_some_and(encodes) || family.is_some_and(|family| family.encodes);
    match model.encoding() {
        // Ollama says that every other model completes texts.
        Encoding::Gguf if family.is_none() => Vec::new(),
        Encoding::Gguf => of_gguf(model, encodes),
        Encoding::Safetensors => {
            if encodes {
                return vec!["embedding".to_owned()];
            }
            let is_other = || {
                other_models::found(model.store(), None).is_some()
                    || other_models::tower_alone(model.store()).is_some()
            };
            match family.is_none() && is_other() {
                true => Vec::new(),
                false => of_directory(model),
            }
        }
        Encoding::Ggml => Vec::new(),
    }
}

/// The capabilities of a GGUF file, as `ollama create` records it and its server then finds it. An encoder completes no
/// text, though Ollama says so where no kind of pooling is stated.
fn of_gguf(model: &Model, encodes: bool) -> Vec<String> {
    let keys = model.metadata();
    let Some(architecture) = keys.str("general.architecture") else { return Vec::new() };
    if keys.str("general.type").is_some_and(|kind| kind != "model")
        || model.is_projector()
        || other_models::named(architecture).is_some()
    {
        return Vec::new();
    }
    let (format, _) = chat_of_architecture(architecture);
    let config = ConfigBlob {
        family: architecture.to_owned(),
        renderer: format.renderer.to_owned(),
        parser: format.parser.to_owned(),
        ..ConfigBlob::default()
    };
    let mut layers = model.attachments().iter().filter(|layer| layer.kind == "projector");
    let projector = layers.find_map(|layer| Model::open(&layer.path).ok());
    let mut facts = show::gguf_facts(keys, projector.as_ref().map(Model::metadata));
    facts.pools |= encodes;
    shown_capabilities(&config, None, Some(&facts)).0
}

/// The capabilities of a directory, as `ollama create` records it.
fn of_directory(model: &Model) -> Vec<String> {
    let store = &**model.store();
    let Some(config) = store.document("config.json") else { return Vec::new() };
    let (embedded, standalone) = tokenizer::chat_templates_beside(store);
    let sources = Sources { config: Some(config), embedded: &embedded, standalone: &standalone };
    let parser = sources.chat_format().parser;
    let mut capabilities = sources.capabilities(parser);
    // Ollama goes by the config alone.
    if model.resolution().is_ok_and(Resolution::lacks_towers) {
        capabilities.retain(|name| !["vision", "audio"].contains(name));
    }
    capabilities.into_iter().map(str::to_owned).collect()
}
