//! Makes the `config.json` of a directory agree with the tensors beside it.
//!
//! The classes of transformers and mlx-lm build their modules from `config.json`. They refuse or ignore a
//! tensor without a module, and a module without a tensor is refused or left at random. So the tensors
//! decide, and a note reports each change.

use crate::json::{Json, Map};

use super::verify::VOCABULARY_KEYS;
use crate::arch::config::TEXT_CONFIGS;
use crate::arch::config::flags::tensor_flags;
use crate::arch::{Dialect, canonical_names, family, kept};
use crate::dtype::DType;
use crate::engines::{mlx_lm, mlx_vlm, transformers};
use crate::error::{AdvisedOption, Error, Result};
use crate::model::{EMBEDDING, Model, OUTPUT, Tensor};
use crate::store::Encoding;
use crate::write::Builder;

const TIED: &str = "tie_word_embeddings";
const VOCABULARY: &str = "vocab_size";

/// The advice for a model that the reader of its container refuses.
pub(super) const FOR_OTHERS: &str = "{} writes it for other readers";

/// A directory that is being planned.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedDirectory<'a> {
    pub(super) model: &'a Model,
    /// The dialect of the directory.
    pub(super) dialect: Dialect,
    /// Whether its tensors are whole, and not the shares of a rank.
    pub(super) is_whole: bool,
    /// Whether a directory that mlx-lm cannot load is written.
    pub(super) unloadable: bool,
}

/// The tensors to write, with their expert groups.
type Tensors = Vec<(Option<String>, Tensor)>;

