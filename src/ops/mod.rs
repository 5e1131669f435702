//! Verbs: operations on whole models. Each is a function that returns a report or a plan.

#[cfg(feature = "write")]
mod account;
#[cfg(feature = "write")]
mod agreement;
mod config;
#[cfg(feature = "write")]
mod convert;
#[cfg(feature = "write")]
mod create;
mod dialect;
mod diff;
#[cfg(feature = "write")]
mod experts;
#[cfg(feature = "write")]
mod extract;
#[cfg(feature = "write")]
mod gguf;
mod hash;
mod inspect;
#[cfg(feature = "write")]
mod judge;
mod load;
mod losses;
#[cfg(feature = "write")]
mod merging;
#[cfg(feature = "write")]
mod mmproj;
#[cfg(feature = "write")]
mod modules;
#[cfg(feature = "http")]
mod pull;
#[cfg(feature = "write")]
mod quantize;
#[cfg(feature = "write")]
mod random;
#[cfg(feature = "write")]
mod rankers;
#[cfg(feature = "write")]
mod ranks;
mod repeated;
#[cfg(feature = "write")]
mod rewrite;
#[cfg(feature = "serde")]
mod serialize;
mod shares;
mod statistics;
mod verify;
#[cfg(feature = "write")]
mod zero_biases;

pub use config::{ConfigReport, GenerationReport, ReportedField, config};
#[cfg(feature = "write")]
pub use convert::{ConvertOptions, QuantizationRules, convert};
#[cfg(feature = "write")]
pub use create::create;
pub use dialect::{TranslatedTensors, tensors_of_rank};
pub use diff::{
    ClippedValue, Clipping, ConfigDifference, DiffOptions, DiffOutcome, DiffReport, DiffedModel,
    DiffedTensor, DifferentTensor, DifferentValues, ElementDiff, MeanError, ModelDiff, StatedValue,
    TensorDiff, TensorPair, TensorPairs, UnreadTensor, ValueDiff, WorstElement, diff,
    differing_files,
};
#[cfg(feature = "write")]
pub use extract::{ExtractedAdapter, adapter_in_gguf, extract_adapter};
pub(crate) use hash::of_values as values_sha256;
pub use hash::{HashLine, HashList, HashOptions, HashReport, TensorHash, hash};
pub use inspect::{
    AdapterReport, AttachmentReport, AuxiliaryTensor, CanonicalTensor, InspectNames,
    InspectOptions, InspectReport, InspectedPart, InspectedParts, InspectedTensor,
    InspectedTensors, ModelSummary, NamesReport, inspect, summarize,
};
pub(crate) use inspect::{file_type, main_dtype};
pub use load::{LoadReport, load, peak_memory};
#[cfg(feature = "write")]
pub use merging::{
    MergeMethod, MergeRecipe, MergeSlice, MergeSource, MergedVocabulary, Setting, Settings,
    SliceSource, TokenName, TokenRow, TokenRule, VocabularySource, merge_models,
};
#[cfg(feature = "http")]
pub use pull::{Choose, PullFile, PullOptions, PullPlan, plan_pull};
#[cfg(feature = "write")]
pub use quantize::{FileTypeSize, file_type_sizes, quantize};
#[cfg(feature = "write")]
pub use rewrite::{
    EditOutcome, MetadataEdit, check_editable, consistency_with_metadata, copy_with_metadata,
    edit_metadata, merge, split,
};
pub use shares::{RankShare, SharedRange, SharedTensor, SharesReport, TensorShare, shares};
pub use statistics::{
    Extreme, Grid, GridOptions, Histogram, Quantile, ScaleStatistics, StatisticsOptions,
    StatisticsReport, TensorStatistics, ValueStatistics, grid, statistics,
};
pub use verify::{
    Consistency, HashChange, HashDifference, TensorFinding, VerifyOptions, VerifyReport,
    check_consistency, digest_fault, missing_head, verify,
};

use crate::bytes::Text;
use crate::digest::hex;
use crate::error::{Error, Result};
use crate::model::Model;
#[cfg(feature = "write")]
pub use crate::ollama::create::CreateOptions;
pub use crate::ollama::show::{ShowDetails, ShowMessage, ShowReport, show};
pub use crate::translate::key_types::{key_named, required_type};

/// Refuses a GGUF file that holds changes of another model.
fn check_no_adapter(model: &Model) -> Result<()> {
    match model.metadata().str("general.type") {
        Some("adapter") => Err(Error::unsupported(
            "an adapter, which has no weights but changes of another model's",
        )
        .advise("give it together with that model, to be merged into it")),
        _ => Ok(()),
    }
}

/// The bytes of a name in hexadecimal, if it is not UTF-8.
fn odd_name(name: Text<'_>) -> Option<String> {
    name.to_str().is_none().then(|| hex(name.as_bytes()))
}
