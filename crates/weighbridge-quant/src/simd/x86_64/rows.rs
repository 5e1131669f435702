//! Transposes and reduces the rows of a matrix with AVX2.

use std::arch::x86_64::*;

/// Transposes an 8 by 8 matrix.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed8(rows: [__m256; 8]) -> [__m256; 8] {
    let [a, b, c, d, e, f, g, h] = rows;
    let [ab, cd, ef, gh] = [[a, b], [c, d], [e, f], [g, h]]
        .map(|[a, b]| [_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b)]);
    // Columns 0 and 4, 1 and 5, 2 and 6, 3 and 7 of four rows each.
    let [first, second] = [[ab, cd], [ef, gh]].map(|[a, c]| {
        [
            _mm256_shuffle_ps::<0b01_00_01_00>(a[0], c[0]),
            _mm256_shuffle_ps::<0b11_10_11_10>(a[0], c[0]),
            _mm256_shuffle_ps::<0b01_00_01_00>(a[1], c[1]),
            _mm256_shuffle_ps::<0b11_10_11_10>(a[1], c[1]),
        ]
    });
    let low = |i: usize| _mm256_permute2f128_ps::<0x20>(first[i], second[i]);
    let high = |i: usize| _mm256_permute2f128_ps::<0x31>(first[i], second[i]);
    [low(0), low(1), low(2), low(3), high(0), high(1), high(2), high(3)]
}

/// Transposes a 16 by 16 matrix of rows in two halves.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn transposed16(rows: [[__m256; 2]; 16]) -> [[__m256; 2]; 16] {
    let mut columns = rows;
    for half in 0..2 {
        for side in 0..2 {
            let mut eight = [rows[0][0]; 8];
            for i in 0..8 {
                eight[i] = rows[8 * side + i][half];
            }
            let eight = transposed8(eight);
            for i in 0..8 {
                columns[8 * half + i][side] = eight[i];
            }
        }
    }
    columns
}

/// The choice between two numbers.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum LaneChoice {
    /// The larger.
    Most,
    /// The smaller.
    Least,
    /// The larger bits, for magnitudes.
    Bits,
}

#[inline]
#[target_feature(enable = "avx2")]
fn chosen(choice: LaneChoice, a: __m256, b: __m256) -> __m256 {
    match choice {
        LaneChoice::Most => _mm256_max_ps(a, b),
        LaneChoice::Least => _mm256_min_ps(a, b),
        LaneChoice::Bits => {
            let (a, b) = (_mm256_castps_si256(a), _mm256_castps_si256(b));
            _mm256_castsi256_ps(_mm256_max_epi32(a, b))
        }
    }
}

/// The number selected from each of 16 rows in two halves.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn of_each(choice: LaneChoice, rows: [[__m256; 2]; 16]) -> [__m256; 2] {
    let mut columns = [rows[0][0]; 2];
    for eight in 0..2 {
        // Of pairs of rows, then of fours, in both halves.
        let mut fours = columns;
        for (four, found) in fours.iter_mut().enumerate() {
            let mut twos = columns;
            for (two, found) in twos.iter_mut().enumerate() {
                let row = 8 * eight + 4 * four + 2 * two;
                let a = chosen(choice, rows[row][0], rows[row][1]);
                let b = chosen(choice, rows[row + 1][0], rows[row + 1][1]);
                let (low, high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                *found = chosen(choice, low, high);
            }
            let low = _mm256_shuffle_ps::<0b01_00_01_00>(twos[0], twos[1]);
            let high = _mm256_shuffle_ps::<0b11_10_11_10>(twos[0], twos[1]);
            *found = chosen(choice, low, high);
        }
        let low = _mm256_permute2f128_ps::<0x20>(fours[0], fours[1]);
        let high = _mm256_permute2f128_ps::<0x31>(fours[0], fours[1]);
        columns[eight] = chosen(choice, low, high);
    }
    columns
}
