//! Facts about mlx-lm: its classes, what they require of `config.json`, and what they build otherwise
//! than transformers' classes.

use super::expression::{Check, Names};
use super::{Block, Table, table};
use crate::json::{Json, Map};

/// The class that runs a `model_type`.
#[derive(Debug, Default)]
pub(crate) struct Class {
    /// Keys that `config.json` must state: the class requires them, or assumes another value than
    /// transformers.
    pub(crate) stated: Vec<&'static str>,
    /// Keys that the class requires, and that every `config.json` states, but for the config of a text model in
    /// another one.
    pub(crate) sizes: Vec<&'static str>,
    /// Whether the class reads the newer `rope_parameters`.
    pub(crate) reads_rope_parameters: bool,
    /// Whether it runs text models inside of others only.
    inner: bool,
    /// Whether it requires the config of a text model (`text_config`).
    pub(crate) wraps: bool,
    /// Whether the class computes the width of a head from the others, whatever `config.json` states.
    pub(crate) derives_head_width: bool,
    untied: bool,
    tied: bool,
    /// Whether the output of attention has a bias where the flag of queries, keys and values is true.
    biases_output: bool,
    /// Whether no matrix has a bias.
    is_unbiased: bool,
    /// Flags of transformers' class that bring biases there, but not here.
    unbiased: Vec<&'static str>,
    ignored: Vec<&'static str>,
}

static CLASSES: Table<Class> = table!("mlx-lm/classes", Class::parse);

/// The requirements of the class of a `model_type` on the values in `config.json`.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    /// Otherwise it does not load the model.
    pub(crate) loads: Vec<Check>,
    /// Otherwise it computes something else.
    pub(crate) computes: Vec<Check>,
    /// Otherwise nothing is written for it.
    pub(crate) refuses: Vec<Check>,
    /// Parts of names of tensors that it ignores, and the fault if they are not zero.
    pub(crate) drops: Vec<(&'static str, &'static str)>,
}

static CONDITIONS: Table<Conditions> = table!("mlx-lm/conditions", Conditions::parse);

impl Conditions {
    fn parse(block: Block) -> Self {
        let mut conditions = Self::default();
        for line in block.lines() {
            let understood = conditions.add(line);
            debug_assert!(understood.is_some(), "{}: {line}", block.first);
        }
        conditions
    }

    pub(super) fn add(&mut self, line: &'static str) -> Option<()> {
        let (kind, rest) = line.split_once(' ')?;
        if kind == "drops" {
            self.drops.push(rest.split_once(" else ")?);
            return Some(());
        }
        let checks = match kind {
            "loads" => &mut self.loads,
            "computes" => &mut self.computes,
            "refuses" => &mut self.refuses,
            _ => return None,
        };
        checks.push(Check::parse(rest, &Names::new())?);
        Some(())
    }
}

/// The conditions of the class of a `model_type`.
pub(crate) fn conditions(model_type: &str) -> impl Iterator<Item = &'static Conditions> {
    CONDITIONS.all(model_type).chain(CONDITIONS.all("*"))
}

impl Class {
    fn parse(block: Block) -> Self {
        let mut class = Self::default();
        for word in block.words() {
            match word {
                "inner" => class.inner = true,
                "wraps" => class.wraps = true,
                "untied" => class.untied = true,
                "tied" => class.tied = true,
                "unbiased" => class.is_unbiased = true,
                "heads=derived" => class.derives_head_width = true,
                "biased=output" => class.biases_output = true,
                "reads=rope_parameters" => class.reads_rope_parameters = true,
                _ => {
                    class.unbiased.extend(word.strip_prefix("unbiased="));
                    let ignored = word.strip_prefix("ignores=").map(|keys| keys.split(','));
                    class.ignored.extend(ignored.into_iter().flatten());
                }
            }
        }
        for line in block.lines() {
            let is_size = line.ends_with(" required stated");
            let keys = if is_size { &mut class.sizes } else { &mut class.stated };
            keys.extend(line.split(' ').next());
        }
        class
    }
}

/// The class of a `model_type`.
pub(crate) fn class(model_type: &str) -> Option<&'static Class> {
    CLASSES.get(model_type)
}

/// Whether mlx-lm has a class for models of a `model_type`.
pub(crate) fn has_class(model_type: &str) -> bool {
    class(model_type).is_some_and(|class| !class.inner)
}

/// Whether the class of a `model_type` has an output matrix of its own, even if the model ties it to
/// the embedding.
pub(crate) fn is_untied(model_type: &str) -> bool {
    class(model_type).is_some_and(|class| class.untied)
}

/// Whether the class of a `model_type` has no output matrix, and always uses the embedding.
pub(crate) fn is_tied(model_type: &str) -> bool {
    class(model_type).is_some_and(|class| class.tied)
}

/// Whether the class of a `model_type` has no biases although transformers' class has, if this flag is
/// true.
pub(crate) fn is_unbiased(model_type: &str, flag: &str) -> bool {
    let is_of_biases = flag.ends_with("bias");
    class(model_type)
        .is_some_and(|class| class.is_unbiased && is_of_biases || class.unbiased.contains(&flag))
}

