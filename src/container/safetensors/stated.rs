//! Statements of the documents next to the weights about a checkpoint's quantization.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::dtype::DType;
use crate::json::Json;
use crate::store::folder::QUANTIZATION_DOCUMENTS;
use crate::store::{Document, Store};

/// The objects of `config.json` that may describe quantization, for the whole model or for the language
/// model in it.
const MODELS: &[&str] = &["", "/text_config", "/llm_config", "/language_config"];

/// The keys of that description. The second is of compressed-tensors' older releases.
const KEYS: &[&str] = &["quantization_config", "compression_config"];

/// The keys that name a scheme, and what distinguishes its variants.
const NAMES: &[&str] = &[
    "/quant_method",
    "/quant_algo",
    "/quant_type",
    "/quantization_mode",
    "/version",
    "/format",
    "/packing_format",
    "/checkpoint_format",
    "/sparsity_config/format",
    "/qformat_weight",
    "/weights",
];

/// The keys that list modules which stay as they are.
const EXEMPT: &[&str] = &[
    "modules_to_not_convert",
    "ignore",
    "ignored_layers",
    "exclude",
    "exclude_modules",
    "skip_modules",
    "llm_int8_skip_modules",
];

/// The description of a scheme in a document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Description<'d> {
    /// The name of the document.
    pub(super) document: &'d str,
    /// The object that has the description in it, and the key.
    pub(super) path: (&'static str, &'static str),
    pub(super) json: &'d Json,
}

impl<'d> Description<'d> {
    /// What it says under a pointer. A null says nothing.
    pub(super) fn get(&self, pointer: &str) -> Option<&'d Json> {
        self.json.pointer(pointer).filter(|value| !value.is_null())
    }
}

/// The scheme that documents state. What the first does not say, another one may.
#[derive(Debug)]
pub(super) struct StatedScheme<'d> {
    descriptions: Vec<Description<'d>>,
    /// The modules that are not quantized.
    exempt: Modules<'d>,
    /// Those that a group of compressed-tensors quantizes.
    targets: Modules<'d>,
    /// The transforms that the model computes as it runs.
    transforms: Vec<Transform<'d>>,
}

/// A transform of the inputs or outputs of modules.
#[derive(Debug)]
struct Transform<'d> {
    name: &'d str,
    targets: Modules<'d>,
    ignored: Modules<'d>,
}

impl<'d> StatedScheme<'d> {
    /// The scheme that the model's documents state; `None` if they state none.
    pub(super) fn of(documents: &'d [Document]) -> Option<Self> {
        let descriptions: Vec<Description<'_>> = documents.iter().filter_map(description).collect();
        // ModelOpt names the modules in either of its documents.
        let lists = descriptions.iter().flat_map(|Description { json, .. }| {
            EXEMPT.iter().filter_map(|key| json.get(key)?.as_array())
        });
        let exempt = Modules::of(lists.flatten());
        let mut stated =
            Self { descriptions, exempt, targets: Modules::of([]), transforms: Vec::new() };
        let groups = stated.get("/config_groups").and_then(Json::as_object);
        let groups = groups.into_iter().flat_map(|groups| groups.iter());
        let targets = groups.filter_map(|(_, group)| group.get("targets")?.as_array()).flatten();
        stated.targets = Modules::of(targets);
        stated.transforms = stated.transforms_at_run_time();
        (!stated.descriptions.is_empty()).then_some(stated)
    }

    /// The descriptions, in the order in which they count.
    pub(super) fn descriptions(&self) -> &[Description<'d>] {
        &self.descriptions
    }

