//! PEFT's adapters: `adapter_config.json`, and the matrices of each changed module in
//! `adapter_model.safetensors`.

use super::pairs::{paired, rank_of};
use super::{Activation, Adapter, LORA, Layout, LowRankPair, Parameters, TokenRows, WholeTensor};
use crate::arch::Dialect;
use crate::bytes::Text;
use crate::error::{Error, ErrorKind, Result};
use crate::json::{Json, Map};
use crate::model::Model;

const CONFIG: &str = "adapter_config.json";

/// The embedding and the norms that LongLoRA trains beside the adapter.
const FURTHER: &str = "trainable_params.bin";

/// Reads an adapter, or returns `None` for another kind of directory.
pub(super) fn read(model: &Model) -> Result<Option<Adapter>> {
    let Some(config) = model.read_document(CONFIG)? else { return Ok(None) };
    let Json::Object(config) = &*config else {
        return Err(Error::malformed(format!("{CONFIG} is not a JSON object")));
    };
    let mut obstacle = obstacle(config);
    if let Some(name) = model.store().folder_files()?.unknown.iter().find(|name| *name == FURTHER) {
        let fault = format!("{name} has further trained tensors, in a form that is not read");
        let advice = "merge both into the base model with LongLoRA's merge_lora_weights_and_save_hf_model.py";
        obstacle.get_or_insert(Error::unsupported(fault).advise(advice));
    }
    let mut parts = AdapterParts::default();
    let kind = kind(config);
    for tensor in model.stored_tensors().filter(|_| kind.is_read()) {
        // PEFT saves a module beside its trained copy.
        if tensor.name().contains(".original_module.") {
            continue;
        }
        if let Err(fault) = parts.add(tensor.name()) {
            obstacle.get_or_insert(Error::unsupported(fault).in_tensor(tensor.name()));
        }
    }
    let (products, rows) = match parts.products(model, config) {
        Ok(products) => (products, parts.rows(config)),
        // What cannot be merged need not make sense.
        Err(_) if obstacle.is_some() => (Vec::new(), Ok(Vec::new())),
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            obstacle = Some(error);
            (Vec::new(), Ok(Vec::new()))
        }
        Err(error) => return Err(error),
    };
    let rows = match rows {
        Err(_) if obstacle.is_some() => Vec::new(),
        rows => rows?,
    };
    Ok(Some(Adapter {
        model: model.clone(),
        dialect: Dialect::HuggingFace,
        alpha: Some(number(config, "lora_alpha")?.unwrap_or(8.0)),
        scale: None,
        rank_stabilized: flag(config, "use_rslora"),
        is_tied: flag(config, "ensure_weight_tying"),
        kind: kind.name(),
        base: config.get("base_model_name_or_path").and_then(Json::as_str).map(str::to_owned),
        products,
        wholes: wholes(parts.wholes, config),
        bases: parts.bases,
        rows,
        activation: activation(config)?,
        obstacle: obstacle.map(|error| error.in_file(model.path())),
    }))
}

/// Whole tensors, of which the config says whether their modules were trained as copies.
fn wholes(mut wholes: Vec<WholeTensor>, config: &Map<String, Json>) -> Vec<WholeTensor> {
    let modules = config.get("modules_to_save").and_then(Json::as_array);
    let modules: Vec<&str> = modules.into_iter().flatten().filter_map(Json::as_str).collect();
    // A copy may also be saved under the name of the module.
    let copies: Vec<String> =
        wholes.iter().filter(|whole| whole.is_copy).map(|whole| whole.target.clone()).collect();
    wholes.retain(|whole| whole.is_copy || !copies.contains(&whole.target));
    for whole in &mut wholes {
        let module = whole.target.rsplit_once('.').map_or(&*whole.target, |(module, _)| module);
        whole.is_copy |=
            modules.iter().any(|name| matches_plain(name.as_bytes(), module.as_bytes()));
    }
    wholes
}

