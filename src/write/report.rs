//! The report on a plan, before and after it is run.

use std::path::{Path, PathBuf};

use super::{Account, PlannedTensor, WriteOptions, WritePlan, WriteReport};
use crate::bytes::Text;
use crate::dtype::DType;
use crate::error::Result;

/// The files that a plan writes, or wrote, and the method of each tensor.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PlanReport<'p> {
    /// The paths that were written; empty before the plan is run.
    pub written: Vec<String>,
    /// The files that are replaced, or deleted with the directory that is replaced.
    pub replaced: Vec<String>,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Bytes of all files.
    pub bytes: u64,
    /// The time that writing took.
    pub seconds: f64,
    /// The files.
    pub files: Vec<ReportedFile<'p>>,
    /// The tensors, in the order of writing.
    pub tensors: Vec<ReportedTensor<'p>>,
    /// The notes of the plan.
    pub notes: Vec<String>,
    /// The outcome of everything that is read.
    pub account: &'p Account,
}

/// A file of a [`PlanReport`].
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ReportedFile<'p> {
    /// The name; empty for the file at the given path, and for a blob without a name in the manifest.
    pub name: &'p str,
    /// Its role in the model: `model`, `tensor`, `config`, `json`, `license`.
    pub role: &'p str,
    /// Its length.
    pub bytes: u64,
    /// The names of its tensors.
    pub tensors: Vec<&'p str>,
}

/// A tensor of a [`PlanReport`].
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ReportedTensor<'p> {
    /// Its name in the output.
    pub name: &'p str,
    /// The rank whose share it is part of, for a directory of ranks' shares.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub rank: Option<u64>,
    /// Dimensions, outermost first.
    pub shape: &'p [u64],
    /// The names of the source dtypes, with their group size where they have one.
    pub from: &'p str,
    /// The dtype in the output.
    pub dtype: &'static str,
    /// Elements that share a scale, for dtypes that leave the number to the tensor.
    pub group_size: Option<u32>,
    /// Bytes of all its parts.
    pub bytes: u64,
    /// The name of its method: see [`Method::name`](super::Method::name).
    pub how: &'static str,
    /// Whether every value stays unchanged.
    pub lossless: bool,
    /// The dtype that was chosen, if rows of this length are not whole blocks of it.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub unsuited: Option<&'static str>,
    /// The reason for the method, unless it is obvious.
    pub why: Option<&'p str>,
    /// The number of finite values that became infinite, in the tensors of this name.
    pub lost_to_infinity: u64,
    /// The number of nonzero values that became 0, in the tensors of this name.
    pub lost_to_zero: u64,
    /// The relative RMS difference, for requantized tensors.
    pub relative_rms: Option<f64>,
}

impl WritePlan {
    /// The report on this plan before it is run at `path`, with the files that it would
    /// [replace](Self::replaced) there.
    ///
    /// # Errors
    ///
    /// Same as [`check`](Self::check) and [`replaced`](Self::replaced).
    pub fn report_at(&self, path: &Path, options: &WriteOptions<'_>) -> Result<PlanReport<'_>> {
        self.check(options)?;
        let replaced = shown(&self.replaced(path, options)?);
        Ok(PlanReport { replaced, ..self.report() })
    }

    /// The report on this plan before it is run.
    pub fn report(&self) -> PlanReport<'_> {
        let files = self.files().zip(self.roles()).zip(self.tensors_by_file());
        PlanReport {
            written: Vec::new(),
            replaced: Vec::new(),
            dry_run: true,
            bytes: self.bytes(),
            seconds: 0.0,
            files: files
                .map(|(((name, bytes), role), tensors)| ReportedFile { name, role, bytes, tensors })
                .collect(),
            tensors: self.tensors.iter().map(ReportedTensor::from).collect(),
            notes: self.notes.clone(),
            account: &self.account,
        }
    }
}

impl<'p> From<&'p PlannedTensor> for ReportedTensor<'p> {
    fn from(planned: &'p PlannedTensor) -> Self {
        Self {
            name: &planned.name,
            rank: planned.rank,
            shape: &planned.shape,
            from: &planned.from,
            dtype: planned.dtype.name(),
            group_size: planned.group_size,
            bytes: planned.bytes,
            how: planned.method.name(),
            lossless: planned.method.is_lossless(),
            unsuited: planned.unsuited.map(DType::name),
            why: planned.reason.as_deref(),
            lost_to_infinity: 0,
            lost_to_zero: 0,
            relative_rms: None,
        }
    }
}

impl PlanReport<'_> {
    /// Adds what a run of the plan wrote, how long it took, and what its tensors lost.
    pub fn ran(&mut self, written: &WriteReport, seconds: f64) {
        self.written = shown(&written.paths);
        self.replaced = shown(&written.replaced);
        (self.dry_run, self.seconds) = (false, seconds);
        // Every rank has tensors with the same names.
        let mut lost: std::collections::HashMap<&str, super::Loss> = Default::default();
        for (name, loss) in &written.lost {
            *lost.entry(name).or_default() += *loss;
        }
        for tensor in &mut self.tensors {
            if let Some(loss) = lost.get(tensor.name) {
                tensor.lost_to_infinity = loss.narrowing.overflows;
                tensor.lost_to_zero = loss.narrowing.flushes;
                tensor.relative_rms = loss.relative_rms();
            }
        }
    }
}

fn shown(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| Text::from_path(path).to_string()).collect()
}
