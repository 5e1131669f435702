//! Which programs read an MLX directory.

use serde_json::Value as Json;

use crate::bytes::Text;
use crate::engines::mlx_lm;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::translate::ConfigDocument;

/// A note for an MLX directory that mlx-lm has no class for. Models with a vision or audio model are
/// read by mlx-vlm, and `mlx_readers` of the family has other programs.
///
/// # Errors
///
/// `Unsupported` if no known program reads the directory, unless it is wanted for others.
pub(super) fn check(
    model: &Model,
    config: Option<&ConfigDocument>,
    allow: bool,
) -> Result<Option<String>> {
    let resolution = model.resolution()?;
    let (Some(architecture), Some(config)) = (resolution.architecture, config) else {
        return Ok(None);
    };
    let keys = config.keys().map_err(|error| error.in_file(model.path()))?;
    let model_type = keys.get("model_type").and_then(Json::as_str).unwrap_or_default();
    if model_type.is_empty() || mlx_lm::has_class(model_type) {
        return Ok(None);
    }
    let name = Text::new(model_type.as_bytes()).brief();
    let fault = format!("mlx-lm has no class for {name}");
    let mut readers = architecture.mlx_readers.iter();
    let reader = readers.find(|(read, _)| *read == model_type).map(|(_, program)| *program);
    match reader.or(resolution.has_towers().then_some("mlx-vlm")) {
        Some(program) => Ok(Some(format!("{fault}: the directory is for {program}"))),
        None if allow => Ok(Some(format!("{fault}: the directory is for other readers"))),
        None => {
            let advice = "--allow-incomplete writes it for other readers";
            Err(Error::unsupported(fault).in_file(model.path()).advise(advice))
        }
    }
}
