//! Quantizers of the dtypes with ternary codebook points that are shifted up or down by an eighth,
//! one block at a time.
//!
//! The best split of a run's numbers into -1, 0 and 1 is searched exhaustively: with the numbers in
//! ascending order, a split is a pair of positions. The points are then taken from the codebook.

use std::array::from_fn;

use super::codebook::IQ1 as BOOK;
use super::point::{half_bits, mean_of, nearest, put_half};
use super::{Batch, Simd, quantizers};

/// The values of codes, shifted up.
const UP: [f32; 3] = [-0.875, 0.125, 1.125];
/// The values of codes, shifted down.
const DOWN: [f32; 3] = [-1.125, -0.125, 0.875];

quantizers! {
    IQ1_S: 256 => 50 Required, |batch, out| {
        for (lane, out) in out.iter_mut().enumerate() {
            let x = &batch.values[lane];
            let mean = mean_of(x, 2.0);
            *out = [0; 50];
            let mut found = [(0.0, true); 8];
            for (number, found) in found.iter_mut().enumerate() {
                let (x, weights) = run::<S, 32>(batch, lane, number, mean);
                let Some(split) = whole_split(&x, &weights) else { continue };
                let shift = if split.up { UP } else { DOWN };
                let (scale, points) = snapped(&x, &weights, &split, [shift; 4]);
                *found = (scale, split.up);
                let mut high = 0;
                for (k, point) in points.iter().enumerate() {
                    out[2 + 4 * number + k] = point.to_le_bytes()[0];
                    high |= (point >> 8) << (3 * k);
                }
                out[34 + 2 * number..36 + 2 * number].copy_from_slice(&high.to_le_bytes());
            }
            let Some(max) = largest(found.iter().map(|found| found.0)) else { continue };
            let d = max / 15.0;
            put_half(out, 0, d * 1.125);
            for (number, (scale, up)) in found.into_iter().enumerate() {
                let code = nearest(0.5 * (1.0 / d * scale - 1.0), 7);
                let code = if up { code } else { code | 8 };
                out[35 + 2 * number] |= code << 4;
            }
        }
    }

    IQ1_M: 256 => 56 Used, |batch, out| {
        for (lane, out) in out.iter_mut().enumerate() {
            let x = &batch.values[lane];
            let mean = mean_of(x, 2.0);
            *out = [0; 56];
            // A scale, two points, and whether each of them is shifted down.
            let mut found = [(0.0, [0; 2], [false; 2]); 16];
            for (number, found) in found.iter_mut().enumerate() {
                let (x, weights) = run::<S, 16>(batch, lane, number, mean);
                let Some((split, down)) = half_splits(&x, &weights) else { continue };
                let shifts = down.map(|down| if down { DOWN } else { UP });
                let (scale, [a, b, ..]) = snapped(&x, &weights, &split, [shifts[0], shifts[1], UP, UP]);
                *found = (scale, [a, b], down);
                out[2 * number] = a.to_le_bytes()[0];
                out[2 * number + 1] = b.to_le_bytes()[0];
                out[32 + number] = (a >> 8 | b >> 8 << 4).to_le_bytes()[0];
            }
            let Some(max) = largest(found.iter().map(|found| found.0)) else { continue };
            let d = max / 15.0;
            let inverse = 1.0 / d;
            let (mut sumqx, mut sumq2) = (0.0, 0.0);
            let mut words = [0u16; 4];
            for (number, (scale, points, down)) in found.into_iter().enumerate() {
                let code = nearest(0.5 * (inverse * scale - 1.0), 7);
                words[number / 4] |= u16::from(code) << (3 * (number % 4));
                out[32 + number] |= u8::from(down[0]) << 3 | u8::from(down[1]) << 7;
                let (x, weights) = run::<S, 16>(batch, lane, number, mean);
                for i in 0..16 {
                    let shift = if down[i / 8] { DOWN } else { UP };
                    let value = shift[usize::from(BOOK.point(points[i / 8])[i % 8])];
                    let q = value * f32::from(2 * code + 1);
                    sumqx += weights[i] * q * x[i];
                    sumq2 += weights[i] * q * q;
                }
            }
            let d = if sumq2 > 0.0 { sumqx / sumq2 } else { d };
            let d = half_bits(d * 1.1125);
            for (k, word) in words.into_iter().enumerate() {
                let word = word | (d >> (4 * k) & 15) << 12;
                out[48 + 2 * k..50 + 2 * k].copy_from_slice(&word.to_le_bytes());
            }
        }
    }
}

