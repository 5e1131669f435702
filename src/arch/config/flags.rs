//! Flags of `config.json` that say which tensors the layers of a model have.

use crate::json::{Json, Map};

use crate::engines::transformers;

/// Flags of transformers' and mlx-lm's classes, and the ends of the canonical names of the tensors that a
/// class builds if the flag is true. A layer has one of them.
const FLAGS: &[(&str, &[&str])] = &[
    ("attention_bias", &[".attention.q.bias"]),
    ("mlp_bias", &[".ffn.up.bias"]),
    ("use_bias", &[".attention.q.bias", ".ssm.in.bias"]),
    ("use_qk_norm", &[".attention.q_norm.weight"]),
    ("qkv_bias", &[".attention.q.bias"]),
    ("use_qkv_bias", &[".attention.q.bias"]),
    ("qk_layernorm", &[".attention.q_norm.weight"]),
    ("conv_bias", &[".short_conv.bias"]),
    ("use_conv_bias", &[".ssm.conv.bias"]),
    ("mamba_conv_bias", &[".ssm.conv.bias"]),
    ("mamba_proj_bias", &[".ssm.in.bias"]),
];

/// A flag that a class reads, and what it and the tensors say.
#[derive(Debug)]
pub(crate) struct TensorFlag<'a> {
    pub(crate) key: &'static str,
    /// The flag: as the document states it, or the default of transformers' class.
    pub(crate) value: bool,
    /// Whether the document states it.
    pub(crate) stated: bool,
    /// The canonical name of a tensor that a class has only if the flag is true.
    pub(crate) tensor: Option<&'a str>,
    /// The end of the names of such tensors.
    pub(crate) end: &'static str,
}

impl TensorFlag<'_> {
    /// Whether the flag contradicts the tensors.
    pub(crate) fn is_wrong(&self) -> bool {
        self.value != self.tensor.is_some()
    }
}

/// The flags that a `config.json` states or leaves to the default of its class. `names` are the canonical
/// names of the model's tensors.
pub(crate) fn tensor_flags<'a>(
    text: &Map<String, Json>,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Vec<TensorFlag<'a>> {
    let model_type = text.get("model_type").and_then(Json::as_str).unwrap_or_default();
    let defaults = transformers::defaults(model_type);
    let flag = |(key, ends): &(&'static str, &'static [&'static str])| {
        let stated = text.get(key).and_then(Json::as_bool);
        let default = defaults.iter().find(|(name, _)| name == key);
        let value = stated.or_else(|| Json::from(default?.1).as_bool())?;
        // A flag of norms without factors, for example, is true although no layer has a tensor.
        if transformers::computed(model_type, key).is_some() {
            return None;
        }
        let mut of_layers = names.clone().filter(|name| name.starts_with("layers."));
        // A hybrid class may have no layer of one of its kinds.
        let part = |end: &str| end.split_inclusive('.').take(2).map(str::len).sum();
        let parts = ends.iter().filter_map(|end| end.get(..part(end)));
        if !of_layers.clone().any(|name| parts.clone().any(|part| name.contains(part))) {
            return None;
        }
        let tensor = of_layers.find(|name| ends.iter().any(|end| name.ends_with(end)));
        let end = ends.first().copied().unwrap_or_default();
        Some(TensorFlag { key, value, stated: stated.is_some(), tensor, end })
    };
    FLAGS.iter().filter_map(flag).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn norms_without_factors_and_kinds_without_layers_have_no_tensors() {
        let keys = |model_type: &str| {
            let text = json!({
                "model_type": model_type, "use_qk_norm": true, "mamba_conv_bias": true,
            });
            let Json::Object(text) = text else { unreachable!("an object") };
            let flags = tensor_flags(&text, ["layers.0.attention.q.weight"].into_iter());
            let wrong = flags.iter().filter(|flag| flag.is_wrong());
            wrong.map(|flag| flag.key).collect::<Vec<_>>()
        };
        assert_eq!(keys("sarvam_moe"), ["use_qk_norm"]);
        assert!(keys("llama4_text").is_empty());
    }
}
