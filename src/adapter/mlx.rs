//! mlx-lm's adapters: `adapter_config.json` with `fine_tune_type`, and `MODULE.lora_a`, `MODULE.lora_b`
//! and, for DoRA, `MODULE.m` in `adapters.safetensors`; or whole tensors. The arithmetic is that of
//! `LoRALinear.fuse` and its relatives in mlx-lm 0.32.2 (`tuner/lora.py`, `tuner/dora.py`).

use super::pairs::{paired, rank_of};
use super::{Adapter, LORA, Layout, LowRankPair, WholeTensor};
use crate::arch::Dialect;
use crate::bytes::Text;
use crate::error::{Error, Result};
use crate::json::{Json, Map};
use crate::model::Model;

const CONFIG: &str = "adapter_config.json";

/// Keys of the config that PEFT's does not have.
const KEYS: [&str; 2] = ["fine_tune_type", "lora_parameters"];

/// Reads an adapter, or returns `None` for another kind of directory.
pub(super) fn read(model: &Model) -> Result<Option<Adapter>> {
    let Some(config) = model.read_document(CONFIG)? else { return Ok(None) };
    let config =
        config.as_object().filter(|config| KEYS.iter().any(|key| config.contains_key(key)));
    let Some(config) = config else { return Ok(None) };
    let kind = config.get("fine_tune_type").and_then(Json::as_str).unwrap_or("lora");
    let mut adapter = Adapter {
        model: model.clone(),
        dialect: Dialect::Mlx,
        alpha: None,
        scale: None,
        rank_stabilized: false,
        is_tied: true,
        kind: match kind {
            "lora" | "dora" => LORA.to_owned(),
            other => Text::new(other.as_bytes()).brief(),
        },
        base: config.get("model").and_then(Json::as_str).map(str::to_owned),
        products: Vec::new(),
        wholes: Vec::new(),
        bases: Vec::new(),
        rows: Vec::new(),
        activation: None,
        obstacle: None,
    };
    match kind {
        "full" => {
            let names = model.stored_tensors().map(|tensor| tensor.name().to_owned());
            let whole =
                |name: String| WholeTensor { target: name.clone(), stored: name, is_copy: false };
            adapter.wholes = names.map(whole).collect();
        }
        "lora" | "dora" => add_products(&mut adapter, config, kind == "dora")?,
        other => {
            let fault =
                format!("\"{other}\", but of mlx-lm only lora, dora and full can be merged");
            let error = Error::unsupported(fault).in_key("fine_tune_type");
            adapter.obstacle = Some(error.in_file(model.path()));
        }
    }
    Ok(Some(adapter))
}

/// Adds the products of LoRA or DoRA.
fn add_products(adapter: &mut Adapter, config: &Map<String, Json>, has_norms: bool) -> Result<()> {
    let parameters = config.get("lora_parameters");
    let scale = parameters.and_then(|parameters| parameters.get("scale")).and_then(Json::as_f64);
    let scale = scale.filter(|scale| scale.is_finite()).ok_or_else(|| {
        let fault = "a number is needed: mlx-lm multiplies the changes by it";
        Error::malformed(fault).in_key("lora_parameters.scale")
    })?;
    let (mut found, mut norms) = (Vec::new(), Vec::new());
    for tensor in adapter.model.stored_tensors() {
        let name = tensor.name().to_owned();
        match name.rsplit_once('.') {
            Some((module, side @ ("lora_a" | "lora_b"))) => {
                found.push((module.to_owned(), side == "lora_a", name));
            }
            Some((module, "m")) if has_norms => norms.push((module.to_owned(), name)),
            _ => {
                let fault = "neither lora_a nor lora_b of an adapter of mlx-lm";
                let error = Error::unsupported(fault).in_tensor(name);
                adapter.obstacle.get_or_insert(error.in_file(adapter.model.path()));
            }
        }
    }
    adapter.scale = Some(scale);
    for (target, a, b) in paired(found)? {
        let norm = norms.iter().position(|(module, _)| *module == target);
        let magnitudes = norm.map(|place| norms.swap_remove(place).1);
        if has_norms && magnitudes.is_none() {
            let fault = format!("DoRA scales rows by their norms, but there is no {target}.m");
            return Err(Error::malformed(fault).in_tensor(a));
        }
        let layout = Layout::Mlx;
        let rank = rank_of(&adapter.model, layout, &a, &b)?;
        adapter.products.push(LowRankPair {
            magnitudes,
            ..LowRankPair::of_module(target, (a, b), layout, scale, rank)
        });
    }
    match norms.first() {
        Some((_, name)) => {
            Err(Error::malformed("norms of DoRA without its matrices").in_tensor(name))
        }
        None => Ok(()),
    }
}
