//! Facts about transformers: what its classes take for keys that `config.json` omits, and the names
//! that it knows.

use std::borrow::Cow;
use std::collections::HashSet;

use super::{Block, Constant, Table, table};
use crate::json::Json;

/// The class of a `model_type`.
#[derive(Debug, Default)]
pub(crate) struct Class {
    /// Keys of `config.json`, and the values that the class takes if they are omitted.
    pub(crate) defaults: Vec<(&'static str, Constant)>,
    /// Further keys that the class reads: those that it takes as unset or derives from others if they
    /// are omitted.
    pub(crate) derived: Vec<&'static str>,
    /// Whether the class computes the width of a head from the others if `config.json` omits it.
    pub(crate) computes_head_width: bool,
    /// Whether the class ties the output matrix to the embedding unless `config.json` says otherwise.
    ties: bool,
}

static CLASSES: Table<Class> = table!("transformers/defaults", Class::parse);

/// Fields that the model's code reads: a name, what they change, and the default, as JSON. Also keys of older files, which
/// the class takes for a field: those that change something, those that change `nothing`, or nothing without `rope_scaling`
/// (`scaling`), and other names of a field (`is`).
static READ: Table<Vec<[&str; 3]>> = table!("transformers/read", |block| {
    let words = |line: &'static str| {
        let mut words = line.splitn(3, ' ');
        Some([words.next()?, words.next()?, words.next()?])
    };
    block.lines().filter_map(words).collect()
});

/// A class of tokenizers that reads `vocab.json` with `merges.txt`, which do not state how text is split.
#[derive(Debug)]
pub(crate) struct TokenizerClass {
    /// Whether a token is put before and one after each text.
    pub(crate) surrounds: bool,
    /// The parts of `tokenizer.json` that the class stands for.
    pub(crate) normalizer: Json,
    pub(crate) pre_tokenizer: Json,
}

static TOKENIZERS: Table<TokenizerClass> = table!("transformers/tokenizers", |block| {
    let part = |name: &str| {
        let mut lines = block.lines().filter_map(|line| line.split_once(' '));
        let found = lines.find_map(|(part, json)| (part == name).then_some(json));
        found.and_then(|json| Json::parse(json.as_bytes()).ok()).unwrap_or_default()
    };
    TokenizerClass {
        surrounds: block.words().any(|word| word == "surrounds"),
        normalizer: part("normalizer"),
        pre_tokenizer: part("pre_tokenizer"),
    }
});

/// Starts of names in files, and what the class of a model type has instead.
static MODULES: Table<Vec<(&str, &str)>> = table!("transformers/modules", |block| {
    block.lines().filter_map(|line| line.split_once(' ')).collect()
});

/// A parameter of a projector that a class has only if a flag of `config.json` is true.
#[derive(Debug)]
pub(crate) struct ProjectorFlag {
    pub(crate) key: &'static str,
    /// What the class takes if `config.json` omits the flag.
    pub(crate) default: bool,
    pub(crate) tensor: &'static str,
}

static PROJECTORS: Table<Vec<ProjectorFlag>> = table!("transformers/projectors", |block| {
    let flag = |line: &'static str| {
        let mut words = line.split(' ');
        let (key, default, tensor) = (words.next()?, words.next()?, words.next()?);
        Some(ProjectorFlag { key, default: default == "true", tensor })
    };
    block.lines().filter_map(flag).collect()
});

/// The head of a class for another task than generating text.
#[derive(Debug)]
pub(crate) struct Head {
    /// Whether it predicts words, which vectors of texts do not need.
    pub(crate) predicts_words: bool,
    /// Its parameters, and those of the model's pooler that it depends on.
    pub(crate) names: Vec<&'static str>,
}

static HEADS: Table<Head> = table!("transformers/heads", |block| Head {
    predicts_words: block.words().any(|word| word == "words"),
    names: block.lines().collect(),
});

