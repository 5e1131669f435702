//! The nearest matrix of a low rank: a truncated singular value decomposition.
//!
//! The largest singular vectors are found by subspace iteration from a random start (Halko, Martinsson and
//! Tropp, "Finding structure with randomness", 2011, algorithm 4.4), which is always the same.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

use super::super::random::draw;
use crate::rounding::f32_of;

/// Vectors beyond the rank, which make the others exact sooner.
const MORE: usize = 8;

/// Passes over the matrix and its transpose. Each squares the ratio of singular values.
const PASSES: usize = 6;

/// Rotations of all pairs of a small symmetric matrix; far fewer suffice.
const SWEEPS: usize = 60;

/// Two thin matrices whose product is the nearest to a matrix: `b` is `[rows, rank]`, `a` `[rank, columns]`.
/// Each has the roots of the singular values.
#[derive(Debug)]
pub(super) struct Factors {
    pub(super) a: Vec<f32>,
    pub(super) b: Vec<f32>,
    pub(super) rank: usize,
    /// The share of the matrix that the product holds, in squares.
    pub(super) kept: f64,
}

impl Factors {
    /// Those of the transposed matrix.
    pub(super) fn transposed(self) -> Self {
        let Self { a, b, rank, kept } = self;
        let columns = a.len().checked_div(rank).unwrap_or(0);
        Self { a: transposed(&b, rank), b: transposed(&a, columns), rank, kept }
    }
}

/// The two matrices of `rank` nearest to a matrix with rows of `columns` numbers.
pub(super) fn nearest(matrix: &[f32], columns: usize, rank: usize) -> Factors {
    let rows = matrix.len().checked_div(columns).unwrap_or(0);
    let width = rank.saturating_add(MORE).min(rows).min(columns);
    let mut of_columns = random(columns, width);
    let mut of_rows = Vec::new();
    for _ in 0..PASSES {
        of_rows = product(matrix, columns, &of_columns, width);
        orthonormal(&mut of_rows, width);
        of_columns = transposed_product(matrix, columns, &of_rows, width);
        orthonormal(&mut of_columns, width);
    }
    // The matrix is Q (Qᵀ M): the decomposition of the small factor is that of its square.
    let small = transposed_product(matrix, columns, &of_rows, width);
    let mut square = vec![0.0f64; width * width];
    for row in small.chunks_exact(width.max(1)) {
        for (line, one) in square.chunks_exact_mut(width.max(1)).zip(row) {
            line.iter_mut().zip(row).for_each(|(sum, other)| *sum += one * other);
        }
    }
    let (values, vectors) = eigen(square, width);
    let mut order: Vec<usize> = (0..width).collect();
    let value = |place: usize| values.get(place).copied().unwrap_or(0.0).max(0.0);
    order.sort_by(|a, b| value(*b).total_cmp(&value(*a)));
    order.truncate(rank);
    let all: f64 = matrix.iter().map(|value| f64::from(*value) * f64::from(*value)).sum();
    let held: f64 = order.iter().map(|place| value(*place)).sum();
    let kept = if all > 0.0 { (held / all).min(1.0) } else { 1.0 };
    let side = |vectors_of: &[f64], scale: &dyn Fn(f64) -> f64| {
        let mut out = Vec::new();
        for row in vectors_of.chunks_exact(width.max(1)) {
            for place in &order {
                let column = vectors.iter().skip(*place).step_by(width.max(1));
                let sum: f64 = row.iter().zip(column).map(|(one, other)| one * other).sum();
                out.push(f32_of(sum * scale(value(*place))));
            }
        }
        out
    };
    // Singular values are the roots of the eigenvalues; each side gets the root of those.
    let b = side(&of_rows, &|value| value.sqrt().sqrt());
    let a = side(&small, &|value| if value > 0.0 { value.sqrt().sqrt().recip() } else { 0.0 });
    Factors { a: transposed(&a, rank), b, rank, kept }
}