/// The tensors of an adapter, classified by their names.
#[derive(Default)]
struct AdapterParts {
    /// Modules with a matrix: whether it is A, and its stored name.
    matrices: Vec<(String, bool, String)>,
    /// Modules that are embeddings.
    embeddings: Vec<String>,
    /// Modules with norms (DoRA), and the stored names.
    norms: Vec<(String, String)>,
    /// Modules with a bias of matrix B, and the stored names.
    biases: Vec<(String, String)>,
    wholes: Vec<WholeTensor>,
    /// Weights of the base under changed modules.
    bases: Vec<WholeTensor>,
    /// Modules with rows of tokens, and the stored names.
    tokens: Vec<(String, String)>,
}

impl AdapterParts {
    /// Adds a tensor: `base_model.model.MODULE.lora_A.weight` and the like, with the adapter's name
    /// before `weight` if a training program saved it.
    fn add(&mut self, stored: &str) -> Result<(), &'static str> {
        const KINDS: [(&str, bool, bool); 4] = [
            (".lora_A", true, false),
            (".lora_B", false, false),
            (".lora_embedding_A", true, true),
            (".lora_embedding_B", false, true),
        ];
        let name = stored.strip_prefix("base_model.model.").unwrap_or(stored);
        if let Some(module) = name.strip_suffix(".base_layer.weight") {
            let module = module.strip_suffix(".token_adapter").unwrap_or(module);
            let (target, stored) = (format!("{module}.weight"), stored.to_owned());
            self.bases.push(WholeTensor { target, stored, is_copy: false });
            return Ok(());
        }
        let after = |mark: &str| {
            let (module, rest) = name.rsplit_once(mark)?;
            (rest.is_empty() || rest.starts_with('.')).then_some((module, rest))
        };
        if let Some((module, _)) = after(".lora_magnitude_vector") {
            self.norms.push((module.to_owned(), stored.to_owned()));
            return Ok(());
        }
        for (mark, is_a, embedding) in KINDS {
            let Some((module, rest)) = after(mark) else { continue };
            if rest.ends_with(".bias") {
                if is_a || embedding {
                    return Err("a bias that PEFT does not add");
                }
                self.biases.push((module.to_owned(), stored.to_owned()));
                return Ok(());
            }
            if embedding {
                self.embeddings.push(module.to_owned());
            }
            self.matrices.push((module.to_owned(), is_a, stored.to_owned()));
            return Ok(());
        }
        if let Some((module, _)) = after(".trainable_tokens_delta") {
            let module = module.strip_suffix(".token_adapter").unwrap_or(module);
            self.tokens.push((module.to_owned(), stored.to_owned()));
            return Ok(());
        }
        if name.contains(".lora_a.") || name.contains(".lora_b.") {
            return Err(
                "the names are torchtune's own (lora_a, lora_b): save the adapter in PEFT's form",
            );
        }
        if name.contains(".lora_") {
            return Err(
                "the adapter saves a module as a whole under a name of LoRA that is not known",
            );
        }
        // The name of the adapter follows, unless it was taken out when it was saved.
        let (target, is_copy) = match name.split_once(".modules_to_save.") {
            Some((module, rest)) => {
                (format!("{module}.{}", rest.rsplit('.').next().unwrap_or(rest)), true)
            }
            // Biases that were trained are those of the base's own module.
            None => (name.replace(".base_layer.", "."), false),
        };
        self.wholes.push(WholeTensor { target, stored: stored.to_owned(), is_copy });
        Ok(())
    }

    /// The products, with the ranks and scales that the config states.
    fn products(&self, model: &Model, config: &Map<String, Json>) -> Result<Vec<LowRankPair>> {
        let alpha = number(config, "lora_alpha")?.unwrap_or(8.0);
        let default_rank = number(config, "r")?.unwrap_or(8.0);
        let (stabilized, has_norms) = (flag(config, "use_rslora"), flag(config, "use_dora"));
        let mut products = Vec::new();
        let mut norms = self.norms.clone();
        let mut biases = self.biases.clone();
        for (target, a, b) in paired(self.matrices.clone())? {
            // A module of which several parameters are changed is wrapped once for each.
            let target = target.replace(".base_layer", "");
            let mut parameters = Parameters::of(config, &target);
            let names = match &parameters {
                Some(parameters) => &*parameters.names,
                None => std::slice::from_ref(&target),
            };
            let mut layout = match self.embeddings.contains(&target) {
                true => Layout::PeftEmbedding,
                false => Layout::Usual,
            };
            let mut rank = rank_of(model, layout, &a, &b)?;
            let expected = pattern_of(config, "rank_pattern", names)?.unwrap_or(default_rank);
            let alpha = pattern_of(config, "alpha_pattern", names)?.unwrap_or(alpha);
            if let Some(parameters) = &mut parameters {
                parameters.experts = experts(rank, expected);
                rank /= parameters.experts;
                if parameters.experts > 1 {
                    layout = Layout::PeftExperts;
                }
            }
            #[expect(clippy::cast_precision_loss, reason = "ranks are small")]
            let found = rank as f64;
            if found != expected {
                let fault = format!("rank {rank}, but {CONFIG} states {expected} for {target}");
                return Err(Error::malformed(fault).in_tensor(a));
            }
            let place = norms.iter().position(|(module, _)| *module == target);
            let magnitudes = place.map(|place| norms.swap_remove(place).1);
            if has_norms && magnitudes.is_none() {
                let fault =
                    format!("DoRA scales rows by their norms, but there are none for {target}");
                return Err(Error::unsupported(fault).in_key("use_dora"));
            }
            if let Some(name) = magnitudes.as_ref().filter(|_| layout != Layout::Usual) {
                let fault = "DoRA of an embedding cannot be merged";
                return Err(Error::unsupported(fault).in_tensor(name));
            }
            let scale = alpha / if stabilized { found.sqrt() } else { found };
            let place = biases.iter().position(|(module, _)| *module == target);
            let bias = place.map(|place| biases.swap_remove(place).1);
            products.push(LowRankPair {
                magnitudes,
                bias,
                parameters,
                ..LowRankPair::of_module(target, (a, b), layout, scale, rank)
            });
        }
        let alone = norms.first().map(|(_, name)| ("norms of DoRA", name));
        match alone.or(biases.first().map(|(_, name)| ("a bias", name))) {
            Some((what, name)) => {
                let fault = format!("{what} without its matrices, which cannot be merged");
                Err(Error::unsupported(fault).in_tensor(name))
            }
            None => Ok(products),
        }
    }

    /// The rows of tokens, with their numbers: `trainable_token_indices`, a list for the embedding or one
    /// for each module.
    fn rows(&self, config: &Map<String, Json>) -> Result<Vec<TokenRows>> {
        const KEY: &str = "trainable_token_indices";
        let stated = config.get(KEY).or_else(|| config.get("token_indices"));
        let rows = |(module, stored): &(String, String)| {
            let last = module.rsplit('.').next().unwrap_or(module);
            let list = match stated {
                Some(Json::Object(modules)) => modules.get(last).or_else(|| modules.get(module)),
                list => list,
            };
            let numbers = list.and_then(Json::as_array);
            let numbers: Option<Vec<u64>> =
                numbers.and_then(|list| list.iter().map(Json::as_u64).collect());
            let numbers = numbers.ok_or_else(|| {
                Error::malformed(format!("no list of tokens for {module}")).in_key(KEY)
            })?;
            Ok(TokenRows { target: module.clone(), stored: stored.clone(), numbers })
        };
        self.tokens.iter().map(rows).collect()
    }
}

