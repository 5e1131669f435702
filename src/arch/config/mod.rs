//! The model config: one struct for every container.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod check;
mod classes;
mod defaults;
mod derive;
mod field;
pub(crate) mod flags;
mod keys;
mod layout;
mod model;
mod origin;
pub(crate) mod pooling;
mod promised;
mod read;
mod scaling;
mod unused;
mod values;

pub(crate) use defaults::{Defaults, FamilyDefault, OwnKeys};
pub(crate) use derive::derived;
pub use field::{ConfigField, ConfigValue, Field};
pub(crate) use field::{TEXT_CONFIGS, class_name, nested_configs};
pub use keys::{
    AttentionConfig, EncoderConfig, ExpertConfig, RopeConfig, RopeScaling, ScaleConfig, SsmConfig,
};
pub(crate) use keys::{KEYS, key};
pub use model::ModelConfig;
pub use origin::{FieldSource, SourceKind};
pub(crate) use promised::{PromisedLayers, promised_layers, ties};
pub(crate) use read::{ConfigReader, KEPT_CONFIG, KeptDocument, Key, paths, stated};
pub(crate) use unused::{computed, unused};
pub(crate) use values::Reported;
pub use values::{Gating, LayerKind, LayerLayout, NormKind, RopeScalingKind};