/// Vectors that look random.
fn random(rows: usize, width: usize) -> Vec<f64> {
    let mut state = 0;
    (0..rows.saturating_mul(width)).map(|_| draw(&mut state) - 0.5).collect()
}

/// `M V`, where V has rows of `width`.
fn product(matrix: &[f32], columns: usize, vectors: &[f64], width: usize) -> Vec<f64> {
    let mut out = Vec::new();
    for row in matrix.chunks_exact(columns.max(1)) {
        let start = out.len();
        out.resize(start + width, 0.0);
        let sums = out.get_mut(start..).unwrap_or_default();
        for (value, vector) in row.iter().zip(vectors.chunks_exact(width.max(1))) {
            let value = f64::from(*value);
            sums.iter_mut().zip(vector).for_each(|(sum, other)| *sum += value * other);
        }
    }
    out
}

/// `Mᵀ V`.
fn transposed_product(matrix: &[f32], columns: usize, vectors: &[f64], width: usize) -> Vec<f64> {
    let mut out = vec![0.0; columns.saturating_mul(width)];
    for (row, vector) in matrix.chunks_exact(columns.max(1)).zip(vectors.chunks_exact(width.max(1)))
    {
        for (value, sums) in row.iter().zip(out.chunks_exact_mut(width.max(1))) {
            let value = f64::from(*value);
            sums.iter_mut().zip(vector).for_each(|(sum, other)| *sum += value * other);
        }
    }
    out
}

/// Makes the columns orthonormal, by Gram and Schmidt, twice. A column that depends on others becomes 0.
fn orthonormal(vectors: &mut [f64], width: usize) {
    let mut columns: Vec<Vec<f64>> = (0..width)
        .map(|place| vectors.iter().skip(place).step_by(width.max(1)).copied().collect())
        .collect();
    for place in 0..width {
        let (done, rest) = columns.split_at_mut(place);
        let Some(own) = rest.first_mut() else { break };
        let before = norm(own);
        for _ in 0..2 {
            for other in done.iter() {
                let along: f64 = own.iter().zip(other).map(|(a, b)| a * b).sum();
                own.iter_mut().zip(other).for_each(|(value, other)| *value -= along * other);
            }
        }
        let length = norm(own);
        let scale = if length > 1e-12 * before { length.recip() } else { 0.0 };
        own.iter_mut().for_each(|value| *value *= scale);
    }
    for (place, column) in columns.iter().enumerate() {
        let out = vectors.iter_mut().skip(place).step_by(width.max(1));
        out.zip(column).for_each(|(out, value)| *out = *value);
    }
}

fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// The eigenvalues of a symmetric matrix, and its eigenvectors in columns, by Jacobi's rotations.
fn eigen(mut matrix: Vec<f64>, width: usize) -> (Vec<f64>, Vec<f64>) {
    let mut vectors = vec![0.0; width * width];
    vectors.iter_mut().step_by(width + 1).for_each(|value| *value = 1.0);
    let at = |matrix: &[f64], row: usize, column: usize| {
        matrix.get(row * width + column).copied().unwrap_or(0.0)
    };
    for _ in 0..SWEEPS {
        let mut is_done = true;
        for first in 0..width {
            for second in first + 1..width {
                let (own, other) = (at(&matrix, first, first), at(&matrix, second, second));
                let between = at(&matrix, first, second);
                if between.abs() <= 1e-15 * (own.abs() * other.abs()).sqrt() || between == 0.0 {
                    continue;
                }
                is_done = false;
                let theta = (other - own) / (2.0 * between);
                let tangent = theta.signum() / (theta.abs() + theta.hypot(1.0));
                let tangent = if theta == 0.0 { 1.0 } else { tangent };
                let cosine = tangent.hypot(1.0).recip();
                let turn = (cosine, tangent * cosine);
                rotate_columns(&mut matrix, width, (first, second), turn);
                rotate_rows(&mut matrix, width, (first, second), turn);
                rotate_columns(&mut vectors, width, (first, second), turn);
            }
        }
        if is_done {
            break;
        }
    }
    let values = matrix.iter().step_by(width + 1).copied().collect();
    (values, vectors)
}

