//! Model families: the mapping of stored names to canonical names, the transforms, and the model
//! config. A family is an [`Architecture`].

mod architecture;
mod auxiliary;
mod conditional;
pub(crate) mod config;
pub(crate) mod config_json;
mod cut;
mod dialect_names;
mod experts;
pub(crate) mod factor;
pub(crate) mod family;
mod generation;
mod globs;
pub(crate) mod graph;
pub(crate) mod habits;
pub(crate) mod heads;
pub(crate) mod kept;
mod linear;
mod mapping;
mod missing;
pub(crate) mod other_models;
mod required;
mod resolution;
mod resolve;
pub(crate) mod rotary;
mod rule;
mod runs;
pub(crate) mod size;
pub(crate) mod source;
mod stated;
mod structure;
pub(crate) mod tensor;
mod text_class;
mod tied;
pub(crate) mod tower;
pub(crate) mod transform;
mod undecoded;
pub(crate) mod variant;
pub(crate) mod wrapper;

pub use crate::dialect::Dialect;
pub(crate) use architecture::Instead;
pub use architecture::{Architecture, PlanLine, Prefix, RopeLayout};
pub(crate) use auxiliary::{LEFT_OUT, NEXT_TOKENS, ZERO_BIAS, tower as tower_part};
pub(crate) use conditional::ConditionalName;
pub(crate) use config::KeptDocument;
pub use config::{
    AttentionConfig, ConfigField, ConfigValue, EncoderConfig, ExpertConfig, Field, FieldSource,
    Gating, LayerKind, LayerLayout, ModelConfig, NormKind, RopeConfig, RopeScaling,
    RopeScalingKind, ScaleConfig, SourceKind, SsmConfig,
};
pub(crate) use cut::{Cut, Stage, TensorCut, pipeline_layers};
pub(crate) use dialect_names::{DialectTensor, dialect_tensors};
pub use family::{FamilyFile, architectures};
pub use generation::GenerationConfig;
pub(crate) use generation::end_tokens;
pub(crate) use heads::resolve;
pub use linear::Linear;
pub use mapping::Mapping;
pub use resolution::{Auxiliary, Resolution, Undecoded};
pub(crate) use resolve::{
    CanonicalMatch, architecture_name, canonical_names, canonical_of, computed_config,
    config_reader, kept_config, model_config, source_model, source_of_keys, stated_config,
    unused_config,
};
pub(crate) use rule::{KeyedTensor, Rename};
pub use rule::{NameRule, StoredForm};
pub use runs::{Half, Projection};
pub(crate) use runs::{RowLoops, RowSelection, RowSpan};
#[cfg(feature = "write")]
pub(crate) use stated::is_in_words_of_meta;
pub(crate) use stated::{field_of, stated_document, unlike_fields};
pub use transform::{Axes, Change, RowOrder, Transform};
