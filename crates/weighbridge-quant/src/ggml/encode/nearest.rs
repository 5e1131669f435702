//! Selects the point with the smallest error among those near a combination of codes.

use super::Simd;
use super::codebook::{Codebook, Point, PointList, Points};

/// A bound on the rounding of the difference of two errors, as a part of an upper bound of errors.
/// The two roundings of a distance, three more of its weighted square and those of the sum add up
/// to less than 15 / 2^24 of it for one error. There are two errors, at both ends and between; and
/// from an end the difference may shrink as the scale does, by half at most. Adding the margin to
/// an error rounds once more.
const ROUNDING: f32 = 6e-6;

/// The numbers that are added to the errors of up to 16 points, from position `16 - count` on:
/// those after the last point become infinite.
static BEHIND: [f32; 32] = {
    let mut behind = [0.0; 32];
    behind.as_mut_slice().split_at_mut(16).1.copy_from_slice(&[f32::INFINITY; 16]);
    behind
};

/// The inputs of errors: `N` numbers of each lane, and their weights.
pub(super) struct Targets<const N: usize, const GROUPS: usize> {
    /// For each group and lane, the group's numbers, and from the ninth on their weights.
    numbers: [[[f32; 16]; 16]; GROUPS],
    /// For each group and lane, by how much the best error must be below the others to be the best
    /// in spite of rounding.
    margins: [[f32; 16]; GROUPS],
}

/// The scales that are tried in each lane, and what results.
pub(super) struct Steps<const GROUPS: usize, const STEPS: usize> {
    pub(super) scales: [[f32; 16]; STEPS],
    /// The combinations of codes.
    pub(super) places: [[[u32; 16]; GROUPS]; STEPS],
    /// For each group and lane a bit for each step, the last one lowest: whether the combination is
    /// another one than before, as the first is.
    pub(super) changes: [[u32; 16]; GROUPS],
    /// The points that were found.
    pub(super) points: [Points<GROUPS>; STEPS],
    /// For each lane, the points of a group at the steps that were looked at, as the bits of floats.
    found: [[f32; 32]; 16],
    comparisons: List<Comparison>,
    /// Two comparisons each, between which the combination stays the same.
    spans: List<[usize; 2]>,
    halves: List<[usize; 2]>,
}

/// The near point with the smallest error.
#[derive(Clone, Copy, Default)]
pub(super) struct Nearest {
    pub(super) point: Point,
    /// No other error is so close that rounding might decide.
    clear: bool,
}

/// A comparison of the near points of a combination, in a lane at a step.
#[derive(Clone, Copy, Default)]
struct Comparison {
    lane: usize,
    step: usize,
    list: PointList,
    nearest: Nearest,
}

/// A list with room for an item of each lane and step.
struct List<T> {
    items: [T; 512],
    len: usize,
}

impl<T> List<T> {
    /// Adds an item if it is wanted. The processor could not guess whether it is: a branch would cost
    /// more than writing an item for nothing.
    #[inline(always)]
    fn push(&mut self, item: T, wanted: bool) {
        self.items[self.len % 512] = item;
        self.len += usize::from(wanted);
    }
}

impl<const GROUPS: usize, const STEPS: usize> Steps<GROUPS, STEPS> {
    pub(super) fn new() -> Self {
        Self {
            scales: [[0.0; 16]; STEPS],
            places: [[[0; 16]; GROUPS]; STEPS],
            changes: [[0; 16]; GROUPS],
            points: [[[0; 16]; GROUPS]; STEPS],
            found: [[0.0; 32]; 16],
            comparisons: List { items: [Comparison::default(); 512], len: 0 },
            spans: List { items: [[0; 2]; 512], len: 0 },
            halves: List { items: [[0; 2]; 512], len: 0 },
        }
    }
}