fn rotate_columns(
    matrix: &mut [f64],
    width: usize,
    (first, second): (usize, usize),
    (cosine, sine): (f64, f64),
) {
    for row in matrix.chunks_exact_mut(width) {
        if let (Some(a), Some(b)) = (row.get(first).copied(), row.get(second).copied()) {
            row.iter_mut().skip(first).take(1).for_each(|out| *out = cosine * a - sine * b);
            row.iter_mut().skip(second).take(1).for_each(|out| *out = sine * a + cosine * b);
        }
    }
}

fn rotate_rows(
    matrix: &mut [f64],
    width: usize,
    (first, second): (usize, usize),
    (cosine, sine): (f64, f64),
) {
    let (above, below) = matrix.split_at_mut(second * width);
    let one = above.get_mut(first * width..(first + 1) * width).unwrap_or_default();
    let two = below.get_mut(..width).unwrap_or_default();
    for (a, b) in one.iter_mut().zip(two) {
        (*a, *b) = (cosine * *a - sine * *b, sine * *a + cosine * *b);
    }
}

/// A matrix with rows of `columns` numbers, transposed.
fn transposed(matrix: &[f32], columns: usize) -> Vec<f32> {
    (0..columns)
        .flat_map(|place| matrix.iter().skip(place).step_by(columns.max(1)).copied())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A matrix with given singular values: products of two sets of orthonormal vectors.
    fn with_values(rows: usize, columns: usize, values: &[f64]) -> Vec<f32> {
        let width = values.len();
        let (mut left, mut right) =
            (random(rows, width), random(columns + 3, width).split_off(3 * width));
        orthonormal(&mut left, width);
        orthonormal(&mut right, width);
        let mut out = Vec::new();
        for row in left.chunks_exact(width) {
            for other in right.chunks_exact(width) {
                let sum: f64 = row.iter().zip(other).zip(values).map(|((a, b), v)| a * b * v).sum();
                out.push(f32_of(sum));
            }
        }
        out
    }

    fn error(matrix: &[f32], columns: usize, found: &Factors) -> f64 {
        let mut squares = 0.0;
        for (row, b) in matrix.chunks_exact(columns).zip(found.b.chunks_exact(found.rank)) {
            for (place, value) in row.iter().enumerate() {
                let a = found.a.iter().skip(place).step_by(columns);
                let sum: f64 = b.iter().zip(a).map(|(b, a)| f64::from(*b) * f64::from(*a)).sum();
                squares += (f64::from(*value) - sum).powi(2);
            }
        }
        squares.sqrt()
    }

    #[test]
    fn the_product_is_the_nearest_of_its_rank() {
        let values = [9.0, 7.0, 4.0, 2.0, 1.0, 0.5, 0.25];
        for (rows, columns) in [(40, 60), (60, 40), (9, 200)] {
            let matrix = with_values(rows, columns, &values);
            for rank in [1usize, 3, 7] {
                let found = nearest(&matrix, columns, rank);
                assert_eq!((found.b.len(), found.a.len()), (rows * rank, rank * columns));
                // Eckart and Young: the error is the root of the squares of the values left out.
                let left: f64 = values.iter().skip(rank).map(|v| v * v).sum();
                let error = error(&matrix, columns, &found);
                assert!((error - left.sqrt()).abs() < 1e-4, "{rows} {columns} {rank}: {error}");
                let all: f64 = values.iter().map(|v| v * v).sum();
                assert!((found.kept - (1.0 - left / all)).abs() < 1e-6, "{}", found.kept);
                let turned = found.transposed();
                assert_eq!((turned.b.len(), turned.a.len()), (columns * rank, rank * rows));
            }
        }
    }

    #[test]
    fn a_matrix_of_zeros_has_zeros() {
        let found = nearest(&[0.0; 24], 6, 2);
        assert!(found.a.iter().chain(&found.b).all(|value| *value == 0.0));
        assert_eq!(found.kept, 1.0);
    }
}