/// The tokens after which an activated LoRA applies.
fn activation(config: &Map<String, Json>) -> Result<Option<Activation>> {
    const KEY: &str = "alora_invocation_tokens";
    let tokens = match config.get(KEY) {
        None | Some(Json::Null) => return Ok(None),
        Some(Json::Array(tokens)) if tokens.is_empty() => return Ok(None),
        tokens => tokens.and_then(Json::as_array),
    };
    let number = |token: &Json| token.as_u64().and_then(|token| u32::try_from(token).ok());
    let tokens: Option<Vec<u32>> = tokens.and_then(|all| all.iter().map(number).collect());
    let tokens = tokens.ok_or_else(|| Error::malformed("not a list of tokens").in_key(KEY))?;
    Ok(Some(Activation::new(tokens, KEY)))
}

/// The advice for adapters that another program can merge.
const MERGE_ELSEWHERE: &str = "merge it with the program that trained it (in PEFT, merge_and_unload), and convert the model which that saves";

/// A `peft_type`.
#[derive(Clone, Copy, Debug)]
struct PeftType<'c>(&'c str);

/// The type of adapter that a config states.
fn kind(config: &Map<String, Json>) -> PeftType<'_> {
    PeftType(config.get("peft_type").and_then(Json::as_str).unwrap_or("LORA"))
}

