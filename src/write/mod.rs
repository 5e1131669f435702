//! Writes models: plans which bytes go into which file, and produces them.
//!
//! ```text
//!  Tensor ──method──▶ Producer ─┐
//!  metadata, documents ─────────┴▶ Builder ──layout──▶ WritePlan ──pieces──▶ threads ──▶ files ──rename
//! ```
//!
//! A [`Builder`] gathers tensors, metadata and documents. The container's writer computes headers and
//! offsets. One pipeline, which all containers share, produces the bytes and writes them.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod account;
mod blobs;
mod builder;
mod directory;
mod finite;
mod grid;
mod groups;
mod loss;
mod method;
mod options;
mod out;
mod pipeline;
mod plan;
mod planned;
mod planned_model;
mod producer;
mod rename;
mod report;
mod set;
mod slices;
mod target;

pub use account::{Account, AccountedItem, ItemKind, Outcome};
pub use builder::Builder;
pub(crate) use groups::{GroupQuantization, TensorRepack};
pub use loss::Loss;
pub(crate) use method::{
    PLAIN_FLOATS, Precision, choose, encoded, grouped, grouped_from, requantized,
};
pub use options::WriteOptions;
use out::PlacedTensor;
pub(crate) use out::{OutFile, OutTensor, Output};
pub use plan::{WritePlan, WriteReport};
pub use planned::{Method, PlannedTensor};
pub(crate) use planned_model::{PlannedModel, planned_config};
pub(crate) use producer::Producer;
pub use report::{PlanReport, ReportedFile, ReportedTensor};
pub use slices::{SliceReport, Slices, SlicesStatus, check_sources, slices_status};
pub(crate) use target::PageChange;
pub use target::{ExistingFile, check_file};