    /// A text or number of the first description that has it.
    pub(super) fn get(&self, pointer: &str) -> Option<&'d Json> {
        self.descriptions.iter().find_map(|description| description.get(pointer))
    }

    /// The document whose description has it.
    pub(super) fn document(&self, pointer: &str) -> Option<&'d str> {
        let mut all = self.descriptions.iter();
        Some(all.find(|description| description.get(pointer).is_some())?.document)
    }

    /// The first of these pointers under which two descriptions say different things, in words.
    pub(super) fn contradiction(&self, pointers: &[&str]) -> Option<String> {
        pointers.iter().find_map(|pointer| {
            let said = |it: &Description<'d>| Some((it.document, it.get(pointer)?));
            let mut all = self.descriptions.iter().filter_map(said);
            let (first, value) = all.next()?;
            let (second, other) = all.find(|(_, other)| !is_same(value, other))?;
            let key = pointer.trim_start_matches('/');
            Some(format!("{first} says {key} {value}, {second} says {other}"))
        })
    }

    /// Whether the description has this text.
    pub(super) fn says(&self, pointer: &str, text: &str) -> bool {
        let stated = self.get(pointer).and_then(Json::as_str);
        stated.is_some_and(|stated| stated.eq_ignore_ascii_case(text))
    }

    /// Whether a module stays as it is. Names are compared by their parts, since the names in the list may
    /// have other prefixes than the tensors.
    pub(super) fn exempts(&self, module: &[u8]) -> bool {
        let Ok(module) = std::str::from_utf8(module) else { return false };
        self.exempt.contains(module)
    }

    /// The transforms of inputs and outputs in compressed-tensors' description. Those that are a part of the weights, or
    /// that cancel in attention, change no value.
    fn transforms_at_run_time(&self) -> Vec<Transform<'d>> {
        let schemes = self.get("/transform_config/config_groups").and_then(Json::as_object);
        let schemes = schemes.into_iter().flat_map(|schemes| schemes.iter());
        let all = schemes.flat_map(|(name, scheme)| {
            let each = scheme.get("apply").and_then(Json::as_array);
            each.into_iter().flatten().map(move |arguments| (name.as_str(), arguments))
        });
        let is_online = |(_, arguments): &(&str, &Json)| {
            let location = arguments.get("location").and_then(Json::as_str);
            matches!(location, Some("input" | "output"))
        };
        let modules = |arguments: &'d Json, key: &str| {
            Modules::of(arguments.get(key).and_then(Json::as_array).into_iter().flatten())
        };
        let transform = |(name, arguments)| Transform {
            name,
            targets: modules(arguments, "targets"),
            ignored: modules(arguments, "ignore"),
        };
        all.filter(is_online).map(transform).collect()
    }

    /// The transform of a module's inputs or outputs that the model computes as it runs.
    pub(super) fn transform(&self, module: &[u8]) -> Option<&'d str> {
        let module = std::str::from_utf8(module).ok()?;
        let mut all = self.transforms.iter();
        let found = all.find(|it| it.targets.contains(module) && !it.ignored.contains(module));
        found.map(|transform| transform.name)
    }

    /// The words that name the scheme, with the document: `awq, gemv (config.json)`.
    pub(super) fn name(&self) -> String {
        let (mut words, mut documents) = (Vec::<&str>::new(), Vec::new());
        for pointer in NAMES {
            let said = |it: &Description<'d>| Some((it.document, it.get(pointer)?));
            let found = self.descriptions.iter().find_map(said);
            let Some((document, word)) =
                found.and_then(|(name, word)| Some((name, word.as_str()?)))
            else {
                continue;
            };
            // A version in digits distinguishes no packing.
            let is_number = word.starts_with(|c: char| c.is_ascii_digit());
            if !(word.is_empty() || is_number || words.iter().any(|w| w.eq_ignore_ascii_case(word)))
            {
                words.push(word);
                documents.push(document);
            }
        }
        documents.dedup();
        if documents.is_empty() {
            documents.extend(self.descriptions.first().map(|first| first.document));
        }
        let documents = documents.join(", ");
        for (key, word) in [("load_in_4bit", "bitsandbytes"), ("load_in_8bit", "bitsandbytes")] {
            if words.is_empty() && self.get(&format!("/{key}")).is_some() {
                words.push(word);
            }
        }
        match words.is_empty() {
            true => format!("an unnamed scheme ({documents})"),
            false => format!("{} ({documents})", words.join(", ")),
        }
    }
}

/// The description of ModelSlim, whose codes are not read.
pub(super) const MODEL_SLIM: &str = "quant_model_description.json";

/// Whether two values say the same.
fn is_same(one: &Json, other: &Json) -> bool {
    match (one.as_str(), other.as_str()) {
        (Some(one), Some(other)) => one.eq_ignore_ascii_case(other),
        _ => one == other,
    }
}