impl PeftType<'_> {
    /// The types that PEFT 0.21.2 merges into no weights: those that learn a prompt, and those whose changes depend on the
    /// input.
    const WITHOUT_WEIGHTS: [&'static str; 11] = [
        "PROMPT_TUNING",
        "MULTITASK_PROMPT_TUNING",
        "P_TUNING",
        "PREFIX_TUNING",
        "CPT",
        "CARTRIDGE",
        "ADAPTION_PROMPT",
        "POLY",
        "XLORA",
        "LILY",
        "SHADOW",
    ];

    fn is(self, name: &str) -> bool {
        self.0.eq_ignore_ascii_case(name)
    }

    /// Whether its tensors are read.
    fn is_read(self) -> bool {
        self.is("LORA") || self.is("TRAINABLE_TOKENS")
    }

    /// Whether PEFT merges it into the weights of the model.
    fn has_weights(self) -> bool {
        !Self::WITHOUT_WEIGHTS.iter().any(|name| self.is(name))
    }

    fn name(self) -> String {
        if self.is("LORA") { LORA.to_owned() } else { Text::new(self.0.as_bytes()).brief() }
    }
}

/// The reason why an adapter with this config cannot be merged.
fn obstacle(config: &Map<String, Json>) -> Option<Error> {
    let kind = kind(config);
    if !kind.is_read() {
        let error = Error::unsupported(format!("{}, but only LORA can be merged", kind.name()));
        return Some(error.in_key("peft_type").advise(match kind.has_weights() {
            true => MERGE_ELSEWHERE,
            false => {
                "it adds to the input or depends on it, so no model has it merged: run it with PEFT"
            }
        }));
    }
    const REFUSED: [(&str, &str); 3] = [
        ("enable_lora", "the adapter changes parts of fused matrices, with a grouped B"),
        ("use_qalora", "QALoRA pools the inputs"),
        ("layer_replication", "the adapter repeats layers"),
    ];
    for (key, why) in REFUSED {
        let set = match config.get(key) {
            None | Some(Json::Null | Json::Bool(false)) => false,
            Some(Json::Array(list)) => !list.is_empty(),
            Some(_) => true,
        };
        if set {
            let error = Error::unsupported(format!("{why}, so it cannot be merged")).in_key(key);
            return Some(error.advise(MERGE_ELSEWHERE));
        }
    }
    if let Some(obstacle) = Parameters::obstacle(config) {
        return Some(obstacle);
    }
    // These change the base model when the adapter is created.
    const CHANGE_THE_BASE: [&str; 5] = ["pissa", "olora", "corda", "loftq", "lora_ga"];
    let init = config.get("init_lora_weights").and_then(Json::as_str).unwrap_or_default();
    if CHANGE_THE_BASE.iter().any(|name| init.starts_with(name)) {
        let fault =
            format!("\"{init}\" changes the base model, so the adapter does not fit the original");
        let error = Error::unsupported(fault).in_key("init_lora_weights");
        return Some(error.advise(
            "save the adapter with path_initial_model_for_weight_conversion, which makes it a plain LoRA",
        ));
    }
    None
}

fn flag(config: &Map<String, Json>, key: &str) -> bool {
    config.get(key).and_then(Json::as_bool).unwrap_or(false)
}

fn number(config: &Map<String, Json>, key: &str) -> Result<Option<f64>> {
    match config.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => valid(value).map(Some).map_err(|error| error.in_key(key)),
    }
}

fn valid(value: &Json) -> Result<f64> {
    let number = value.as_f64().filter(|number| number.is_finite());
    number.ok_or_else(|| Error::malformed(format!("{value}, but a number is required in {CONFIG}")))
}

/// The number of experts whose matrices follow one another, if each has this rank; 1 if it does not divide all.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is not a whole number divides none"
)]
fn experts(joint: u64, rank: f64) -> u64 {
    let rank = if rank.fract() == 0.0 { rank as u64 } else { 0 };
    let is_whole = joint.checked_rem(rank) == Some(0);
    if is_whole { joint.checked_div(rank).unwrap_or(1) } else { 1 }
}

