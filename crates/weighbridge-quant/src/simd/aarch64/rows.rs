//! Transposes and reduces the rows of a matrix with NEON.

use std::arch::aarch64::*;
use std::array::from_fn;

use super::registers::Floats;

/// Transposes a 4 by 4 matrix.
#[inline]
#[target_feature(enable = "neon")]
fn transposed4([a, b, c, d]: [float32x4_t; 4]) -> [float32x4_t; 4] {
    // The even and the odd columns of two rows each, by pairs.
    let [first, second] = [[a, b], [c, d]].map(|[a, b]| {
        [vtrn1q_f32(a, b), vtrn2q_f32(a, b)].map(|pairs| vreinterpretq_f64_f32(pairs))
    });
    [
        vtrn1q_f64(first[0], second[0]),
        vtrn1q_f64(first[1], second[1]),
        vtrn2q_f64(first[0], second[0]),
        vtrn2q_f64(first[1], second[1]),
    ]
    .map(|column| vreinterpretq_f32_f64(column))
}

/// Transposes a 16 by 16 matrix of rows in four quarters.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn transposed16(rows: [Floats; 16]) -> [Floats; 16] {
    let mut columns = rows;
    for quarter in 0..4 {
        for four in 0..4 {
            let rows: [float32x4_t; 4] = from_fn(|i| rows[4 * four + i][quarter]);
            for (i, column) in transposed4(rows).into_iter().enumerate() {
                columns[4 * quarter + i][four] = column;
            }
        }
    }
    columns
}

/// Reduces each of 16 rows to one number, by an operation on neighbours in two registers.
#[inline(always)]
pub(super) fn each_of<A: Copy>(rows: [A; 16], of: impl Fn(A, A) -> A) -> [A; 4] {
    from_fn(|i| {
        let [a, b, c, d]: [A; 4] = from_fn(|row| rows[4 * i + row]);
        of(of(a, b), of(c, d))
    })
}