static NAMES: Table<Vec<&str>> = table!("transformers/names", |block| { block.lines().collect() });

impl Class {
    fn parse(block: Block) -> Self {
        let mut class = Self::default();
        for word in block.words() {
            match word {
                "computes=head_dim" => class.computes_head_width = true,
                "ties" => class.ties = true,
                _ => {}
            }
        }
        for (key, value) in block.lines().filter_map(|line| line.split_once(' ')) {
            match Constant::parse(value) {
                Some(constant) => class.defaults.push((key, constant)),
                None => class.derived.push(key),
            }
        }
        class
    }

    /// Whether the class reads a key of `config.json`.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.defaults.iter().any(|(own, _)| *own == key) || self.derived.contains(&key)
    }
}

/// The class of a `model_type`; empty if transformers has none. `None` for a model type that the table
/// does not have.
pub(crate) fn class(model_type: &str) -> Option<&'static Class> {
    CLASSES.get(model_type)
}

impl Head {
    /// The parameters of which no stored name is that of the class. Files of a model alone have the names of its pooler without
    /// the first part.
    pub(crate) fn lacking(&self, stored: &HashSet<String>) -> impl Iterator<Item = &'static str> {
        let is_stored = |name: &str| {
            let bare = name.split_once('.').map_or(name, |(_, bare)| bare);
            stored.contains(name) || bare.contains("pooler.") && stored.contains(bare)
        };
        self.names.iter().copied().filter(move |name| !is_stored(name))
    }
}

/// The head of a class. `None` for a class without one, and for one that is not of transformers.
pub(crate) fn head(class: &str) -> Option<&'static Head> {
    HEADS.get(class)
}

/// A name in the files of a `model_type` as its class has it.
pub(crate) fn name_in_class<'n>(model_type: &str, name: &'n str) -> Cow<'n, str> {
    let starts = |(start, instead): &(&'static str, &'static str)| {
        let rest = name.strip_prefix(start)?;
        (rest.is_empty() || rest.starts_with('.')).then_some((start.len(), *instead, rest))
    };
    let rows = MODULES.get(model_type).into_iter().flatten();
    match rows.filter_map(starts).max_by_key(|(len, ..)| *len) {
        Some((_, instead, rest)) => Cow::Owned(format!("{instead}{rest}")),
        None => Cow::Borrowed(name),
    }
}

/// The parameters of the projector of a `model_type` that flags decide about.
pub(crate) fn projector_flags(model_type: &str) -> &'static [ProjectorFlag] {
    PROJECTORS.get(model_type).map_or(&[], |flags| flags)
}

/// The values that the class of a `model_type` takes for omitted keys.
pub(crate) fn defaults(model_type: &str) -> &'static [(&'static str, Constant)] {
    class(model_type).map_or(&[], |class| &class.defaults)
}

/// Whether the class of a `model_type` ties the output matrix to the embedding if `config.json` does
/// not say so. `None` if the table has no class for it.
pub(crate) fn ties_by_default(model_type: &str) -> Option<bool> {
    known(model_type).map(|class| class.ties)
}

/// Whether transformers has a class for a `model_type`.
pub(crate) fn has_class(model_type: &str) -> bool {
    known(model_type).is_some()
}

fn known(model_type: &str) -> Option<&'static Class> {
    class(model_type).filter(|class| !class.defaults.is_empty())
}

/// Whether a language model of this `model_type` has a causal class.
pub(crate) fn has_causal_class(model_type: &str) -> bool {
    READ.get(model_type).is_some()
}

/// The default of a key that changes what the causal class of a `model_type` computes, and none of its
/// tensors. `None` for other keys, and for a class that the table does not have.
pub(crate) fn computed(model_type: &str, key: &str) -> Option<Json> {
    let fields = READ.get(model_type)?;
    let [.., default] =
        fields.iter().find(|[name, change, _]| *name == key && *change == "logits")?;
    Json::parse(default.as_bytes()).ok()
}