/// The codes of a run, and the scale with which they were found.
struct TernaryCodes<const N: usize> {
    scale: f32,
    codes: [u8; N],
    up: bool,
}

/// The values of a run, and their weights.
#[inline(always)]
fn run<S: Simd, const N: usize>(
    batch: &Batch<'_, S, 256>,
    lane: usize,
    number: usize,
    mean: f32,
) -> ([f32; N], [f32; N]) {
    let x = batch.values[lane][N * number..].first_chunk().copied().unwrap_or([0.0; N]);
    let importance = batch.importance.map(|importance| &importance[lane][N * number..][..N]);
    let weights = from_fn(|i| match importance {
        Some(importance) => importance[i] * (mean + x[i] * x[i]).sqrt(),
        None => x[i] * x[i],
    });
    (x, weights)
}

/// The largest scale, or `None` if all are 0.
fn largest(scales: impl Iterator<Item = f32>) -> Option<f32> {
    let max = scales.fold(0.0, |max, scale| if max > scale { max } else { scale });
    (max != 0.0).then_some(max)
}

/// The largest magnitude; a NaN restarts the search after it.
fn magnitude<const N: usize>(x: &[f32; N]) -> f32 {
    let more = |max: f32, x: &f32| if max > x.abs() { max } else { x.abs() };
    x.iter().skip(1).fold(x[0].abs(), more)
}

/// The positions of numbers in ascending order; the sort is stable, and NaN stays in place.
fn order<const N: usize>(x: &[f32; N]) -> [usize; N] {
    let mut order: [usize; N] = from_fn(|i| i);
    for end in 1..N {
        let mut place = end;
        while place > 0 && x[order[place]] < x[order[place - 1]] {
            order.swap(place, place - 1);
            place -= 1;
        }
    }
    order
}

fn codes<const N: usize>(order: &[usize; N], [first, second]: [usize; 2]) -> [u8; N] {
    let mut codes = [0; N];
    for (place, i) in order.iter().enumerate() {
        codes[*i] = u8::from(place >= first) + u8::from(place >= second);
    }
    codes
}

/// The best split of 32 numbers with the same shift.
fn whole_split(x: &[f32; 32], weights: &[f32; 32]) -> Option<TernaryCodes<32>> {
    let max = magnitude(x);
    if max < 1e-12 {
        return None;
    }
    let order = order(x);
    let (mut sumx, mut sumw) = ([0.0f32; 33], [0.0f32; 33]);
    for (j, i) in order.iter().enumerate() {
        sumx[j + 1] = sumx[j] + weights[*i] * x[*i];
        sumw[j + 1] = sumw[j] + weights[*i];
    }
    let (mut best, mut scale, mut found) = (f32::MIN, max, None);
    for first in 0..=32 {
        for second in first..=32 {
            for (values, up) in [(UP, true), (DOWN, false)] {
                let [a, b, c] = values;
                let sumqx = (sumx[first] - sumx[0]) * a
                    + (sumx[second] - sumx[first]) * b
                    + (sumx[32] - sumx[second]) * c;
                let sumq2 = (sumw[first] - sumw[0]) * a * a
                    + (sumw[second] - sumw[first]) * b * b
                    + (sumw[32] - sumw[second]) * c * c;
                if sumq2 > 0.0 && sumqx * sumqx > best * sumq2 {
                    scale = sumqx / sumq2;
                    best = scale * sumqx;
                    found = Some(([first, second], up));
                }
            }
        }
    }
    let (places, up) = found?;
    let split = TernaryCodes { scale, codes: codes(&order, places), up };
    Some(if scale < 0.0 { turned(split) } else { split })
}

