//! Opening directories that MLX quantized: the config's settings, and the arrays that they describe.

use std::path::PathBuf;

use super::super::groups::{
    GroupArrays, GroupEntries, GroupMode, GroupScheme, MODES, contradiction, mode as group_mode,
};
use super::super::{DetectedPath, OpenOptions, Probe, Strictness, safetensors};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::json::Json;
use crate::store::{Indexed, Part, Store, document};

/// The name of the container.
pub(super) const NAME: &str = "mlx";

/// Detects a safetensors directory, or a file in one, whose config says that MLX quantized it.
pub(super) fn detect(probe: &Probe<'_>) -> bool {
    let folder = match probe.directory {
        Some(names) => {
            let has = |name: &str| names.binary_search_by(|other| other.as_str().cmp(name)).is_ok();
            let weights = |name: &String| name.ends_with(".safetensors") || name == "weights.npz";
            (has("config.json") && names.iter().any(weights)).then_some(probe.path)
        }
        None if safetensors::header::looks_right(probe.head, probe.len) => probe.path.parent(),
        None => None,
    };
    let Some(path) = folder
        .map(|folder| folder.join("config.json"))
        .filter(|path| probe.options.files.exists(path))
    else {
        return false;
    };
    // Opening the directory reports a config that cannot be read.
    let config = document::read(&probe.options.files, &path, "config.json", &probe.options.limits);
    config.is_ok_and(|config| settings(&config.json).is_some())
}

pub(super) fn open(opened: DetectedPath, options: &OpenOptions) -> Result<Store> {
    let gather = |indexed: &mut Indexed| gather(indexed, options.strictness);
    match opened {
        DetectedPath::Directory(folder, names) => {
            safetensors::open_directory(NAME, &folder, &names, options, gather)
        }
        DetectedPath::File(source) => safetensors::open_file(NAME, source, options, gather),
    }
}

/// The object in config.json that describes MLX's quantization: `quantization`; in older models
/// only `quantization_config`. Other quantizers use that key too, but add a `quant_method`.
fn settings(config: &Json) -> Option<&Json> {
    if let Some(settings) = config.get("quantization").filter(|settings| settings.is_object()) {
        return Some(settings);
    }
    let settings = config.get("quantization_config")?;
    let is_mlx = settings.get("quant_method").is_none()
        && settings.get("bits").is_some()
        && settings.get("group_size").is_some();
    is_mlx.then_some(settings)
}

/// The config's settings for one module or for all: an interpretation, or one without its group
/// size.
#[derive(Clone, Copy, Debug)]
struct MlxSetting {
    bits: u64,
    group_size: Option<u64>,
    mode: &'static GroupMode,
}

impl MlxSetting {
    /// Parses an object of the config, and checks it without looking at tensors.
    fn parse(json: &Json, at: &str) -> Result<Self> {
        let wrong = |key: &str, found: &Json, allowed: String| {
            Err(Error::malformed(format!("{found}, but {allowed}")).in_key(format!("{at}.{key}")))
        };
        let mode = match json.get("mode") {
            None | Some(Json::Null) => "affine",
            Some(Json::String(mode)) => mode,
            Some(other) => return wrong("mode", other, "a mode is text".into()),
        };
        let Some(mode) = group_mode(mode) else {
            let known: Vec<&str> = MODES.iter().map(|row| row.name).collect();
            return wrong("mode", &Json::from(mode), format!("{} are known", known.join(", ")));
        };
        let forms = mode.forms;
        let bits = json.get("bits").unwrap_or(&Json::Null);
        let Some((_, groups, _)) = forms.iter().find(|form| bits.as_u64() == Some(form.0)) else {
            let known: Vec<String> = forms.iter().map(|form| form.0.to_string()).collect();
            return wrong("bits", bits, format!("{} has {}", mode.name, known.join(", ")));
        };
        let group_size = match json.get("group_size") {
            None => None,
            Some(size) if size.as_u64().is_some_and(|size| groups.contains(&size)) => size.as_u64(),
            Some(size) => {
                let known: Vec<String> = groups.iter().map(u64::to_string).collect();
                return wrong(
                    "group_size",
                    size,
                    format!("{} has {}", mode.name, known.join(", ")),
                );
            }
        };
        Ok(Self { bits: bits.as_u64().unwrap_or(0), group_size, mode })
    }

    fn allows(&self, reading: &GroupScheme) -> bool {
        let same_mode = self.mode.forms.iter().any(|form| form.2 == reading.dtype);
        same_mode
            && self.bits == reading.bits
            && self.group_size.is_none_or(|size| size == reading.group_size)
    }
}

impl std::fmt::Display for MlxSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} with {} bits", self.mode.name, self.bits)?;
        match self.group_size {
            Some(size) => write!(f, " in groups of {size}"),
            None => Ok(()),
        }
    }
}

/// The whole `quantization` object, checked.
struct MlxSettings {
    all: MlxSetting,
    modules: Vec<(String, MlxSetting)>,
}