/// The sizes that the class of a `model_type` has if its config states none.
pub(crate) fn sizes(model_type: &str) -> impl Iterator<Item = (&'static str, Json)> + use<'_> {
    const SIZES: [&str; 4] =
        ["hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers"];
    SIZES.into_iter().filter_map(|key| Some((key, default_of_read(model_type, key)?)))
}

/// The default of a field that the causal class of a `model_type` reads, whatever it changes.
fn default_of_read(model_type: &str, key: &str) -> Option<Json> {
    let [.., default] = READ.get(model_type)?.iter().find(|[name, ..]| *name == key)?;
    Json::parse(default.as_bytes()).ok()
}

/// The fields of the class of a `model_type` that have another name, which its config accepts as well: the other name, and
/// the field's.
pub(crate) fn other_names(
    model_type: &str,
) -> impl Iterator<Item = (&'static str, &'static str)> + use<'_> {
    let lines = READ.get(model_type).into_iter().flatten();
    lines.filter_map(|[other, change, field]| (*change == "is").then_some((*other, *field)))
}

/// Whether a value of `config.json` changes what the causal class of a `model_type` computes, compared with the
/// default of the class, and none of its tensors.
pub(crate) fn changes_logits(model_type: &str, key: &str, value: &Json) -> bool {
    let field = other_names(model_type).find(|(other, _)| *other == key);
    let field = field.map_or(key, |(_, field)| field);
    let Some(usual) = computed(model_type, field) else { return false };
    match (usual.as_f64(), value.as_f64()) {
        (Some(usual), Some(value)) => usual.to_bits() != value.to_bits(),
        _ => usual != *value && !(value.is_null() && usual.as_bool() == Some(false)),
    }
}

/// The rotary embeddings that the causal class of a `model_type` has if its config states none, where they
/// are more than a base.
pub(crate) fn rope_of_class(model_type: &str) -> Option<Json> {
    let rope = default_of_read(model_type, "rope_parameters")?;
    let is_default = rope.get("rope_type").and_then(Json::as_str) == Some("default");
    (!is_default || rope.as_object()?.len() > 2).then_some(rope)
}

/// Whether the causal class of a `model_type` reads a key with numbers of rotary embeddings that older files have, without
/// or beside an object of them.
pub(crate) fn reads_older(model_type: &str, key: &str, is_beside: bool) -> bool {
    let mut fields = READ.get(model_type).into_iter().flatten();
    let change = fields.find(|[name, ..]| *name == key).map(|[_, change, _]| *change);
    !(change == Some("nothing") || change == Some("scaling") && !is_beside)
}

/// Whether the causal class of a `model_type` rotates whole heads if nothing is scaled, although its rotary embeddings state a
/// part.
pub(crate) fn rotates_whole(model_type: &str) -> bool {
    !reads_older(model_type, "rope_parameters.partial_rotary_factor", true)
}

/// The kinds of this many layers that the causal class of a `model_type` derives if its config does not list
/// them: the first ones, a period, and the last ones.
pub(crate) fn kinds_of_layers(model_type: &str, n_layers: usize) -> Option<Json> {
    let kinds = default_of_read(model_type, "layer_types")?;
    let part = |name| kinds.get(name).and_then(Json::as_array);
    let (first, every, last) = (part("first")?, part("every")?, part("last")?);
    let others = first.iter().chain(every.iter().cycle());
    Some(others.take(n_layers.saturating_sub(last.len())).chain(last).cloned().collect())
}

/// The class of tokenizers with this name, or for this `model_type`.
pub(crate) fn tokenizer(name: &str) -> Option<&'static TokenizerClass> {
    TOKENIZERS.get(name.trim_end_matches("Fast"))
}

/// Whether transformers knows an activation (`ACT2FN`).
pub(crate) fn knows_activation(name: &str) -> bool {
    NAMES.get("activations").is_some_and(|names| names.contains(&name))
}

