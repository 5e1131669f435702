//! Rounds numbers to the precision of models.

/// A number as `f32`: files and engines have no more digits of it.
#[expect(clippy::cast_possible_truncation, reason = "rounds")]
pub(crate) fn f32_of(number: f64) -> f32 {
    number as f32
}
