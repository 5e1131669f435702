//! Changes of stored values.

use crate::arch::Change;
use crate::rounding::f32_of;

/// The change that is applied to stored values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Arithmetic {
    None,
    AddOne,
    SubtractOne,
    /// x becomes -e^x.
    NegExp,
    /// x becomes log(-x).
    LogNeg,
    /// x becomes e^x.
    Exp,
    /// x becomes log(x).
    Log,
    /// x becomes log(1 + e^x).
    Softplus,
    /// x becomes log(e^x - 1).
    LogExpMinusOne,
    /// x is multiplied.
    Times(f32),
}

/// `ln(1 + e^x)`, computed in `f64`. From 20 on, torch takes x itself.
fn softplus(value: f32) -> f32 {
    if value > 20.0 { value } else { f32_of(f64::from(value).exp().ln_1p()) }
}

impl Arithmetic {
    /// The change from a dialect's stored values to canonical values.
    pub(super) fn from_stored(change: Change) -> Self {
        match change {
            Change::None => Self::None,
            Change::PlusOne => Self::SubtractOne,
            Change::NegExp => Self::LogNeg,
            Change::Exp => Self::Log,
            Change::Softplus => Self::LogExpMinusOne,
        }
    }

    /// The change from canonical values to a dialect's stored values.
    pub(super) fn to_stored(change: Change) -> Self {
        match change {
            Change::None => Self::None,
            Change::PlusOne => Self::AddOne,
            Change::NegExp => Self::NegExp,
            Change::Exp => Self::Exp,
            Change::Softplus => Self::Softplus,
        }
    }

    /// The inverse, which is exact except for rounding.
    pub(super) const fn inverse(self) -> Self {
        match self {
            Self::None => Self::None,
            Self::AddOne => Self::SubtractOne,
            Self::SubtractOne => Self::AddOne,
            Self::NegExp => Self::LogNeg,
            Self::LogNeg => Self::NegExp,
            Self::Exp => Self::Log,
            Self::Log => Self::Exp,
            Self::Softplus => Self::LogExpMinusOne,
            Self::LogExpMinusOne => Self::Softplus,
            Self::Times(factor) => Self::Times(1.0 / factor),
        }
    }

    pub(super) fn change(self, values: &mut [f32]) {
        match self {
            Self::None => {}
            Self::AddOne => values.iter_mut().for_each(|value| *value += 1.0),
            Self::SubtractOne => values.iter_mut().for_each(|value| *value -= 1.0),
            Self::NegExp => values.iter_mut().for_each(|value| *value = -value.exp()),
            Self::LogNeg => values.iter_mut().for_each(|value| *value = (-*value).ln()),
            Self::Exp => values.iter_mut().for_each(|value| *value = value.exp()),
            Self::Log => values.iter_mut().for_each(|value| *value = value.ln()),
            Self::Times(factor) => values.iter_mut().for_each(|value| *value *= factor),
            Self::Softplus => values.iter_mut().for_each(|value| *value = softplus(*value)),
            Self::LogExpMinusOne => {
                let inverse = |value: f64| value + (-(-value).exp()).ln_1p();
                values.iter_mut().for_each(|value| *value = f32_of(inverse(f64::from(*value))));
            }
        }
    }

    /// The composition of two changes, or `None` if no single change is equal to it.
    pub(super) fn then(self, next: Self) -> Option<Self> {
        match (self, next) {
            (one, Self::None) | (Self::None, one) => Some(one),
            (one, next) if one == next.inverse() => Some(Self::None),
            (Self::Times(one), Self::Times(next)) => Some(Self::Times(one * next)),
            _ => None,
        }
    }
}