impl PlannedDirectory<'_> {
    /// Makes a config agree with the tensors, and notes each change in the builder. Tensors that the
    /// class has no place for are left out, an output matrix that mlx-lm's class requires is added.
    ///
    /// # Errors
    ///
    /// `Unsupported` if mlx-lm's class ignores the model's output matrix; errors of reading both matrices.
    pub(super) fn agree(
        &self,
        tensors: &mut Tensors,
        config: &mut Map<String, Json>,
        builder: &mut Builder,
    ) -> Result<()> {
        let Some(architecture) = self.model.resolution()?.architecture else { return Ok(()) };
        let stored = tensors.iter().map(|(_, tensor)| tensor.name());
        let mut names = canonical_names(architecture, self.dialect, stored);
        self.drop_layers(&mut names, tensors, builder)?;
        let mut notes = Vec::new();
        self.output_matrix(&names, tensors, config, (&mut notes, builder))?;
        self.flags(&names, config, &mut notes)?;
        if self.is_whole
            && let Some(embedding) = find(EMBEDDING, &names, tensors)
            && let [rows, _] = embedding.shape()
        {
            let why = format!("{} has {rows} rows", embedding.name());
            let more = self.model.config().ok();
            let more = more.and_then(|config| config.scales.more_embeddings.as_ref());
            let tokens = rows.saturating_sub(more.map_or(0, |more| more.value.into()));
            let levels = Level::all(config);
            // Classes assume the vocabulary of one published model; configs of wrappers rely on it.
            let lacks =
                levels.len() == 1 && VOCABULARY_KEYS.iter().all(|key| !config.contains_key(key));
            for level in levels {
                if lacks || level.of(config).get(VOCABULARY).is_some_and(Json::is_number) {
                    level.state(config, (VOCABULARY, tokens.into()), &why, &mut notes);
                }
            }
        }
        // A model that mlx-lm has no class for is judged by the reader of the directory.
        if self.dialect == Dialect::Mlx
            && mlx_lm::has_class(Level::Outer.model_type(config))
            && let Some(fault) = mlx_vlm::class_of(config).and_then(|class| class.fault(config))
            && self.model.resolution()?.has_towers()
        {
            notes.push(format!(
                "mlx-lm loads the language model; mlx-vlm, which runs the vision model, does not load the directory: \
                 its class {fault}"
            ));
        }
        notes.extend(self.doubles(tensors));
        notes.extend(match self.not_loaded(config) {
            None => self.ignored(config, tensors)?,
            unloaded => unloaded,
        });
        notes.into_iter().for_each(|note| builder.note(note));
        Ok(())
    }

    /// Removes the tensors of layers beyond the number of layers in the config, which no class builds.
    fn drop_layers(
        &self,
        names: &mut Vec<(String, String)>,
        tensors: &mut Tensors,
        builder: &mut Builder,
    ) -> Result<()> {
        // GGUF counts its layers. Without a config, nothing is known of them.
        let Ok(config) = self.model.config() else { return Ok(()) };
        if self.model.encoding() == Encoding::Gguf {
            return Ok(());
        }
        let next = config.experts.n_next_token_layers.as_ref().map_or(0, |more| more.value);
        let layers = config.n_layers.value.saturating_add(next);
        let number = |canonical: &str| {
            let number = canonical.strip_prefix("layers.")?.split('.').next()?;
            number.parse::<u32>().ok().filter(|number| *number >= layers)
        };
        // Layers that predict further tokens are not always counted.
        let is_next = |(canonical, _): &(String, String)| canonical.contains(".nextn.");
        let predicts: Vec<u32> = names
            .iter()
            .filter(|name| is_next(name))
            .filter_map(|(name, _)| number(name))
            .collect();
        let is_beyond =
            |canonical: &str| number(canonical).is_some_and(|number| !predicts.contains(&number));
        let (beyond, within): (Vec<_>, Vec<_>) =
            std::mem::take(names).into_iter().partition(|(canonical, _)| is_beyond(canonical));
        *names = within;
        if beyond.is_empty() {
            return Ok(());
        }
        let stated = &config.n_layers;
        let reason = format!("n_layers ({}) is {}", stated.source, stated.value);
        let is_within = |tensor: &Tensor| beyond.iter().all(|(_, stored)| stored != tensor.name());
        let dropped = tensors.iter().map(|(_, tensor)| tensor);
        dropped
            .filter(|tensor| !is_within(tensor))
            .for_each(|tensor| builder.omit(tensor, &reason));
        tensors.retain(|(_, tensor)| is_within(tensor));
        let mut dropped: Vec<_> =
            beyond.into_iter().map(|(_, stored)| (stored, reason.clone())).collect();
        dropped.dedup();
        builder.leave_out(dropped);
        Ok(())
    }

    /// Decides between an output matrix and a tied embedding, and states it.
    fn output_matrix(
        &self,
        names: &[(String, String)],
        tensors: &mut Tensors,
        config: &mut Map<String, Json>,
        (notes, builder): (&mut Vec<String>, &mut Builder),
    ) -> Result<()> {
        let Some(embedding) = find(EMBEDDING, names, tensors).cloned() else { return Ok(()) };
        // Encoders with decoders scale their logits by this flag.
        if config.get("is_encoder_decoder").and_then(Json::as_bool) == Some(true) {
            return Ok(());
        }
        let head = find(OUTPUT, names, tensors).cloned();
        let is_class = |test| is_class(config, test);
        let in_mlx = self.dialect == Dialect::Mlx;
        let always = in_mlx && is_class(mlx_lm::is_tied);
        let has_towers = in_mlx && self.model.resolution()?.has_towers();
        let is_untied_in_mlx_vlm = mlx_vlm::class_of(config).is_some_and(|class| class.is_untied);
        let for_towers = has_towers && is_untied_in_mlx_vlm;
        let never = in_mlx && (is_class(mlx_lm::is_untied) || for_towers);
        let mut inner_first = Level::all(config).iter().rev();
        let stated = inner_first.find_map(|level| level.of(config).get(TIED)?.as_bool());
        let source = self.model.resolution()?.dialect;
        let (tied, why) = match head {
            Some(head) => {
                // mlx-lm requires a copy of some classes, which is not tied.
                let copied = source == Dialect::Mlx
                    && self.dialect != Dialect::Mlx
                    && (is_class(mlx_lm::is_untied) || is_untied_in_mlx_vlm);
                let outer = Level::all(config).first().map(|level| level.model_type(config));
                let usual = || outer.and_then(transformers::ties_by_default);
                let may_be_equal = always || copied || stated.or_else(usual) == Some(true);
                let trusted = stated == Some(true) && self.is_converters_copy(&embedding, &head);
                let equal = may_be_equal && (trusted || embedding.has_values_of(&head)?);
                let name = head.name().to_owned();
                if equal && !never {
                    tensors.retain(|(_, tensor)| tensor.name() != name);
                    let reason = format!("equal to {}, which serves instead", embedding.name());
                    builder.omit(&head, &reason);
                    builder.leave_out(vec![(name.clone(), reason)]);
                    (true, format!("{name} equals the embedding"))
                } else if always {
                    let fault = format!(
                        "it differs from {}, but mlx-lm's class always computes logits with the embedding",
                        embedding.name()
                    );
                    notes.extend(self.refused(&name, fault)?);
                    return Ok(());
                } else {
                    let differs = if equal { "is stored" } else { "differs from the embedding" };
                    (false, format!("{name} {differs}"))
                }
            }
            None if never && (source != Dialect::Mlx || for_towers) => {
                let copy = embedding.clone().named(&head_name(embedding.name()));
                let program = if for_towers { "mlx-vlm" } else { "mlx-lm" };
                let why = format!("a copy of the embedding, which {program}'s class requires");
                notes.push(format!("{}: {why}", copy.name()));
                let why = format!("{} is {why}", copy.name());
                tensors.push((None, copy));
                (false, why)
            }
            None if never || !self.generates(config) => return Ok(()),
            None => match self.model.resolution()?.undecoded(OUTPUT) {
                Some(codes) => (false, format!("{codes} is stored")),
                None => (true, "no output matrix is stored".to_owned()),
            },
        };
        self.state_tied(tied, &why, config, notes);
        Ok(())
    }

    /// Whether an output matrix of a GGUF file is the copy of the embedding that llama.cpp requires,
    /// quantized to another dtype. Only asked where the config says that both are one.
    fn is_converters_copy(&self, embedding: &Tensor, head: &Tensor) -> bool {
        let graph = self.model.metadata().str("general.architecture").and_then(family::graph);
        let quantized = |tensor: &Tensor| tensor.dtype().is_ok_and(DType::is_quantized);
        graph.is_some_and(|graph| graph.requires(OUTPUT))
            && (quantized(embedding) || quantized(head))
    }

    /// Reports a tensor that mlx-lm's class has no place for.
    fn refused(&self, name: &str, fault: String) -> Result<Option<String>> {
        if self.unloadable {
            return Ok(Some(format!("{name}: {fault}")));
        }
        let error = Error::unsupported(fault).in_tensor(name);
        Err(error.advise_option(FOR_OTHERS, AdvisedOption::AllowUnloadable))
    }

    /// Whether the class of the config generates text, and so has an output matrix.
    fn generates(&self, config: &Map<String, Json>) -> bool {
        if self.dialect == Dialect::Mlx {
            return is_class(config, mlx_lm::has_class) || mlx_vlm::class_of(config).is_some();
        }
        const ENDS: [&str; 3] = ["ForCausalLM", "LMHeadModel", "ForConditionalGeneration"];
        let classes = config.get("architectures").and_then(Json::as_array);
        let mut classes = classes.into_iter().flatten().filter_map(Json::as_str);
        classes.any(|class| ENDS.iter().any(|end| class.ends_with(end)))
    }

    /// States whether the embedding serves as output matrix: wherever the document states the contrary,
    /// and where the reader looks if it would assume the contrary.
    fn state_tied(
        &self,
        tied: bool,
        why: &str,
        config: &mut Map<String, Json>,
        notes: &mut Vec<String>,
    ) {
        let levels = Level::all(config);
        // mlx-lm reads the config of the text model, transformers the outer one.
        let reader = if self.dialect == Dialect::Mlx { levels.last() } else { levels.first() };
        let stated = |level: &Level| level.of(config).get(TIED).and_then(Json::as_bool);
        let is_wrong = levels.iter().any(|level| stated(level) == Some(!tied));
        let lacks = |level: &&Level| match stated(level) {
            Some(_) => true,
            None if Some(*level) == reader => {
                let default = transformers::ties_by_default(level.model_type(config));
                default.map_or(is_wrong, |usual| usual != tied)
            }
            None => false,
        };
        for level in levels.iter().filter(lacks).collect::<Vec<_>>() {
            level.state(config, (TIED, tied.into()), why, notes);
        }
    }

    /// States the flags that say which tensors layers have. Some classes of mlx-lm do not read them.
    fn flags(
        &self,
        names: &[(String, String)],
        config: &mut Map<String, Json>,
        notes: &mut Vec<String>,
    ) -> Result<()> {
        // Latent attention has its biases elsewhere.
        let config_of_model = self.model.config();
        let latent = config_of_model.is_ok_and(|config| config.attention.kv_lora_rank.is_some());
        let canonical = names.iter().map(|(canonical, _)| canonical.as_str());
        let text = Level::Text.of(config);
        let flags = tensor_flags(text, canonical);
        let is_there = |wanted: String| names.iter().any(|(name, _)| *name == wanted);
        for flag in &flags {
            let has = names.iter().find(|(canonical, _)| Some(canonical.as_str()) == flag.tensor);
            let model_type = Level::Text.model_type(config);
            if let Some((_, stored)) = has
                && self.dialect == Dialect::Mlx
                && mlx_lm::is_unbiased(model_type, flag.key)
            {
                let fault = format!("mlx-lm's class of {model_type} has no biases");
                notes.extend(self.refused(stored, fault)?);
            }
            if let Some((canonical, stored)) = has
                && self.dialect == Dialect::Mlx
                && mlx_lm::biases_output(model_type)
                && let Some(layer) = canonical.strip_suffix("attention.q.bias")
                && is_there(format!("{layer}attention.output.weight"))
                && !is_there(format!("{layer}attention.output.bias"))
            {
                let fault = format!(
                    "queries have a bias and the output of attention has none, but mlx-lm's class of \
                     {model_type} requires both"
                );
                notes.extend(self.refused(stored, fault)?);
            }
            let why = match has {
                _ if !flag.is_wrong() => continue,
                Some((_, stored)) => format!("the model has {stored}"),
                None if latent => continue,
                None => format!("no layer has {}", flag.end.trim_start_matches('.')),
            };
            Level::Text.state(config, (flag.key, has.is_some().into()), &why, notes);
        }
        Ok(())
    }

    /// A note on what the config or the tensors state and mlx-lm's class does not compute.
    fn ignored(&self, config: &Map<String, Json>, tensors: &Tensors) -> Result<Option<String>> {
        let (text, model_type) = (Level::Text.of(config), Level::Text.model_type(config));
        let ignored = mlx_lm::ignored(model_type).iter().filter(|_| self.dialect == Dialect::Mlx);
        let stated = |key: &&str| {
            let value = match key.strip_prefix("rope.") {
                Some(rope_key) => rope_number(text, rope_key)?,
                None => text.get(key)?,
            };
            let counts = match *key {
                "sliding_window" => self.has_windows(),
                // A class that reads the windows themselves needs no word that they are used.
                "use_sliding_window" if self.has_windows() => false,
                key if kept::is_unused(text, key) => false,
                key if key.starts_with("rope.") => true,
                key => transformers::changes_logits(model_type, key, value),
            };
            counts.then(|| format!("{key} ({value})"))
        };
        let stated: Vec<String> = ignored.filter_map(stated).collect();
        let unread = (!stated.is_empty()).then(|| format!("does not read {}", stated.join(", ")));
        let checks = self.conditions(model_type).flat_map(|one| &one.computes);
        let faults = mlx_lm::faults(checks, text).into_iter().map(str::to_owned);
        let mut faults: Vec<String> =
            unread.into_iter().chain(faults).chain(self.masked(text, model_type)).collect();
        for (part, fault) in self.conditions(model_type).flat_map(|one| &one.drops) {
            let mut any = false;
            for (_, tensor) in tensors.iter().filter(|(_, tensor)| tensor.name().contains(part)) {
                any = any || !tensor.is_zero()?;
            }
            if any {
                faults.push((*fault).to_owned());
            }
        }
        let first = "mlx-lm will compute this model differently: its class of";
        let note = format!("{first} {model_type} {}", faults.join("; it "));
        Ok((!faults.is_empty()).then_some(note))
    }

    /// A difference of every class: no token sees those after it.
    fn masked(&self, text: &Map<String, Json>, model_type: &str) -> Option<String> {
        let has_class = self.dialect == Dialect::Mlx && mlx_lm::class(model_type).is_some();
        let config = self.model.config().ok().filter(|_| has_class)?;
        let causal = config.attention.causal.as_ref().filter(|causal| !causal.value)?;
        // Models whose class states it in another key are for mlx-embeddings.
        let elsewhere = text.get("use_bidirectional_attention") == Some(&Json::Bool(true));
        let source = &causal.source;
        let stated = source.document_name() == Some("config.json")
            || source.metadata_key().is_some() && !elsewhere;
        stated.then(|| format!("has causal attention ({} says otherwise)", causal.source))
    }

    /// The requirements on the config of mlx-lm's class of a model that is written for it.
    fn conditions(&self, model_type: &str) -> impl Iterator<Item = &'static mlx_lm::Conditions> {
        mlx_lm::conditions(model_type).filter(|_| self.dialect == Dialect::Mlx)
    }

    /// A note on values with which mlx-lm's class does not load the model.
    fn not_loaded(&self, config: &Map<String, Json>) -> Option<String> {
        let (text, model_type) = (Level::Text.of(config), Level::Text.model_type(config));
        let faults = |of: &str, stated: &Map<String, Json>| {
            let checks = self.conditions(of).flat_map(|one| &one.loads);
            mlx_lm::faults(checks, stated).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let note = |of: &str, faults: &[String]| {
            let first = "mlx-lm will not load this model: its class of";
            (!faults.is_empty()).then(|| format!("{first} {of} {}", faults.join("; it ")))
        };
        let mut of_text = faults(model_type, text);
        of_text.extend(self.odd_rope().into_iter().chain(self.other_heads(model_type)));
        let outer = Level::Outer.model_type(config);
        let of_outer = || note(outer, &faults(outer, config));
        note(model_type, &of_text).or_else(|| (outer != model_type).then(of_outer).flatten())
    }

    /// The fault of a class that computes the width of a head from the others.
    fn other_heads(&self, model_type: &str) -> Option<String> {
        let class = mlx_lm::class(model_type).filter(|_| self.dialect == Dialect::Mlx)?;
        let config = self.model.config().ok().filter(|_| class.derives_head_width)?;
        let (width, usual) = (&config.head_dim, config.dim.value.checked_div(config.n_heads.value));
        let fault = || format!("does not read head_dim ({})", width.value);
        (usual != Some(width.value)).then(fault)
    }

    /// A fault of every class: MLX rotates pairs.
    fn odd_rope(&self) -> Option<String> {
        let rope = &self.model.config().ok().filter(|_| self.dialect == Dialect::Mlx)?.rope;
        let mut counts = rope.dimension_count.iter().chain(&rope.local_dimension_count);
        let odd = counts.find(|count| count.value % 2 == 1)?;
        Some(format!("rotates pairs, not {} elements ({})", odd.value, odd.source))
    }

    /// Whether a layer of the model attends to a window.
    fn has_windows(&self) -> bool {
        self.model.config().is_ok_and(|config| config.has_windows())
    }

    /// A note on numbers of 64 bits, which the writer casts: MLX has none.
    fn doubles(&self, tensors: &Tensors) -> Option<String> {
        let is_double = |tensor: &&Tensor| tensor.dtype().is_ok_and(|dtype| dtype == DType::F64);
        let mut doubles = tensors.iter().map(|(_, tensor)| tensor).filter(is_double);
        let first = doubles.next().filter(|_| self.dialect == Dialect::Mlx)?.name();
        Some(match doubles.count() {
            0 => format!("{first}: cast from F64, which MLX does not have"),
            more => format!("{first} and {more} more: cast from F64, which MLX does not have"),
        })
    }
}