impl<const N: usize, const GROUPS: usize> Targets<N, GROUPS> {
    /// `reach` is the largest scaled level, if there are several scales.
    #[inline(always)]
    pub(super) fn new<S: Simd>(
        simd: S,
        values: &[S::Floats; N],
        weights: &[S::Floats; N],
        reach: S::Floats,
    ) -> Self {
        let mut this = Self { numbers: [[[0.0; 16]; 16]; GROUPS], margins: [[0.0; 16]; GROUPS] };
        let size = N / GROUPS;
        for (group, numbers) in this.numbers.iter_mut().enumerate() {
            let mut rows = [simd.splat(0.0); 16];
            for i in 0..size {
                (rows[i], rows[8 + i]) = (values[size * group + i], weights[size * group + i]);
            }
            let rows = simd.transposed(rows);
            for (row, numbers) in rows.iter().zip(numbers) {
                simd.put_f32::<false>(*row, numbers);
            }
        }
        for (group, margins) in this.margins.iter_mut().enumerate() {
            // Errors below 1e-30 may have lost bits.
            let mut sum = simd.splat(1e-24);
            for i in size * group..size * (group + 1) {
                let most = simd.add(simd.magnitude(values[i]), reach);
                sum = simd.add(sum, simd.mul(simd.mul(weights[i], most), most));
            }
            simd.put_f32::<false>(simd.mul(sum, simd.splat(ROUNDING)), margins);
        }
        this
    }

    /// Finds the points of a group at all steps. Where a combination is no point, its near points
    /// are compared.
    ///
    /// From one scale to the next, most combinations stay the same. The difference of two points'
    /// errors, divided by the scale, is linear in the scale. So the best point at two scales is
    /// also the best at those between, unless a difference is so small that rounding decides.
    ///
    /// Which steps are looked at next depends on results, which the processor cannot guess. So all
    /// comparisons that are known to be needed are made first.
    #[inline(always)]
    pub(super) fn snap<S: Simd, const P: usize, const STEPS: usize>(
        &self,
        simd: S,
        book: &Codebook<P>,
        steps: &mut Steps<GROUPS, STEPS>,
        group: usize,
    ) {
        let Steps { scales, places, changes, points, found, comparisons, .. } = steps;
        let (mut spans, mut halves) = (&mut steps.spans, &mut steps.halves);
        (comparisons.len, spans.len) = (0, 0);
        // The first step is the highest bit.
        let bit = |step: usize| 1 << (31 - step);
        let known = &mut changes[group];
        for (lane, known) in known.iter_mut().enumerate() {
            *known <<= 32 - STEPS;
            let mut changes = *known;
            let mut step = 0;
            while changes != 0 {
                changes &= !bit(step);
                let end = STEPS.min(changes.leading_zeros() as usize);
                let list = book.list(places[step][group][lane]);
                let nearest = Nearest { point: book.point(list.first), clear: true };
                let (first, last) = (comparisons.len, end - 1);
                for step in [step, last] {
                    found[lane][step] = f32::from_bits(nearest.point);
                    *known |= bit(step);
                }
                let several = list.count > 1;
                comparisons.push(Comparison { lane, step, list, nearest }, several);
                comparisons
                    .push(Comparison { lane, step: last, list, nearest }, several & (last > step));
                spans.push([first, first + 1], several & (last > step + 1));
                step = end;
            }
        }
        let levels = Codebook::<P>::levels(simd);
        let mut done = 0;
        while done < comparisons.len {
            for one in &mut comparisons.items[done..comparisons.len] {
                let (at, scale) = ((group, one.lane), scales[one.step][one.lane]);
                one.nearest = self.nearest(simd, book, at, one.list, scale, levels);
                found[one.lane][one.step] = f32::from_bits(one.nearest.point);
            }
            done = comparisons.len;
            halves.len = 0;
            for [left, right] in &spans.items[..spans.len] {
                let [a, b] = [left, right].map(|number| comparisons.items[number % 512]);
                let same = a.nearest.point == b.nearest.point;
                let open = !(same & a.nearest.clear & b.nearest.clear);
                let step = a.step.midpoint(b.step);
                let middle = comparisons.len;
                comparisons.push(Comparison { step, ..a }, open);
                halves.push([*left, middle], open & (step - a.step > 1));
                halves.push([middle, *right], open & (b.step - step > 1));
                known[a.lane] |= if open { bit(step) } else { 0 };
            }
            std::mem::swap(&mut spans, &mut halves);
        }
        // The other steps have the points of those before them.
        let (zero, mut known) = (simd.splat(0.0), simd.load_words(known));
        let mut last = zero;
        for (number, points) in points.chunks_mut(16).enumerate() {
            let mut rows = [zero; 16];
            for (row, found) in rows.iter_mut().zip(&*found) {
                *row = simd.load(&found.as_chunks().0[number]);
            }
            for (column, points) in simd.transposed(rows).into_iter().zip(points) {
                last = simd.choose(simd.below(simd.numbers(known), zero), column, last);
                known = simd.join::<1>(simd.whole(zero), known);
                let mut bits = [0.0; 16];
                simd.put_f32::<false>(last, &mut bits);
                points[group] = bits.map(f32::to_bits);
            }
        }
    }

