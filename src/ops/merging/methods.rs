//! The merging methods, and the settings that each reads.

use crate::error::{Error, Result};

/// A method that merges the values of several models.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum MergeMethod {
    /// The weighted sum, divided by the sum of weights unless `normalize` is 0.
    Linear,
    /// The base, and the weighted sum of the differences from it (Ilharco et al., 2022).
    TaskArithmetic,
    /// Like `TaskArithmetic`, with the largest `density` of each difference, and only of those that have
    /// the sign of the sum (Yadav et al., 2023).
    Ties,
    /// Like `TaskArithmetic`, with a random share `density` of each difference, scaled to the sum of
    /// magnitudes before unless `rescale` is 0 (Yu et al., 2024).
    DareLinear,
    /// Like `DareLinear`, and only of those that have the sign of the sum.
    DareTies,
    /// The point at `t` on the arc from the base to the other model.
    Slerp,
    /// The tensor of one model, times `scale`.
    Passthrough,
}

impl MergeMethod {
    /// The methods.
    pub const ALL: [Self; 7] = [
        Self::Linear,
        Self::TaskArithmetic,
        Self::Ties,
        Self::DareLinear,
        Self::DareTies,
        Self::Slerp,
        Self::Passthrough,
    ];

    /// The name, as in mergekit's files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::TaskArithmetic => "task_arithmetic",
            Self::Ties => "ties",
            Self::DareLinear => "dare_linear",
            Self::DareTies => "dare_ties",
            Self::Slerp => "slerp",
            Self::Passthrough => "passthrough",
        }
    }

    /// The method with this name; `task` is short for `task_arithmetic`.
    ///
    /// # Errors
    ///
    /// `Unsupported` for another name.
    pub fn from_name(name: &str) -> Result<Self> {
        let full = if name == "task" { "task_arithmetic" } else { name };
        let found = Self::ALL.into_iter().find(|method| method.name() == full);
        found.ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::unsupported(format!("the merge method is \"{name}\", not one of {known}"))
        })
    }

    /// Whether one of the models is the base.
    pub(super) fn needs_base(self) -> bool {
        !matches!(self, Self::Linear | Self::Passthrough)
    }

    /// The default of `normalize`.
    pub(super) fn normalizes(self) -> f64 {
        if matches!(self, Self::Linear | Self::Ties) { 1.0 } else { 0.0 }
    }

    /// The default of `rescale`.
    pub(super) fn rescales(self) -> f64 {
        if matches!(self, Self::DareLinear | Self::DareTies) { 1.0 } else { 0.0 }
    }

    /// The settings that the method reads.
    pub(super) fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Linear => &["weight", "normalize"],
            Self::TaskArithmetic | Self::Ties | Self::DareLinear | Self::DareTies => {
                &["weight", "density", "normalize", "lambda", "int8_mask", "rescale"]
            }
            Self::Slerp => &["t"],
            Self::Passthrough => &["scale"],
        }
    }
}