/// The tensor that is written for a canonical one.
fn find<'t>(
    canonical: &str,
    names: &[(String, String)],
    tensors: &'t Tensors,
) -> Option<&'t Tensor> {
    let (_, stored) = names.iter().find(|(name, _)| name == canonical)?;
    tensors.iter().map(|(_, tensor)| tensor).find(|tensor| tensor.name() == stored)
}

/// A number of rotary embeddings that `config.json` states, under any of the names that hold them, if their kind
/// depends on it.
fn rope_number<'c>(text: &'c Map<String, Json>, key: &str) -> Option<&'c Json> {
    let is_read = |rope: &&Map<String, Json>| {
        let kind = rope.get("rope_type").or(rope.get("type")).and_then(Json::as_str);
        match (key, kind) {
            ("partial_rotary_factor", _) => true,
            (_, None | Some("default")) => false,
            (_, Some(kind)) => key == "factor" || kind.contains("yarn"),
        }
    };
    let usual = |value: &&Json| match key {
        "truncate" => value.as_bool() == Some(true),
        "partial_rotary_factor" => value.as_f64() == Some(1.0),
        _ => false,
    };
    let stated = mlx_lm::ropes(text).chain([text]).filter(is_read).filter_map(|rope| rope.get(key));
    stated.filter(|value| !value.is_null()).find(|value| !usual(value))
}

