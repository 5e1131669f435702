//! Finds what the files of families say of a name.

use super::families::Families;
use super::given;
use super::parse::families;
use super::table::{BUILTINS, builtin};
use super::towers::TOWERS;
use crate::arch::Architecture;
use crate::arch::config::{Defaults, OwnKeys};
use crate::arch::habits::{Exceptions, MlxModules};
use crate::arch::source::SourceModel;
use crate::arch::tower::{Tower, TowerConfig};
use crate::arch::variant::{Class, ConfigRule, Variant};
use crate::engines::transformers;

/// The contents of the files that mention a name, those that are given first.
fn files_of(name: &str) -> impl Iterator<Item = &'static Families> {
    let given = given::all().into_iter().filter(move |file| file.mentions(name));
    let builtin = BUILTINS.iter().filter(move |file| file.names.contains(&name));
    given.chain(builtin.map(|file| file.families(families)))
}

/// All supported architectures, those of given files first. A model of another architecture opens
/// under its stored names.
pub fn architectures() -> Vec<&'static Architecture> {
    let files = given::all().into_iter().chain(BUILTINS.iter().map(|file| file.families(families)));
    files.flat_map(|file| file.architectures.iter().copied()).collect()
}

/// The architecture of a model that states this name in GGUF or in `config.json`, or the name of an
/// architecture.
pub(crate) fn architecture(name: &str, is_gguf: bool) -> Option<&'static Architecture> {
    let mut rows = files_of(name).flat_map(|file| file.architectures.iter().copied());
    rows.find(|row| {
        let names = if is_gguf { row.gguf } else { row.hf };
        names.contains(&name) || row.name == name
    })
}

/// All variants of all architectures.
pub(crate) fn variants() -> impl Iterator<Item = &'static Variant> {
    architectures().into_iter().flat_map(|row| row.variants)
}

/// The variants of the files that mention a name, and then those without a family.
fn variants_of(name: &str) -> impl Iterator<Item = &'static Variant> {
    files_of(name).flat_map(|file| {
        file.architectures.iter().flat_map(|row| row.variants).chain(&file.nameless)
    })
}

/// The variant of GGUF files with this `general.architecture`: that of the family that they belong to, or
/// else of another one that is converted to it.
fn variant_in_gguf(gguf: &str) -> Option<&'static Variant> {
    let owned = architecture(gguf, true).into_iter().flat_map(|row| row.variants);
    owned.chain(variants_of(gguf)).find(|variant| variant.gguf == gguf)
}

/// All classes that a value of `general.architecture` may map to in `config.json`.
pub(crate) fn classes(gguf: &str) -> impl Iterator<Item = &'static Class> {
    variants_of(gguf)
        .filter(move |variant| variant.gguf == gguf)
        .flat_map(|variant| variant.classes)
}

/// The keys of GGUF, after the architecture's name, for a key of `config.json` that is in no field.
pub(crate) fn keys_in_gguf<'k>(
    gguf: &'k str,
    key: &'k str,
) -> impl Iterator<Item = &'static str> + use<'k> {
    let rules = classes(gguf).flat_map(|class| class.rules.iter().copied().flatten());
    rules.filter_map(move |rule| match rule {
        ConfigRule::Stated(gguf, path, _) if *path == key => Some(*gguf),
        _ => None,
    })
}

/// The class in `config.json` that a model maps to, which has a name of GGUF, or with `params.json` one of `config.json`.
pub(crate) fn class_of(model: &SourceModel<'_>) -> Option<&'static Class> {
    let name = model.architecture();
    let by_class = variants_of(name).filter(|variant| variant.hf.contains(&name));
    let mut classes = classes(name).chain(by_class.flat_map(|variant| variant.classes));
    classes.find(|class| class.fits(model))
}

/// The keys that only the family with this name reads, which is one in GGUF or in `config.json`.
pub(crate) fn own_keys(name: &str) -> OwnKeys {
    let rows = files_of(name).flat_map(|file| file.architectures.iter().copied());
    let mut named = rows.filter(|row| row.gguf.contains(&name) || row.hf.contains(&name));
    named.find(|row| !row.own_keys.0.is_empty()).map(|row| row.own_keys).unwrap_or_default()
}

/// Defaults for numbers that a model's files leave out, by the architecture's name in those files.
pub(crate) fn defaults(name: &str) -> Defaults {
    let (of_class, own_keys) = (transformers::defaults(name), own_keys(name));
    if let Some(variant) = variant_in_gguf(name) {
        let of_family = variant.defaults;
        return Defaults { of_class, of_family, has_gguf_name: true, own_keys };
    }
    if let Some(variant) = variants_of(name).find(|variant| variant.hf.contains(&name)) {
        let of_family = variant.defaults;
        return Defaults { of_class, of_family, has_gguf_name: false, own_keys };
    }
    // Families known only by the start of their names, such as `gemma*`.
    let is_kin = |variant: &&Variant| {
        variant.gguf.strip_suffix('*').is_some_and(|start| name.starts_with(start))
    };
    let kin =
        builtin(NAMELESS).and_then(|file| file.families(families).nameless.iter().find(is_kin));
    Defaults {
        of_class,
        of_family: kin.map(|kin| kin.defaults).unwrap_or_default(),
        has_gguf_name: false,
        own_keys,
    }
}

/// The file of models whose tensors have no canonical names.
const NAMELESS: &str = "others";

/// All kinds of vision models whose form in GGUF is known.
pub(crate) fn towers() -> impl Iterator<Item = &'static Tower> {
    TOWERS.iter()
}

