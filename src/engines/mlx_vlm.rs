//! Facts about mlx-vlm, which runs models with vision and audio models: what its classes read otherwise than those of
//! mlx-lm or of transformers.

use super::{Block, Table, table};
use crate::bytes::Text;
use crate::json::{Json, Map};

/// The class that runs the models of a `model_type`, the one of the whole model.
#[derive(Debug, Default)]
pub(crate) struct Class {
    /// Whether the class has an output matrix of its own, even if the model ties it to the embedding.
    pub(crate) is_untied: bool,
    /// Whether it has keys and values of latent attention in one matrix, which mlx-lm's has in two.
    pub(crate) joins_latent: bool,
    /// Whether the class has no other names than transformers'.
    pub(crate) keeps_names: bool,
    /// Whether those of the language model begin with `language_model.`, where transformers has `model.text_model.`.
    pub(crate) renames_text: bool,
    /// Whether those of the vision model have `vision_model.`.
    pub(crate) wraps_tower: bool,
    /// Whether those of the vision model begin with `vision_tower.`, where transformers has `visual.`.
    pub(crate) renames_visual: bool,
    /// Whether the keys of the language model are read at the top of `config.json`.
    pub(crate) is_flat: bool,
    /// The only `model_type` of the vision model.
    vision: Option<&'static str>,
    /// Keys that objects of `config.json` must have: the object, the key and its value, as JSON.
    required: Vec<(&'static str, &'static str, &'static str)>,
    /// The only values of keys of objects with which the class loads a model.
    values: Vec<(&'static str, &'static str, Vec<&'static str>)>,
    /// The only keys that objects may have.
    only: Vec<(&'static str, Vec<&'static str>)>,
}

static CLASSES: Table<Class> = table!("mlx-vlm/classes", Class::parse);

/// The class of a `model_type`, which counts without its case.
pub(crate) fn class(model_type: &str) -> Option<&'static Class> {
    CLASSES.get(&model_type.to_ascii_lowercase())
}

/// The class of the model that a `config.json` describes.
pub(crate) fn class_of(config: &Map<String, Json>) -> Option<&'static Class> {
    class(config.get("model_type")?.as_str()?)
}

impl Class {
    fn parse(block: Block) -> Self {
        let mut class = Self::default();
        for word in block.words() {
            match word {
                "head=own" => class.is_untied = true,
                "latent=joined" => class.joins_latent = true,
                "names=kept" => class.keeps_names = true,
                "text=renamed" => class.renames_text = true,
                "tower=wrapped" => class.wraps_tower = true,
                "visual=renamed" => class.renames_visual = true,
                "config=flat" => class.is_flat = true,
                _ => {
                    class.vision = word.strip_prefix("vision=");
                    debug_assert!(class.vision.is_some(), "{}: {word}", block.first);
                }
            }
        }
        for line in block.lines() {
            let mut words = line.split(' ');
            let (object, key) = (words.next(), words.next());
            let (object, key) = (object.unwrap_or_default(), key.unwrap_or_default());
            match (key, words.next()) {
                ("only", first) => {
                    class.only.push((object, first.into_iter().chain(words).collect()));
                }
                (key, Some("in")) => {
                    let values = words.next().unwrap_or_default().split(',').collect();
                    class.values.push((object, key, values));
                }
                (key, value) => class.required.push((object, key, value.unwrap_or_default())),
            }
        }
        class
    }

    /// Moves the keys of the language model to the top of a `config.json`, in the form that transformers 4 saved, if the
    /// class reads them there alone.
    pub(crate) fn flatten(&self, config: &mut Map<String, Json>) {
        const TEXT: &str = "text_config";
        if !self.is_flat || !config.get(TEXT).is_some_and(Json::is_object) {
            return;
        }
        let Some(Json::Object(text)) = config.remove(TEXT) else { return };
        for (key, value) in text.iter().filter(|(key, _)| *key != "rope_parameters") {
            if !config.contains_key(key) {
                config.insert(key.clone(), value.clone());
            }
        }
        let Some(Json::Object(mut rope)) = text.get("rope_parameters").cloned() else { return };
        if let Some(theta) = rope.remove("rope_theta") {
            config.insert("rope_theta", theta);
        }
        if let Some(kind) = rope.get("rope_type").cloned() {
            rope.insert("type", kind);
        }
        if config.get("rope_scaling").is_none_or(Json::is_null) {
            config.insert("rope_scaling", Json::Object(rope));
        }
    }