/// The part of a `config.json` that describes the language model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Level {
    /// The document itself.
    Outer,
    /// The config of the text model in it.
    Text,
}

impl Level {
    /// The levels of a document, the outer one first.
    fn all(config: &Map<String, Json>) -> &'static [Self] {
        let has_text =
            TEXT_CONFIGS.iter().any(|name| config.get(name).is_some_and(Json::is_object));
        if has_text { &[Self::Outer, Self::Text] } else { &[Self::Outer] }
    }

    fn of(self, config: &Map<String, Json>) -> &Map<String, Json> {
        let text = || TEXT_CONFIGS.iter().find_map(|name| config.get(name)?.as_object());
        if self == Self::Text { text().unwrap_or(config) } else { config }
    }

    /// States a value, and notes the change.
    fn state(
        self,
        config: &mut Map<String, Json>,
        (key, value): (&str, Json),
        why: &str,
        notes: &mut Vec<String>,
    ) {
        let name = TEXT_CONFIGS.iter().find(|name| config.get(name).is_some_and(Json::is_object));
        let name = name.filter(|_| self == Self::Text);
        let level = match name.and_then(|name| config.get_mut(name)) {
            Some(Json::Object(text)) => text,
            _ => config,
        };
        match level.get(key) {
            Some(old) if *old == value => return,
            Some(old) => notes.push(format!("config.json: {key} is {value}, not {old}: {why}")),
            None => notes.push(format!("config.json: {key} is {value}: {why}")),
        }
        level.insert(key.to_owned(), value);
    }

    fn model_type(self, config: &Map<String, Json>) -> &str {
        self.of(config).get("model_type").and_then(Json::as_str).unwrap_or_default()
    }
}

/// Whether a test holds for the `model_type` of a level.
fn is_class(config: &Map<String, Json>, test: fn(&str) -> bool) -> bool {
    Level::all(config).iter().any(|level| test(level.model_type(config)))
}

/// The name of the output matrix beside an embedding of this name.
fn head_name(embedding: &str) -> String {
    const HEADS: [(&str, &str); 4] = [
        ("language_model.embed_tokens.weight", "language_model.lm_head.weight"),
        ("model.embed_tokens.weight", "lm_head.weight"),
        ("model.wte.weight", "lm_head.weight"),
        ("embed_in.weight", "embed_out.weight"),
    ];
    let found = HEADS.iter().find(|(own, _)| embedding.ends_with(own));
    found.map_or_else(|| embedding.to_owned(), |(own, head)| embedding.replace(own, head))
}