/// Whether no matrix of the class of a `model_type` has a bias.
pub(crate) fn has_no_biases(model_type: &str) -> bool {
    class(model_type).is_some_and(|class| class.is_unbiased)
}

/// Whether the class of a `model_type` requires a bias of the output of attention if queries have one.
pub(crate) fn biases_output(model_type: &str) -> bool {
    class(model_type).is_some_and(|class| class.biases_output)
}

/// The keys that change the logits of transformers' class of a `model_type`, and that mlx-lm's class does not
/// read. Those that begin with `rope.` are numbers of rotary embeddings.
pub(crate) fn ignored(model_type: &str) -> &'static [&'static str] {
    class(model_type).map_or(&[], |class| &class.ignored)
}

/// The faults of a config by checks of its class. Those of the numbers of rotary embeddings are asked for each object
/// that holds some.
pub(crate) fn faults(
    checks: impl Iterator<Item = &'static Check>,
    text: &Map<String, Json>,
) -> Vec<&'static str> {
    let stated: Vec<_> = ropes(text).map(Some).collect();
    let each = if stated.is_empty() { vec![None] } else { stated };
    checks.filter_map(|check| each.iter().find_map(|rope| check.fault_of(text, *rope))).collect()
}

/// The objects with numbers of rotary embeddings that `config.json` states.
pub(crate) fn ropes(text: &Map<String, Json>) -> impl Iterator<Item = &Map<String, Json>> {
    let whole = objects(text, ["rope_parameters", "rope_scaling"]);
    whole.flat_map(|rope| objects(rope, ["full_attention", "sliding_attention"]).chain([rope]))
}

fn objects<'c>(
    map: &'c Map<String, Json>,
    names: [&'static str; 2],
) -> impl Iterator<Item = &'c Map<String, Json>> {
    names.into_iter().filter_map(move |name| map.get(name).and_then(Json::as_object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_of_classes() {
        for block in Block::each(CONDITIONS.blocks) {
            for name in block.names() {
                assert!(name == "*" || class(name).is_some(), "{name}");
                assert!(conditions(name).count() > 0, "{name}");
            }
        }
    }

    #[test]
    fn conditions_refuse_what_a_class_lacks() {
        let first = |text: &str| {
            let config = Json::parse(text.as_bytes()).expect("JSON");
            let config = config.as_object().expect("an object");
            let model_type = config.get("model_type").and_then(Json::as_str).expect("a text");
            let checks = conditions(model_type).flat_map(|one| &one.refuses);
            faults(checks, config).into_iter().next()
        };
        for (config, fault) in [
            (r#"{"model_type": "gpt_neox", "hidden_size": 8, "intermediate_size": 32}"#, None),
            (r#"{"model_type": "gpt_neox", "hidden_size": 8}"#, Some("a network of another")),
            (r#"{"model_type": "gpt_neox", "hidden_act": "relu"}"#, Some("an activation other")),
            (r#"{"model_type": "gpt_neox", "hidden_act": "gelu_fast"}"#, None),
            (r#"{"model_type": "gpt_neox", "attention_bias": false}"#, Some("attention without")),
            (
                r#"{"model_type": "gpt_neox", "rope_scaling": {"type": "linear", "factor": 2}}"#,
                Some("scaled positions"),
            ),
            (r#"{"model_type": "gpt_neox", "rope_parameters": {"rope_type": "default"}}"#, None),
            (r#"{"model_type": "gpt_bigcode", "scale_attn_weights": true}"#, None),
            (
                r#"{"model_type": "gpt_bigcode", "scale_attn_weights": false}"#,
                Some("scores that are not scaled"),
            ),
            (r#"{"model_type": "bitnet"}"#, Some("matrices that are not packed in two bits")),
        ] {
            let found = first(config);
            assert_eq!(found.is_some(), fault.is_some(), "{config}: {found:?}");
            assert!(found.unwrap_or_default().starts_with(fault.unwrap_or_default()), "{found:?}");
        }
    }

    #[test]
    fn classes_require_keys() {
        let llama = class("llama").expect("a class");
        assert_eq!(
            llama.stated,
            ["head_dim", "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings"]
        );
        assert!(llama.sizes.contains(&"num_attention_heads"));
        assert!(is_tied("gemma") && is_untied("deepseek_v3"));
        assert!(has_no_biases("qwen3") && is_unbiased("qwen3", "attention_bias"));
        assert!(!is_unbiased("step3p5", "use_qk_norm"));
        assert!(!has_no_biases("qwen2"));
        assert!(biases_output("llama") && !biases_output("qwen2"));
        assert_eq!(ignored("cohere"), ["hidden_act", "rope.factor", "rope.partial_rotary_factor"]);
        // The class declares rope_scaling and does not use it.
        assert!(ignored("qwen3_moe").contains(&"rope.factor"));
        // The text model of Qwen 3.5 has a class inside of that of the whole model.
        assert!(has_class("qwen3_5") && !has_class("qwen3_5_text"));
        assert!(class("qwen3_5_text").is_some_and(|class| !class.stated.is_empty()));
        let wraps = |name| class(name).is_some_and(|class| class.wraps);
        assert!(wraps("llava") && !wraps("qwen3_5") && !wraps("llama"));
    }
}