/// Changes the signs of all values.
fn turned<const N: usize>(split: TernaryCodes<N>) -> TernaryCodes<N> {
    TernaryCodes { scale: -split.scale, codes: split.codes.map(|code| 2 - code), up: !split.up }
}

/// The best split of 16 numbers, and which halves of them are shifted down.
fn half_splits(x: &[f32; 16], weights: &[f32; 16]) -> Option<(TernaryCodes<16>, [bool; 2])> {
    let max = magnitude(x);
    if max < 1e-7 {
        return None;
    }
    let order = order(x);
    // Sums for each half, up to each position.
    let (mut px, mut pw) = ([[0.0f32; 17]; 2], [[0.0f32; 17]; 2]);
    for (j, i) in order.iter().enumerate() {
        for half in 0..2 {
            let mine = i / 8 == half;
            let (x, weight) = (weights[*i] * x[*i], weights[*i]);
            px[half][j + 1] = if mine { px[half][j] + x } else { px[half][j] };
            pw[half][j + 1] = if mine { pw[half][j] + weight } else { pw[half][j] };
        }
    }
    let (mut best, mut scale, mut found) = (f32::MIN, max, None);
    for first in 0..=16 {
        for second in first..=16 {
            // Values differ by 1, so what lies before both positions counts two less.
            let part = |half: usize, [a, b, c]: [f32; 3]| {
                let (px, pw) = (&px[half], &pw[half]);
                let qx = px[16] * c - (px[first] + px[second]);
                let q2 =
                    pw[16] * c * c + pw[first] * (a * a - b * b) + pw[second] * (b * b - c * c);
                (qx, q2)
            };
            let parts = [0, 1].map(|half| [part(half, UP), part(half, DOWN)]);
            for down in [[false, false], [false, true], [true, false], [true, true]] {
                let ((a, c), (b, d)) =
                    (parts[0][usize::from(down[0])], parts[1][usize::from(down[1])]);
                let (sumqx, sumq2) = (a + b, c + d);
                if sumq2 > 0.0 && sumqx * sumqx > best * sumq2 {
                    scale = sumqx / sumq2;
                    best = scale * sumqx;
                    found = Some(([first, second], down));
                }
            }
        }
    }
    let (places, down) = found?;
    let split = TernaryCodes { scale, codes: codes(&order, places), up: true };
    Some(if scale < 0.0 { (turned(split), down.map(|down| !down)) } else { (split, down) })
}

/// The codebook points for each 8 codes, and the scale that fits them.
fn snapped<const N: usize>(
    x: &[f32; N],
    weights: &[f32; N],
    split: &TernaryCodes<N>,
    values: [[f32; 3]; 4],
) -> (f32, [u16; 4]) {
    let mut points = [0; 4];
    let mut all = true;
    for (k, codes) in split.codes.as_chunks::<8>().0.iter().enumerate() {
        let mut codes = *codes;
        let (point, on) = BOOK.snap(&mut codes, |point| {
            let mut sum = 0.0;
            for i in 0..8 {
                let off = split.scale * values[k][usize::from(point[i])] - x[8 * k + i];
                sum += weights[8 * k + i] * off * off;
            }
            sum
        });
        points[k] = point;
        all &= on;
    }
    let (mut sumqx, mut sumq2) = (0.0, 0.0);
    for i in 0..N {
        let q = values[i / 8][usize::from(BOOK.point(points[i / 8])[i % 8])];
        sumqx += weights[i] * q * x[i];
        sumq2 += weights[i] * q * q;
    }
    let better = !all && sumqx > 0.0 && sumq2 > 0.0;
    (if better { sumqx / sumq2 } else { split.scale }, points)
}