/// The description of a scheme in a document.
fn description(document: &Document) -> Option<Description<'_>> {
    let (name, json) = (document.name.as_str(), &document.json);
    let mut path = ("", "");
    let found = match name {
        "config.json" => {
            let paths = MODELS.iter().flat_map(|model| KEYS.iter().map(move |key| (*model, *key)));
            paths.into_iter().find_map(|(model, key)| {
                path = (model, key);
                json.pointer(&format!("{model}/{key}")).filter(|found| !found.is_null())
            })
        }
        // Mistral's own file.
        "params.json" => json.get("quantization"),
        "hf_quant_config.json" => Some(json.get("quantization").unwrap_or(json)),
        MODEL_SLIM => None,
        _ if QUANTIZATION_DOCUMENTS.contains(&name) => Some(json),
        _ => None,
    };
    let json = found.filter(|found| !found.is_null())?;
    Some(Description { document: name, path, json })
}

/// The scheme that the documents state although every array is plain: a model that was decoded, with the config of
/// before. A description of the cache, or of a quantization while the model runs, is still true.
pub(crate) fn left_over(store: &Store) -> Option<String> {
    const STILL_TRUE: [&str; 3] = ["kv_cache_scheme", "kv_cache_quant_algo", "quantization_mode"];
    let stated = StatedScheme::of(store.documents())?;
    let is_true = |key: &&str| stated.get(&format!("/{key}")).is_some();
    let is_plain = |dtype| matches!(dtype, Ok(DType::F64 | DType::F32 | DType::F16 | DType::BF16));
    let all_plain = store.tensors().all(|tensor| is_plain(tensor.dtype()));
    let is_left = !store.is_empty() && all_plain && store.check_known().is_ok();
    (is_left && !has_unapplied_scales(store) && !STILL_TRUE.iter().any(is_true))
        .then(|| stated.name())
}

/// Whether numbers are stored with the scales of a quantization that is not applied to them, which compressed-tensors calls
/// dense.
pub(super) fn has_unapplied_scales(store: &Store) -> bool {
    let is_dense = |stated: StatedScheme<'_>| stated.says("/format", "dense");
    let is_scale = |name: &str| SCALES.iter().any(|scale| name.ends_with(scale));
    StatedScheme::of(store.documents()).is_some_and(is_dense)
        && store.tensors().any(|tensor| is_scale(&tensor.name().spelling()))
}

/// Matrices that are stored unquantized although their modules are quantized.
#[derive(Debug)]
pub(crate) struct StoredUnquantized {
    /// The first one.
    pub(crate) tensor: String,
    /// Its dtype, and what says that it is quantized.
    why: String,
    others: usize,
}

impl StoredUnquantized {
    /// The fault, and its consequence in transformers.
    pub(crate) fn fault(&self) -> String {
        let more = match self.others {
            0 => String::new(),
            others => format!(", and so are {others} more"),
        };
        let Self { tensor, why, .. } = self;
        format!("{tensor} is stored unquantized, {why}{more}")
    }
}

/// The names of scales next to weights that are codes.
const SCALES: [&str; 2] = ["weight_scale", "weight_scale_inv"];

/// The matrices that are stored as they are although the config says that their modules are quantized: next to a scale,
/// or where other layers have codes, as an interrupted quantization leaves them.
pub(crate) fn stored_unquantized(store: &Store) -> Option<StoredUnquantized> {
    let stated = StatedScheme::of(store.documents()).filter(|it| !it.says("/format", "dense"))?;
    if matches!(stated.exempt.expressions, Expressions::NotUnderstood) {
        return None;
    }
    let is_plain = |dtype| matches!(dtype, DType::F64 | DType::F32 | DType::F16 | DType::BF16);
    let module = |name: &str| name.strip_suffix(".weight").map(str::to_owned);
    let last = |module: &str| module.rsplit('.').next().unwrap_or_default().to_owned();
    let (mut plain, mut quantized) = (Vec::new(), HashSet::new());
    for tensor in store.tensors().filter(|tensor| tensor.shape().len() == 2) {
        let (Some(module), Ok(dtype)) = (module(&tensor.name().spelling()), tensor.dtype()) else {
            continue;
        };
        match is_plain(dtype) {
            true if !stated.exempts(module.as_bytes()) => plain.push((module, dtype)),
            true => {}
            false => {
                quantized.insert(last(&module));
            }
        }
    }
    let why = |(module, dtype): (String, DType)| {
        let scale = SCALES.iter().find(|scale| store.find(&format!("{module}.{scale}")).is_some());
        let why = match scale {
            Some(scale) => format!("{dtype} next to {scale}"),
            None if quantized.contains(&last(&module)) && stated.targets.contains(&module) => {
                format!("{dtype}, although {} quantizes its module", stated.name())
            }
            None => return None,
        };
        Some((format!("{module}.weight"), why))
    };
    let mut found = plain.into_iter().filter_map(why);
    let (tensor, why) = found.next()?;
    Some(StoredUnquantized { tensor, why, others: found.count() })
}