    /// The near point with the smallest weighted square error, the first if there are several.
    /// `levels` are the values of the codes.
    #[inline(always)]
    pub(super) fn nearest<S: Simd, const P: usize>(
        &self,
        simd: S,
        book: &Codebook<P>,
        (group, lane): (usize, usize),
        list: PointList,
        scale: f32,
        levels: S::Floats,
    ) -> Nearest {
        let numbers = &self.numbers[group][lane];
        let scaled = simd.mul(simd.splat(scale), levels);
        // For each number, its errors with all codes.
        let mut errors = [scaled; P];
        for i in 0..P {
            let off = simd.sub(scaled, simd.splat(numbers[i]));
            errors[i] = simd.mul(simd.mul(simd.splat(numbers[8 + i]), off), off);
        }
        // In each lane, the smallest error, the smallest of the others, and the row of the first.
        // Without an error that is a number, the first point stays.
        let most = simd.splat(f32::MAX);
        let sum = Self::row(simd, book, &errors, list.first, list.count);
        let (mut best, mut next, mut rows) = (simd.least(sum, most), most, simd.splat(0.0));
        for row in 1..list.count.div_ceil(16) {
            let at = 16 * row;
            let sum = Self::row(simd, book, &errors, list.first + at, list.count - at);
            let better = simd.below(sum, best);
            next = simd.choose(better, best, simd.least(sum, next));
            best = simd.choose(better, sum, best);
            rows = simd.choose(better, simd.numbers(simd.load_words(&[row; 16])), rows);
        }
        let least = simd.smallest(best);
        let limit = simd.splat(least + self.margins[group][lane]);
        let close = !simd.bits(simd.below(limit, best)) & 0xffff;
        let mut ties = simd.bits(simd.same(best, simd.splat(least)));
        let mut clear = close & close.wrapping_sub(1) == 0;
        let mut position = ties.trailing_zeros();
        if list.count > 16 {
            clear &= simd.all(simd.below(limit, next));
            // Of equal errors, the first is the one in the first row.
            let mut row = [0; 16];
            simd.put_words(simd.whole(rows), &mut row);
            position = u32::MAX;
            while ties != 0 {
                let lane = ties.trailing_zeros();
                position = position.min(16 * row[lane as usize & 15] + lane);
                ties &= ties - 1;
            }
        }
        Nearest { point: book.point(list.first + position), clear }
    }