impl MlxSettings {
    fn parse(json: &Json) -> Result<Self> {
        let all = MlxSetting::parse(json, "quantization")?;
        let mut modules = Vec::new();
        for (name, value) in json.as_object().into_iter().flatten() {
            if value.is_object() {
                modules.push((
                    name.clone(),
                    MlxSetting::parse(value, &format!("quantization.{name}"))?,
                ));
            }
        }
        modules.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Self { all, modules })
    }

    /// The setting for a module's name. Wrappers put a prefix before the names of tensors; the
    /// names in the config may lack it, have it, or have it at another position.
    fn named(&self, module: &str) -> Option<MlxSetting> {
        let find = |name: &str| {
            let place =
                self.modules.binary_search_by(|(other, _)| other.as_str().cmp(name)).ok()?;
            self.modules.get(place).map(|(_, setting)| *setting)
        };
        let bare = module.strip_prefix("language_model.").unwrap_or(module);
        let bare = bare.strip_prefix("model.language_model.").unwrap_or(bare);
        let bare = bare.strip_prefix("model.").unwrap_or(bare);
        find(module).or_else(|| find(bare)).or_else(|| {
            let prefixes =
                ["model.", "language_model.", "language_model.model.", "model.language_model."];
            prefixes.iter().find_map(|prefix| find(&format!("{prefix}{bare}")))
        })
    }
}

/// Joins each packed weight with its scales, biases and global scale.
fn gather(indexed: &mut Indexed, strictness: Strictness) -> Result<()> {
    let config = indexed.documents().iter().find(|document| document.name == "config.json");
    let Some(config) = config.map(|document| document.json.clone()) else { return Ok(()) };
    let Some(settings) = settings(&config) else { return Ok(()) };
    let settings = MlxSettings::parse(settings)
        .map_err(|error| error.in_file(&indexed.root().join("config.json")))?;
    let mut others: Option<(PathBuf, Error, u64)> = None;
    for head in 0..u32::try_from(indexed.len()).unwrap_or(u32::MAX) {
        let Some(weight) = indexed.get(head) else { continue };
        let Some(module) = weight.name.as_bytes().strip_suffix(b".weight") else { continue };
        let name = weight.name.to_string();
        let part = |ending: &str| indexed.find(&[module, ending.as_bytes()].concat());
        let (scales, biases) = (part(".scales"), part(".biases"));
        let global = part(".global_scale").map(|number| (Part::GlobalAmax, number));
        let path = indexed.path(head).to_path_buf();
        let located = |error: Error| error.in_file(&path).in_tensor(&name);
        let Some(scales) = scales else {
            if biases.is_some() && weight.dtype == Ok(DType::U32) {
                let fault = "the weight is packed and has .biases, but .scales are missing";
                return Err(located(Error::malformed(fault)));
            }
            continue;
        };
        let module = String::from_utf8_lossy(module).into_owned();
        let entries = GroupEntries { weight: head, scales, biases, global };
        let Some(parts) = entries.parts(indexed) else { continue };
        let reading = select_scheme(&parts, &settings, &module, &config).map_err(&located)?;
        if settings.named(&module).is_none() && !settings.all.allows(&reading) {
            let fault = format!(
                "its shapes fit {reading}, but config.json says {} for all: mlx-lm does not load it",
                settings.all
            );
            let error = || located(contradiction(fault));
            others = match others {
                Some((path, error, count)) => Some((path, error, count.saturating_add(1))),
                None => Some((path.clone(), error(), 1)),
            };
        }
        entries.join(indexed, &reading).map_err(located)?;
    }
    match others {
        None => Ok(()),
        Some((_, error, _)) if strictness == Strictness::Strict => Err(error),
        Some((path, error, count)) => {
            let more =
                if count > 1 { format!(" ({} more alike)", count - 1) } else { String::new() };
            indexed.note_broken_rule(&path, &format!("{}{more}", error.without_path()));
            Ok(())
        }
    }
}

/// The only valid interpretation of a module's arrays.
fn select_scheme(
    parts: &GroupArrays<'_>,
    settings: &MlxSettings,
    module: &str,
    config: &Json,
) -> Result<GroupScheme> {
    let readings = parts.readings()?;
    let list = || {
        let list: Vec<String> = readings.iter().map(GroupScheme::to_string).collect();
        if list.is_empty() { "nothing".to_owned() } else { list.join(", or ") }
    };
    if let Some(setting) = settings.named(module) {
        let found = readings.iter().find(|reading| setting.allows(reading));
        return found.copied().ok_or_else(|| {
            contradiction(format!("config.json says {setting}, but its shapes fit {}", list()))
        });
    }
    if let [only] = readings.as_slice() {
        return Ok(*only);
    }
    if let Some(found) = readings.iter().find(|reading| settings.all.allows(reading)) {
        return Ok(*found);
    }
    // Several interpretations fit and none is the default: decide by the input width of layers.
    match parts.of_known_width(&readings, config).as_slice() {
        [only] => Ok(*only),
        _ => Err(contradiction(format!(
            "config.json says {} for all, but its shapes fit {}",
            settings.all,
            list()
        ))),
    }
}
