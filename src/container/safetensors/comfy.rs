//! The formats of codes that ComfyUI states: in an array of the module, or for all modules in the header's metadata.

use crate::json::Json;
use crate::store::Indexed;

/// The key of the header's metadata.
pub(crate) const KEY: &str = "_quantization_metadata";

/// The formats that the header states.
pub(super) struct StatedFormats(Json);

impl StatedFormats {
    pub(super) fn of(indexed: &Indexed) -> Self {
        let text = indexed.metadata().get(KEY).and_then(|value| value.to_text());
        let json = text.and_then(|text| Json::parse(text.as_bytes()).ok());
        Self(json.unwrap_or_default())
    }

    /// The format of a module's weight.
    pub(super) fn of_module(&self, indexed: &Indexed, module: &[u8]) -> Option<String> {
        let own = indexed.find(&[module, b".comfy_quant"].concat()).map(|number| {
            // Longer text is none that ComfyUI writes.
            let text = indexed.read_start(number, 4096).unwrap_or_default();
            Json::parse(&text).unwrap_or_default()
        });
        let layers = || self.0.get("layers")?.get(std::str::from_utf8(module).ok()?);
        let stated = own.as_ref().or_else(layers)?;
        Some(stated.get("format").and_then(Json::as_str).unwrap_or("?").to_owned())
    }
}