/// Whether arrays state the scheme of tensors, and no document does.
pub(crate) fn states_itself(store: &Store) -> bool {
    let is_one = |dtype: DType| [DType::BNB_NF4, DType::BNB_FP4].contains(&dtype);
    let mut tensors = store.tensors();
    StatedScheme::of(store.documents()).is_none()
        && tensors.any(|tensor| tensor.dtype().is_ok_and(is_one))
}

/// The modules that a list names: by a name, a name with `*`, a regular expression after `re:`, or the class of all
/// matrices.
#[derive(Debug)]
struct Modules<'d> {
    all: bool,
    patterns: Vec<Cow<'d, str>>,
    /// The regular expressions that are more than a name with `.*`.
    expressions: Expressions,
}

impl<'d> Modules<'d> {
    fn of(list: impl IntoIterator<Item = &'d Json>) -> Self {
        let (mut all, mut patterns, mut expressions) = (false, Vec::new(), Vec::new());
        for listed in list.into_iter().filter_map(Json::as_str) {
            match listed.strip_prefix("re:") {
                None if listed == "Linear" => all = true,
                None => patterns.push(Cow::Borrowed(listed)),
                Some(expression) => match with_stars(expression) {
                    Some(pattern) => patterns.push(Cow::Owned(pattern)),
                    None => expressions.push(expression),
                },
            }
        }
        Self { all, patterns, expressions: Expressions::of(&expressions) }
    }

    /// Whether the list has a module, or a part of its name between dots: the tensors may have other prefixes than the
    /// list.
    fn contains(&self, module: &str) -> bool {
        self.all
            || self.patterns.iter().any(|pattern| is_match(pattern, module))
            || self.expressions.have(module)
    }
}

/// An expression of which only `.*` and escaped dots have a meaning, as a name with `*`.
fn with_stars(expression: &str) -> Option<String> {
    let pattern = expression.trim_matches(['^', '$']).replace("\\.", ".").replace(".*", "*");
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.*".contains(&byte);
    pattern.bytes().all(is_name).then_some(pattern)
}

/// Regular expressions that match from the start of a name, as Python's `re.match`, or from a dot in it.
#[derive(Debug)]
enum Expressions {
    None,
    #[cfg(feature = "regex")]
    Compiled(regex::bytes::Regex),
    /// They have what is not supported, such as lookahead.
    NotUnderstood,
}

impl Expressions {
    fn of(list: &[&str]) -> Self {
        if list.is_empty() {
            return Self::None;
        }
        #[cfg(feature = "regex")]
        {
            let each: Vec<String> = list.iter().map(|one| format!("(?:{one})")).collect();
            // `regex` is built without tables of Unicode.
            let whole = format!(r"^(?:.*\.)?(?:{})", each.join("|"));
            let built = regex::bytes::RegexBuilder::new(&whole).unicode(false).build();
            built.map_or(Self::NotUnderstood, Self::Compiled)
        }
        #[cfg(not(feature = "regex"))]
        Self::NotUnderstood
    }

    #[cfg_attr(not(feature = "regex"), expect(unused_variables, reason = "nothing is compiled"))]
    fn have(&self, module: &str) -> bool {
        match self {
            #[cfg(feature = "regex")]
            Self::Compiled(whole) => whole.is_match(module.as_bytes()),
            Self::None | Self::NotUnderstood => false,
        }
    }
}