    /// The errors of up to 16 near points, followed by infinite ones.
    #[inline(always)]
    fn row<S: Simd, const P: usize>(
        simd: S,
        book: &Codebook<P>,
        errors: &[S::Floats; P],
        first: u32,
        count: u32,
    ) -> S::Floats {
        let errors = Codebook::<P>::entries(simd, errors, simd.load_words(book.row(first)));
        let mut sum = errors[0];
        for error in &errors[1..] {
            sum = simd.add(sum, *error);
        }
        let behind = BEHIND.get(16 - count.min(16) as usize..).unwrap_or_default();
        simd.add(sum, simd.load(behind.first_chunk().unwrap_or(&[0.0; 16])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ggml::encode::codebook::{IQ1, IQ2_S, IQ2_XXS, IQ3_S, IQ3_XXS};
    use crate::simd::Portable;

    /// Compares with a search of all near points at each scale.
    fn check<const P: usize, const GROUPS: usize, const STEPS: usize>(book: &Codebook<P>, top: u8) {
        let simd = Portable;
        let mut state = 1u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32
        };
        let full = 2.0 * f32::from(top) - 1.0;
        for round in 0..60 {
            let mut values = [[0.0; 16]; 16];
            let mut weights = [[0.0; 16]; 16];
            for (i, value) in values.as_flattened_mut().iter_mut().enumerate() {
                *value = match i % 16 {
                    0 => 0.5,
                    // Many equal errors.
                    1 | 2 => (random() * 2.0 * full).round() / (2.0 * full),
                    3 => random() * 1e-20,
                    4 => random() * 1e18,
                    5 if round % 4 == 1 => f32::NAN,
                    6 => 0.0,
                    _ => random(),
                };
            }
            for (i, weight) in weights.as_flattened_mut().iter_mut().enumerate() {
                *weight = match i % 16 {
                    2 => 1.0,
                    7 if random() < 0.7 => 0.0,
                    8 => -random(),
                    9 => f32::INFINITY,
                    _ => random(),
                };
            }
            let mut range = [0.0f32; 16];
            for values in values {
                range = simd.most(range, values);
            }
            let reach = range.map(|range| range * 1.5);
            let targets: Targets<16, GROUPS> = Targets::new(simd, &values, &weights, reach);
            let mut steps: Steps<GROUPS, STEPS> = Steps::new();
            for number in 0..STEPS {
                let inverse = full + (number as f32 - (STEPS / 2) as f32) * 0.1;
                let inverse = range.map(|range| inverse / range);
                steps.scales[number] = inverse.map(|inverse| 1.0 / inverse);
                for group in 0..GROUPS {
                    let codes = std::array::from_fn(|i| {
                        let above = simd.mul(inverse, values[P * group + i]);
                        let code = simd.mul([0.5; 16], simd.sub(above, [1.0; 16]));
                        simd.nearest(code, 0, i32::from(top) - 1)
                    });
                    let places = simd.whole(book.place(simd, &codes));
                    steps.places[number][group] = places;
                    for lane in 0..16 {
                        let same =
                            number > 0 && steps.places[number - 1][group][lane] == places[lane];
                        steps.changes[group][lane] =
                            steps.changes[group][lane] << 1 | u32::from(!same);
                    }
                }
            }
            for group in 0..GROUPS {
                targets.snap(simd, book, &mut steps, group);
            }
            for (number, group, lane) in
                (0..16 * GROUPS * STEPS).map(|i| (i / (16 * GROUPS), i / 16 % GROUPS, i % 16))
            {
                let list = book.list(steps.places[number][group][lane]);
                let mut best = (book.point(list.first), f32::MAX);
                for i in 0..list.count {
                    let point = book.point(list.first + i);
                    let levels = [Codebook::<P>::levels(simd); P];
                    let mut error = 0.0;
                    for (i, q) in
                        Codebook::<P>::entries(simd, &levels, [point; 16]).iter().enumerate()
                    {
                        let at = P * group + i;
                        let off = steps.scales[number][lane] * q[0] - values[at][lane];
                        error += weights[at][lane] * off * off;
                    }
                    if error < best.1 {
                        best = (point, error);
                    }
                }
                let found = steps.points[number][group][lane];
                assert_eq!(found, best.0, "{round} {number} {group} {lane}");
            }
        }
    }

    #[test]
    fn points_between_two_scales_are_those_of_a_full_search() {
        check::<8, 2, 19>(&IQ2_XXS, 3);
        check::<8, 2, 19>(&IQ2_S, 3);
        check::<8, 2, 1>(&IQ1, 3);
        check::<4, 4, 31>(&IQ3_XXS, 8);
        check::<4, 4, 19>(&IQ3_S, 8);
    }
}