    /// The reason why the class does not load a model with a `config.json`, if one is known.
    pub(crate) fn fault(&self, config: &Map<String, Json>) -> Option<String> {
        if self.joins_latent {
            return Some("has kv_b_proj, which mlx-lm splits".to_owned());
        }
        self.values.iter().find_map(|(object, key, values)| {
            let stated = config.get(object)?.get(key)?.as_str()?;
            let fault = || {
                let stated = Text::new(stated.as_bytes()).brief();
                format!("requires {key} of {object} to be {}, not {stated}", values.join(" or "))
            };
            (!values.contains(&stated)).then(fault)
        })
    }

    /// Makes a `config.json` one that the class reads. The keys of the language model are in it as mlx-lm reads them.
    pub(crate) fn adapt(&self, config: &mut Map<String, Json>) {
        if let Some(vision) = self.vision
            && let Some(Json::Object(object)) = config.get_mut("vision_config")
            && let Some(stated) = object.get_mut("model_type")
            && stated.as_str().and_then(|name| name.strip_suffix("_vision")) == Some(vision)
        {
            *stated = vision.into();
        }
        for (object, key, value) in &self.required {
            let Some(Json::Object(object)) = config.get_mut(object) else { continue };
            if object.get(key).is_none_or(Json::is_null) {
                let of_rope = object.get("rope_parameters").and_then(|rope| rope.get(key)).cloned();
                let value = of_rope.or_else(|| Json::parse(value.as_bytes()).ok());
                object.extend(value.map(|value| ((*key).to_owned(), value)));
            }
        }
        for name in ["text_config", "vision_config"] {
            let Some(Json::Object(object)) = config.get_mut(name) else { continue };
            let lines = || self.only.iter().filter(|(object, _)| *object == name);
            if lines().next().is_some() {
                object.retain(|key, _| lines().any(|(_, keys)| keys.contains(&key.as_str())));
            }
        }
    }

    /// The name of a tensor of the vision model in the class, or the one that transformers has.
    pub(crate) fn of_vision_model(&self, name: &str, in_class: bool) -> Option<String> {
        const NAMES: [&str; 2] = ["visual.", "vision_tower."];
        let [from, to] = if in_class { NAMES } else { [NAMES[1], NAMES[0]] };
        if self.renames_visual {
            return Some(format!("{to}{}", name.strip_prefix(from)?));
        }
        let rest = name.strip_prefix(NAMES[1]).filter(|_| self.wraps_tower && in_class)?;
        (!rest.starts_with("vision_model.")).then(|| format!("vision_tower.vision_model.{rest}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configs_are_those_of_the_class() {
        let adapted = |text: &str| {
            let config = Json::parse(text.as_bytes()).expect("JSON");
            let mut config = config.as_object().expect("an object").clone();
            class_of(&config).expect("a class").adapt(&mut config);
            Json::Object(config).to_string()
        };
        for (config, expected) in [
            (
                r#"{"model_type":"qwen3_vl","vision_config":{"model_type":"qwen3_vl_vision"}}"#,
                r#"{"model_type":"qwen3_vl","vision_config":{"model_type":"qwen3_vl"}}"#,
            ),
            (
                r#"{"model_type":"llama4","vision_config":{"rope_parameters":{"rope_theta":5.0}}}"#,
                r#"{"model_type":"llama4","vision_config":{"rope_parameters":{"rope_theta":5.0},"rope_theta":5.0,"vision_feature_layer":-1}}"#,
            ),
            (
                r#"{"model_type":"glm_ocr","text_config":{"head_dim":8,"rope_theta":5.0},"vision_config":{"depth":2,"dtype":"float32"}}"#,
                r#"{"model_type":"glm_ocr","text_config":{"head_dim":8},"vision_config":{"depth":2}}"#,
            ),
        ] {
            assert_eq!(adapted(config), expected);
        }
    }

    #[test]
    fn vision_models_have_the_names_of_the_class() {
        let named = |model_type, name, in_class| {
            class(model_type).expect("a class").of_vision_model(name, in_class)
        };
        let is = |name: &str| Some(name.to_owned());
        assert_eq!(named("qwen3_vl", "visual.blocks.0", true), is("vision_tower.blocks.0"));
        assert_eq!(named("qwen3_vl", "vision_tower.blocks.0", false), is("visual.blocks.0"));
        assert_eq!(named("llava", "vision_tower.norm", true), is("vision_tower.vision_model.norm"));
        assert_eq!(named("llava", "vision_tower.vision_model.norm", true), None);
        assert_eq!(named("llava", "vision_tower.vision_model.norm", false), None);
        assert_eq!(named("idefics3", "vision_tower.norm", true), None);
    }
}
