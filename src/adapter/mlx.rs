//! mlx-lm's adapters: `adapter_config.json` with `fine_tune_type`, and `MODULE.lora_a`, `MODULE.lora_b`
//! and, for DoRA, `MODULE.m` in `adapters.safetensors`; or whole tensors. The arithmetic is that of
//! `LoRALinear.fuse` and its relatives in mlx-lm 0.32.2 (`tuner/lora.py`, `tuner/dora.py`).
//!
//! Those of mlx-vlm have `rank` and `alpha` in the config, and `MODULE.A` and `MODULE.B`, as in `LoRaLayer` of mlx-vlm
//! 0.7.10 (`trainer/peft/lora.py`).

use super::pairs::{paired, rank_of};
use super::{Adapter, LORA, Layout, LowRankPair, WholeTensor};
use crate::arch::Dialect;
use crate::bytes::Text;
use crate::error::{Error, Result};
use crate::json::Json;
use crate::model::Model;

const CONFIG: &str = "adapter_config.json";

/// Keys of the config that PEFT's does not have.
const KEYS: [&str; 2] = ["fine_tune_type", "lora_parameters"];

/// The last parts of the names of A and B.
type Sides = [&'static str; 2];

const OF_MLX_LM: Sides = ["lora_a", "lora_b"];
const OF_MLX_VLM: Sides = ["A", "B"];

/// What files of mlx-vlm do not say.
const VERSIONS: &str = "an adapter of mlx-vlm: its changes are multiplied by alpha / rank, as mlx-vlm does since 0.5.0; earlier \
                        versions multiplied them by alpha";

/// The note on an adapter of mlx-vlm.
pub(super) fn note(adapter: &Adapter) -> Option<&'static str> {
    let is_of_vlm = adapter.dialect == Dialect::Mlx && adapter.alpha.is_some();
    is_of_vlm.then_some(VERSIONS)
}

/// Reads an adapter, or returns `None` for another kind of directory.
pub(super) fn read(model: &Model) -> Result<Option<Adapter>> {
    let Some(config) = model.read_document(CONFIG)? else { return Ok(None) };
    let Some(config) = config.as_object() else { return Ok(None) };
    let has = |key: &&str| config.contains_key(key);
    let is_of_vlm = || ["rank", "alpha"].iter().all(has) && !has(&"peft_type");
    let sides = match KEYS.iter().any(has) {
        true => OF_MLX_LM,
        false if is_of_vlm() => OF_MLX_VLM,
        false => return Ok(None),
    };
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
        base: ["model", "model_path"]
            .iter()
            .find_map(|key| config.get(key)?.as_str())
            .map(str::to_owned),
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
        "lora" | "dora" => {
            let factor = if sides == OF_MLX_LM {
                let stated = config.get("lora_parameters").and_then(|own| own.get("scale"));
                *adapter.scale.insert(number(stated, "lora_parameters.scale")?)
            } else {
                let of = |key| number(config.get(key), key);
                let (alpha, rank) = (of("alpha")?, of("rank")?);
                if rank == 0.0 {
                    return Err(Error::malformed("0, but alpha is divided by it").in_key("rank"));
                }
                adapter.alpha = Some(alpha);
                alpha / rank
            };
            add_products(&mut adapter, (sides, factor), kind == "dora")?;
        }
        other => {
            let fault =
                format!("\"{other}\", but of mlx-lm only lora, dora and full can be merged");
            let error = Error::unsupported(fault).in_key("fine_tune_type");
            adapter.obstacle = Some(error.in_file(model.path()));
        }
    }
    Ok(Some(adapter))
}

/// A number that the changes depend on.
fn number(stated: Option<&Json>, key: &'static str) -> Result<f64> {
    stated.and_then(Json::as_f64).filter(|number| number.is_finite()).ok_or_else(|| {
        let fault = "a number is needed: the changes are multiplied by it";
        Error::malformed(fault).in_key(key)
    })
}

/// Adds the products of LoRA or DoRA, with the names of their sides and their factor.
fn add_products(
    adapter: &mut Adapter,
    (sides, factor): (Sides, f64),
    has_norms: bool,
) -> Result<()> {
    let (mut found, mut norms) = (Vec::new(), Vec::new());
    for tensor in adapter.model.stored_tensors() {
        let name = tensor.name().to_owned();
        match name.rsplit_once('.') {
            Some((module, side)) if sides.contains(&side) => {
                found.push((module.to_owned(), side == sides[0], name));
            }
            Some((module, "m")) if has_norms => norms.push((module.to_owned(), name)),
            _ => {
                let fault = format!("neither {} nor {} of an adapter of MLX", sides[0], sides[1]);
                let error = Error::unsupported(fault).in_tensor(name);
                adapter.obstacle.get_or_insert(error.in_file(adapter.model.path()));
            }
        }
    }
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
            ..LowRankPair::of_module(target, (a, b), layout, factor, rank)
        });
    }
    match norms.first() {
        Some((_, name)) => {
            Err(Error::malformed("norms of DoRA without its matrices").in_tensor(name))
        }
        None => Ok(()),
    }
}