/// The kind of a model's vision model, if its form in GGUF is known.
pub(crate) fn tower(config: &TowerConfig<'_>) -> Option<&'static Tower> {
    towers().find(|tower| config.is(tower))
}

/// Exceptions of llama-quantize for a value of `general.architecture`.
pub(crate) fn llama_quantize(gguf: &str) -> Exceptions {
    variant_in_gguf(gguf).map_or(Exceptions(&[]), |variant| variant.llama_quantize)
}

/// mlx-lm's choices for modules of a `model_type`; the first match applies.
pub(crate) fn mlx_modules(model_type: &str) -> impl Iterator<Item = &'static MlxModules> {
    let rows = architectures().into_iter().flat_map(|row| row.mlx_modules);
    let nameless = builtin(NAMELESS).into_iter().flat_map(|file| &file.families(families).modules);
    rows.chain(nameless).filter(move |row| row.models.contains(&model_type))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::config::key;
    use crate::arch::family::check::MADE;
    use crate::arch::variant::ConfigRule;
    use crate::engines::llama_cpp::graph;

    #[test]
    fn every_line_is_read_again_by_its_own_row() {
        let rows = architectures().into_iter();
        let variants = rows.flat_map(|row| row.variants.iter().map(move |variant| (row, variant)));
        let classes = variants
            .flat_map(|(row, variant)| variant.classes.iter().map(move |class| (row, class)));
        for (row, class) in classes {
            for rule in class.rules.iter().copied().flatten() {
                let (ConfigRule::Field(field, written) | ConfigRule::Needed(field, written)) = rule
                else {
                    continue;
                };
                if MADE.contains(field) {
                    continue;
                }
                let key =
                    key(field).unwrap_or_else(|| panic!("{}: no row {field}", class.model_type));
                let own = row.own_keys.and(key.name, key.json).any(|json| json == *written)
                    // Widths that the config shares between two fields.
                    || (*field, *written) == ("expert_ffn_dim", "intermediate_size")
                    || (*field, *written) == ("shared_expert_ffn_dim", "shared_intermediate_size");
                assert!(own, "{}: {field} is not read from {written}", class.model_type);
            }
        }
    }

    #[test]
    fn every_variant_but_whisper_has_a_graph() {
        // No model of a class is converted to an architecture that has no class.
        for variant in variants().filter(|variant| !variant.classes.is_empty()) {
            let has = graph(variant.gguf).is_some();
            assert_eq!(has, !matches!(variant.gguf, "" | "whisper"), "{}", variant.gguf);
        }
    }

    #[test]
    fn defaults_are_found_by_names() {
        let (gguf, hf) = (defaults("gemma3"), defaults("gemma3_text"));
        let period = |of: &Defaults| of.value("layer_pattern").and_then(|value| value.as_u64());
        assert_eq!((period(&gguf), period(&hf)), (Some(6), Some(6)));
        assert_eq!(gguf.value("activation"), Some("gelu_pytorch_tanh".into()));
        assert_eq!(hf.value("activation"), None, "its config.json states it");
        // Nothing but its kin is known of it.
        let other = defaults("gemma9");
        assert_eq!(other.value("scaled_embedding"), Some(true.into()));
        assert_eq!((period(&other), other.value("activation")), (None, None));
        assert_eq!(defaults("gptj").value("ffn_four_times"), Some(true.into()));
        assert_eq!(defaults("RefinedWeb").value("ffn_four_times"), None);
        assert_eq!(defaults("unheard-of").value("scaled_embedding"), None);
    }

    #[test]
    fn every_name_has_a_variant() {
        for row in architectures() {
            for name in row.hf {
                // A family that no engine of GGUF has is of no variant.
                let found = row.variants.iter().any(|variant| variant.hf.contains(name));
                assert!(found || row.gguf.is_empty(), "{}: {name}", row.name);
            }
            for name in row.gguf {
                let found = row.variants.iter().find(|variant| variant.gguf == *name);
                let variant = found.unwrap_or_else(|| panic!("{}: {name}", row.name));
                assert!(!variant.keys.is_empty(), "{}: {name}", row.name);
                let is_alone = row.hf.is_empty();
                assert!(is_alone || !variant.classes.is_empty(), "{}: {name}", row.name);
            }
            for variant in row.variants {
                // Some models of one architecture in Hugging Face's files are of another in GGUF.
                let known = match variant.gguf {
                    "" => variant.keys.is_empty(),
                    gguf => architectures().iter().any(|row| row.gguf.contains(&gguf)),
                };
                assert!(known, "{} is not of {}", variant.gguf, row.name);
                for name in variant.hf {
                    assert!(row.hf.contains(name), "{name} is not of {}", row.name);
                }
            }
        }
    }
}