/// The keys that transformers requires of a kind of rope scaling (`ROPE_INIT_FUNCTIONS`). `None` for a
/// kind that it does not know.
pub(crate) fn rope_keys(kind: &str) -> Option<impl Iterator<Item = &'static str>> {
    let mut kinds = NAMES.get("rope_types")?.iter().map(|line| line.split(' '));
    kinds.find_map(|mut words| (words.next() == Some(kind)).then_some(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_their_defaults() {
        let llama = class("llama").expect("a class");
        assert!(llama.defaults.contains(&("rms_norm_eps", Constant::Real(1e-6))));
        assert_eq!(
            llama.derived,
            ["head_dim", "num_key_value_heads", "pad_token_id", "rope_parameters"]
        );
        assert!(llama.computes_head_width);
        assert_eq!([ties_by_default("llama"), ties_by_default("gemma")], [Some(false), Some(true)]);
        // A model type without a class, and one that the table does not have.
        assert!(class("xverse").is_some_and(|class| class.defaults.is_empty()));
        assert!(class("unheard-of").is_none() && ties_by_default("xverse").is_none());
    }

    #[test]
    fn classes_derive_kinds_of_layers() {
        let letters = |model_type, n_layers| -> String {
            let kinds = kinds_of_layers(model_type, n_layers).expect("a list");
            let first = |kind: &Json| kind.as_str().and_then(|kind| kind.chars().next());
            kinds.as_array().into_iter().flatten().filter_map(first).collect()
        };
        assert_eq!(letters("gemma2", 5), "sfsfs");
        assert_eq!([letters("flint", 8), letters("flint", 9)], ["ffsssfsf", "ffsssfssf"]);
        assert_eq!(kinds_of_layers("llama", 4), None);
    }

    #[test]
    fn classes_read_older_keys() {
        assert!(reads_older("llama", "rope_theta", false));
        // The class's own rotary embeddings have a base, and those of rope_scaling have none.
        assert!(!reads_older("apertus", "rope_theta", false));
        assert!(reads_older("apertus", "rope_theta", true));
        assert!(!reads_older("gpt_neox", "rope_theta", true));
        assert!(!reads_older("cohere2_moe", "rope_scaling", false));
    }

    #[test]
    fn classes_split_text() {
        let roberta = tokenizer("RobertaTokenizerFast").expect("a class");
        assert!(roberta.surrounds && roberta.normalizer.is_null());
        assert_eq!(roberta.pre_tokenizer["type"], "ByteLevel");
        let qwen = tokenizer("qwen3_moe").expect("a model type");
        assert!(!qwen.surrounds && qwen.normalizer["type"] == "NFC");
        assert!(tokenizer("LlamaTokenizer").is_none());
    }

    #[test]
    fn classes_have_other_names_than_files() {
        for (model_type, name, expected) in [
            ("qwen2_5_vl", "visual.blocks.0.norm1.weight", "model.visual.blocks.0.norm1.weight"),
            ("qwen2_5_vl", "model.norm.weight", "model.language_model.norm.weight"),
            ("qwen2_5_vl", "model.visual.merger.ln_q.weight", "model.visual.merger.ln_q.weight"),
            ("qwen2_5_vl", "visually", "visually"),
            ("llava", "language_model.model.norm.weight", "model.language_model.norm.weight"),
            ("llava", "language_model.lm_head.weight", "lm_head.weight"),
            ("llama", "model.norm.weight", "model.norm.weight"),
        ] {
            assert_eq!(name_in_class(model_type, name), expected, "{model_type} {name}");
        }
    }

    #[test]
    fn names_are_those_of_transformers() {
        assert!(knows_activation("silu") && !knows_activation("SiLU"));
        let keys: Vec<&str> = rope_keys("longrope").expect("a kind").collect();
        assert_eq!(keys, ["short_factor", "long_factor"]);
        assert_eq!(rope_keys("default").map(Iterator::count), Some(0));
        assert!(rope_keys("unheard-of").is_none());
    }
}