/// The number that the patterns of `key` give a module, or each of the parameters of one.
fn pattern_of(config: &Map<String, Json>, key: &str, names: &[String]) -> Result<Option<f64>> {
    let numbers = names.iter().map(|name| pattern(config, key, name));
    let numbers = numbers.collect::<Result<Vec<_>>>()?;
    match numbers.split_first() {
        Some((first, others)) if others.iter().all(|other| other == first) => Ok(*first),
        None => Ok(None),
        Some(_) => {
            let fault =
                format!("different numbers for parameters of one module: {}", names.join(", "));
            Err(Error::unsupported(fault).in_key(key))
        }
    }
}

/// The number that a pattern of `key` gives a module: that of the first pattern that matches the
/// end of its name, after a dot.
fn pattern(config: &Map<String, Json>, key: &str, module: &str) -> Result<Option<f64>> {
    let Some(Json::Object(patterns)) = config.get(key) else { return Ok(None) };
    for (pattern, value) in patterns {
        if matches(pattern, module).map_err(|error| error.in_key(key))? {
            return valid(value).map(Some).map_err(|error| error.in_key(key));
        }
    }
    Ok(None)
}

/// Whether a pattern, which may be a regular expression, matches a module from a dot to its end.
fn matches(pattern: &str, module: &str) -> Result<bool> {
    if !pattern.contains(['\\', '[', ']', '(', ')', '*', '+', '?', '|', '^', '$', '{', '}']) {
        return Ok(matches_plain(pattern.as_bytes(), module.as_bytes()));
    }
    matches_expression(pattern, module)
}

/// The same for a pattern in which only a dot, which matches any byte of a line, stands for another.
fn matches_plain(pattern: &[u8], module: &[u8]) -> bool {
    let at = module.len().checked_sub(pattern.len());
    let Some((before, end)) = at.and_then(|at| module.split_at_checked(at)) else { return false };
    let whole = before.is_empty() || (before.ends_with(b".") && !before.contains(&b'\n'));
    let is = |(of, byte): (&u8, &u8)| of == byte || (*of == b'.' && *byte != b'\n');
    whole && pattern.iter().zip(end).all(is)
}

#[cfg(feature = "regex")]
fn matches_expression(pattern: &str, module: &str) -> Result<bool> {
    // The flags are Python's defaults; `regex` is built without tables of Unicode.
    let whole = format!(r"^(?:.*\.)?(?:{pattern})$");
    let built = regex::bytes::RegexBuilder::new(&whole).unicode(false).build();
    let built = built.map_err(|_| {
        Error::unsupported(format!("\"{pattern}\" is not a supported regular expression"))
    })?;
    Ok(built.is_match(module.as_bytes()))
}

#[cfg(not(feature = "regex"))]
fn matches_expression(pattern: &str, _: &str) -> Result<bool> {
    let fault = format!("\"{pattern}\" is a regular expression, which this build cannot match");
    Err(Error::unsupported(fault).advise("enable the cargo feature `regex`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PEFT matches `(.*\.)?(pattern)$` from the start of the name.
    #[test]
    fn patterns_match_from_a_dot_to_the_end() {
        for (pattern, module, expected) in [
            ("q_proj", "model.layers.0.self_attn.q_proj", true),
            ("q_proj", "q_proj", true),
            ("proj", "model.q_proj", false),
            ("self_attn.q_proj", "layers.0.self_attn.q_proj", true),
            ("layers.0.q_proj", "q_proj", false),
            ("model.q", "model.q.weight", false),
            // A dot is any character, as in any regular expression.
            ("attn.q", "layers.0.attn_q", true),
            ("attn.q", "layers.0.attn\nq", false),
            ("q", "layers\n.q", false),
            ("", "layers.", true),
            ("", "layers", false),
        ] {
            assert_eq!(matches(pattern, module).unwrap(), expected, "{pattern:?} {module:?}");
            #[cfg(feature = "regex")]
            assert_eq!(matches_expression(pattern, module).unwrap(), expected, "{pattern:?}");
        }
    }
}