/// Whether a module's name, or a part of it between dots, has a pattern: a name, or a name with `*`.
fn is_match(pattern: &str, module: &str) -> bool {
    let ends = module.match_indices('.').map(|(at, _)| at).chain([module.len()]);
    let starts = || std::iter::once(0).chain(module.match_indices('.').map(|(at, _)| at + 1));
    let pieces: Vec<&str> = pattern.split('*').collect();
    ends.into_iter().any(|end| {
        starts()
            .filter(|start| *start < end)
            .any(|start| module.get(start..end).is_some_and(|part| has_pieces(part, &pieces)))
    })
}

/// Whether a text consists of these pieces, with anything between them.
fn has_pieces(text: &str, pieces: &[&str]) -> bool {
    let [first, rest @ ..] = pieces else { return text.is_empty() };
    let Some(mut left) = text.strip_prefix(first) else { return false };
    let Some((last, middle)) = rest.split_last() else { return left.is_empty() };
    for piece in middle {
        let Some(at) = left.find(piece) else { return false };
        left = left.get(at + piece.len()..).unwrap_or_default();
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_matched_by_parts_of_their_names() {
        let module = "model.layers.3.self_attn.q_proj";
        let has = |pattern: &str| Modules::of([&Json::from(pattern)]).contains(module);
        for pattern in [
            "q_proj",
            "self_attn.q_proj",
            "model.layers.3",
            "model.layers.*.self_attn",
            "Linear",
            "re:.*self_attn.*",
            "re:^model\\.layers\\.3\\..*$",
            "*q_proj*",
            module,
        ] {
            assert!(has(pattern), "{pattern}");
        }
        for pattern in ["proj", "layers.1", "model.layers.*.mlp", "lm_head", "re:.*gate$", ""] {
            assert!(!has(pattern), "{pattern}");
        }
    }

    /// Python's `re.match` says the same of all of them.
    #[cfg(feature = "regex")]
    #[test]
    fn modules_are_matched_by_regular_expressions() {
        let module = "model.layers.3.self_attn.q_proj";
        let of = |pattern: &str| Json::from(pattern);
        for (pattern, expected) in [
            ("re:model\\.layers\\.[2-9]\\..*", true),
            ("re:model[.]layers[.]\\d+[.]self_attn", true),
            ("re:.*layers\\.(3|4)\\.", true),
            ("re:.*layers\\.(1|2)\\.", false),
            ("re:.*(mlp|lm_head).*", false),
            ("re:.*[kv]_proj$", false),
            ("re:.*[qk]_proj$", true),
        ] {
            assert_eq!(Modules::of([&of(pattern)]).contains(module), expected, "{pattern}");
        }
        let unknown = of("re:(?!lm_head).*");
        assert!(matches!(Modules::of([&unknown]).expressions, Expressions::NotUnderstood));
    }

    #[test]
    fn schemes_are_named_by_what_distinguishes_them() {
        let name = |name: &str, json: &str| {
            let json = Json::parse(json.as_bytes()).unwrap();
            let documents = [Document { name: name.to_owned(), json }];
            StatedScheme::of(&documents).map(|stated| stated.name())
        };
        let of = |json: &str| name("config.json", &format!("{{\"quantization_config\":{json}}}"));
        assert_eq!(of("null"), None);
        assert_eq!(of("{}").as_deref(), Some("an unnamed scheme (config.json)"));
        let awq = r#"{"quant_method":"awq","version":"gemv"}"#;
        assert_eq!(of(awq).as_deref(), Some("awq, gemv (config.json)"));
        assert_eq!(
            name("quant_config.json", awq).as_deref(),
            Some("awq, gemv (quant_config.json)")
        );
        let exl3 = r#"{"quant_method":"exl3","version":"0.0.6"}"#;
        assert_eq!(of(exl3).as_deref(), Some("exl3 (config.json)"));
        let sparse = r#"{"quant_method":"compressed-tensors","format":"dense","sparsity_config":{"format":"sparse-24-bitmask"}}"#;
        let said = "compressed-tensors, dense, sparse-24-bitmask (config.json)";
        assert_eq!(of(sparse).as_deref(), Some(said));
        let algo = r#"{"quantization":{"quant_algo":"NVFP4_AWQ"}}"#;
        assert_eq!(
            name("hf_quant_config.json", algo).as_deref(),
            Some("NVFP4_AWQ (hf_quant_config.json)")
        );
    }
}
