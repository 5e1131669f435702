//! Which of the near points of a combination of codes has the smallest error.

use std::ops::Range;

use super::Simd;
use super::codebook::{Codebook, Point, PointList, Points};

/// How far rounding may move the difference of two errors, as a part of an upper bound of errors.
/// The two roundings of a distance, three more of its weighted square and those of the sum add up to
/// less than 15 / 2^24 of it for one error. There are two errors, at both ends and between; and from
/// an end the difference may shrink as the scale does, by half at most.
const ROUNDING: f32 = 6e-6;

/// The positions of a row.
const NUMBERS: [f32; 16] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];

/// The last of the values that [`Simd::fours`] can choose from, which no code of a point is.
const LAST: [f32; 16] =
    [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];

/// What errors are computed from: `N` numbers of each lane, and their weights.
pub(super) struct Targets<const N: usize, const GROUPS: usize> {
    /// For each group and lane, the group's numbers, and from the ninth on their weights.
    numbers: [[[f32; 16]; 16]; GROUPS],
    /// For each group and lane, by how much the best error must be below the others to be the best
    /// in spite of rounding.
    margins: [[f32; 16]; GROUPS],
}

/// Scales that are tried in each lane, and what results.
pub(super) struct Steps<const GROUPS: usize, const STEPS: usize> {
    pub(super) scales: [[f32; 16]; STEPS],
    /// The combinations of codes.
    pub(super) places: [[[u32; 16]; GROUPS]; STEPS],
    /// The points that were found.
    pub(super) points: [Points<GROUPS>; STEPS],
}

/// A comparison of the near points of a combination, for a group of numbers in a lane at a scale.
#[derive(Clone, Copy, Default)]
struct Comparison {
    /// 16 times the group, plus the lane.
    at: usize,
    step: usize,
    list: PointList,
    /// The first of the points with the smallest error.
    point: Point,
    error: f32,
    /// The smallest of the other errors.
    next: f32,
}

/// Up to 16 near points that are compared.
#[derive(Clone, Copy, Default)]
struct Row {
    comparison: usize,
    first: u32,
}

impl<const GROUPS: usize, const STEPS: usize> Steps<GROUPS, STEPS> {
    /// Steps without scales, and with one point everywhere.
    pub(super) fn new(point: Point) -> Self {
        Self {
            scales: [[0.0; 16]; STEPS],
            places: [[[0; 16]; GROUPS]; STEPS],
            points: [[[point; 16]; GROUPS]; STEPS],
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

    /// Finds points for the lanes' combinations at each scale: the points equal to them, if there
    /// are such; otherwise those of the near points with the smallest weighted square errors, the
    /// first if there are several. `levels` gives the values of the codes from 0 to 3, four times, in
    /// a group and lane. Points that are not `wanted` remain. `changes` has a bit for each scale, the
    /// last one lowest: whether the combination is another one than before, as the first is.
    ///
    /// From one scale to the next, most combinations stay the same. The difference of two points'
    /// errors, divided by the scale, is linear in the scale. So the best point at two scales is
    /// also the best at those between, unless a difference is so small that rounding decides.
    #[inline(always)]
    pub(super) fn snap<'a, S: Simd, const P: usize, const STEPS: usize>(
        &self,
        simd: S,
        book: &Codebook<P>,
        (steps, changes): (&mut Steps<GROUPS, STEPS>, &[[u32; 16]; GROUPS]),
        levels: impl Fn(usize, usize) -> &'a [f32; 16],
        wanted: impl Fn(usize, usize) -> bool,
    ) {
        let mut all = Vec::new();
        // Comparisons at two scales between which the combination stays the same.
        let (mut spans, mut halves) = (Vec::new(), Vec::new());
        let places = steps.places.as_flattened().as_flattened();
        let points = steps.points.as_flattened_mut().as_flattened_mut();
        let wide = 16 * GROUPS;
        for (at, changes) in changes.as_flattened().iter().enumerate() {
            if !wanted(at / 16, at % 16) {
                continue;
            }
            // The first step is the highest bit.
            let mut bits = changes << (32 - STEPS);
            let mut step = 0;
            while bits != 0 {
                bits &= u32::MAX >> step >> 1;
                let end = STEPS.min(bits.leading_zeros() as usize);
                let list = book.list(places[step * wide + at]);
                if list.count == 0 {
                    put(points, wide, at, step..end, list.first);
                } else {
                    let first = Comparison { at, step, list, ..Comparison::default() };
                    all.push(first);
                    if end - step > 1 {
                        all.push(Comparison { step: end - 1, ..first });
                    }
                    if end - step > 2 {
                        spans.push([all.len() - 2, all.len() - 1]);
                    }
                }
                step = end;
            }
        }
        let margins = self.margins.as_flattened();
        let mut done = 0;
        while done < all.len() {
            let new = &mut all[done..];
            if P == 8 {
                self.compare_rows(simd, book, &steps.scales, &levels, new);
            } else {
                self.compare_lanes(simd, book, &steps.scales, new);
            }
            for one in new {
                points[one.step * wide + one.at] = one.point;
            }
            done = all.len();
            for [start, last] in spans.drain(..) {
                let (a, b) = (&all[start], &all[last]);
                let margin = margins[a.at];
                let clear = a.next - a.error > margin && b.next - b.error > margin;
                if clear && a.point == b.point {
                    put(points, wide, a.at, a.step + 1..b.step, a.point);
                    continue;
                }
                let middle = a.step.midpoint(b.step);
                if middle - a.step > 1 {
                    halves.push([start, all.len()]);
                }
                if b.step - middle > 1 {
                    halves.push([all.len(), last]);
                }
                all.push(Comparison { step: middle, ..*a });
            }
            std::mem::swap(&mut spans, &mut halves);
        }
    }

    /// Compares points of up to 8 codes, each 0, 1 or 2: 16 points of one list at a time.
    #[inline(always)]
    fn compare_rows<'a, S: Simd, const P: usize, const STEPS: usize>(
        &self,
        simd: S,
        book: &Codebook<P>,
        scales: &[[f32; 16]; STEPS],
        levels: &impl Fn(usize, usize) -> &'a [f32; 16],
        all: &mut [Comparison],
    ) {
        let mut rows = [Row::default(); 16];
        let mut errors = [simd.splat(0.0); 16];
        let mut waiting = 0;
        let infinite = simd.splat(f32::INFINITY);
        let last = simd.same(simd.load(&LAST), simd.splat(1.0));
        let numbers = self.numbers.as_flattened();
        for number in 0..all.len() {
            let one = &mut all[number];
            // Without an error that is a number, the first point stays.
            (one.point, one.error, one.next) = (book.near(one.list.first)[0], f32::MAX, f32::MAX);
            let Comparison { at, step, list, .. } = *one;
            // The errors of the numbers with each code; what follows the list has an infinite one.
            let scale = simd.splat(scales[step][at % 16]);
            let scaled = simd.mul(scale, simd.load(levels(at / 16, at % 16)));
            let mut tables = [[0.0; 16]; 2];
            let (fours, _) = numbers[at].as_chunks::<4>();
            for half in 0..2 {
                let off = simd.sub(scaled, simd.fourfold(&fours[half]));
                let mut error = simd.mul(simd.mul(simd.fourfold(&fours[2 + half]), off), off);
                if half == 0 {
                    error = simd.choose(last, infinite, error);
                }
                simd.put_f32::<false>(error, &mut tables[half]);
            }
            let tables = tables.as_flattened().as_chunks::<4>().0;
            for first in (list.first..list.first + list.count).step_by(16) {
                let mut points = simd.load_words(book.near(first));
                let mut sum = simd.fours(&tables[0], points);
                for table in &tables[1..P] {
                    points = simd.down::<2>(points);
                    sum = simd.add(sum, simd.fours(table, points));
                }
                rows[waiting] = Row { comparison: number, first };
                errors[waiting] = sum;
                waiting += 1;
                if waiting == 16 {
                    merge(simd, book, errors, &rows, all);
                    waiting = 0;
                }
            }
        }
        if waiting > 0 {
            merge(simd, book, errors, &rows[..waiting], all);
        }
    }

    /// Compares points of 4 codes, which stand for odd numbers: 16 lists at a time.
    #[inline(always)]
    fn compare_lanes<S: Simd, const P: usize, const STEPS: usize>(
        &self,
        simd: S,
        book: &Codebook<P>,
        scales: &[[f32; 16]; STEPS],
        all: &mut [Comparison],
    ) {
        let most = simd.splat(f32::MAX);
        let (numbers, scales) = (self.numbers.as_flattened(), scales.as_flattened());
        for some in by_length(all).chunks(16) {
            let mut rows = [simd.splat(0.0); 16];
            let (mut own, mut counts, mut firsts) = ([0.0; 16], [0; 16], [0; 16]);
            for (i, number) in some.iter().enumerate() {
                let Comparison { at, step, list, .. } = all[*number];
                rows[i] = simd.load(&numbers[at]);
                own[i] = scales[16 * step + at % 16];
                (counts[i], firsts[i]) = (list.count, list.first);
            }
            let columns = simd.transposed(rows);
            let own = simd.load(&own);
            let longest = counts.into_iter().max().unwrap_or_default();
            let counts = simd.numbers(simd.load_words(&counts));
            let (mut best, mut next, mut place) = (most, most, simd.splat(0.0));
            let mut at = simd.splat(0.0);
            for start in (0..longest).step_by(16) {
                let mut points = [simd.load_words(&[0; 16]); 16];
                for (points, first) in points.iter_mut().zip(firsts) {
                    *points = simd.load_words(book.near(first + start));
                }
                let points = simd.transposed_words(points);
                for points in &points[..16.min(longest - start) as usize] {
                    let levels = Codebook::<P>::unpacked(simd, *points);
                    let error = |i: usize| {
                        let off = simd.sub(simd.mul(own, levels[i]), columns[i]);
                        simd.mul(simd.mul(columns[8 + i], off), off)
                    };
                    let mut sum = error(0);
                    for i in 1..P {
                        sum = simd.add(sum, error(i));
                    }
                    sum = simd.choose(simd.below(at, counts), sum, most);
                    let better = simd.below(sum, best);
                    next = simd.choose(better, best, simd.least(sum, next));
                    best = simd.choose(better, sum, best);
                    place = simd.choose(better, at, place);
                    at = simd.add(at, simd.splat(1.0));
                }
            }
            let (mut errors, mut others, mut places) = ([0.0; 16], [0.0; 16], [0; 16]);
            simd.put_f32::<false>(best, &mut errors);
            simd.put_f32::<false>(next, &mut others);
            simd.put_words(simd.whole(place), &mut places);
            for (i, number) in some.iter().enumerate() {
                let one = &mut all[*number];
                one.point = book.near(one.list.first + places[i])[0];
                (one.error, one.next) = (errors[i], others[i]);
            }
        }
    }
}

/// Puts a point into some steps, for one group and lane.
#[inline(always)]
fn put(points: &mut [Point], wide: usize, at: usize, steps: Range<usize>, point: Point) {
    let mut place = steps.start * wide + at;
    for _ in steps {
        points[place] = point;
        place += wide;
    }
}

/// The numbers of comparisons, those with short lists first, so that lists of a similar length are
/// compared together.
fn by_length(all: &[Comparison]) -> Vec<usize> {
    let length = |one: &Comparison| one.list.count.min(31) as usize;
    let mut ends = [0; 33];
    for one in all {
        ends[length(one) + 1] += 1;
    }
    for i in 1..ends.len() {
        ends[i] += ends[i - 1];
    }
    let mut order = vec![0; all.len()];
    for (number, one) in all.iter().enumerate() {
        let end = &mut ends[length(one)];
        order[*end] = number;
        *end += 1;
    }
    order
}

/// Finds the first of the smallest errors of each row, and whether it is the smallest of its list.
#[inline(always)]
fn merge<S: Simd, const P: usize>(
    simd: S,
    book: &Codebook<P>,
    errors: [S::Floats; 16],
    rows: &[Row],
    all: &mut [Comparison],
) {
    let most = simd.splat(f32::MAX);
    let (mut best, mut next, mut place) = (most, most, simd.splat(0.0));
    for (errors, number) in simd.transposed(errors).into_iter().zip(NUMBERS) {
        let better = simd.below(errors, best);
        next = simd.choose(better, best, simd.least(errors, next));
        best = simd.choose(better, errors, best);
        place = simd.choose(better, simd.splat(number), place);
    }
    let (mut errors, mut others, mut offsets) = ([0.0; 16], [0.0; 16], [0; 16]);
    simd.put_f32::<false>(best, &mut errors);
    simd.put_f32::<false>(next, &mut others);
    simd.put_words(simd.whole(place), &mut offsets);
    for (i, row) in rows.iter().enumerate() {
        let one = &mut all[row.comparison];
        if errors[i] < one.error {
            one.next = one.error.min(others[i]);
            (one.point, one.error) = (book.near(row.first + offsets[i])[0], errors[i]);
        } else {
            one.next = one.next.min(errors[i]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::ggml::encode::codebook::{IQ1, IQ2_S, IQ2_XXS, IQ3_S, IQ3_XXS};
    use crate::quant::simd::Portable;

    /// Compares with a search of all near points at each scale.
    fn check<const P: usize, const GROUPS: usize, const STEPS: usize>(book: &Codebook<P>, top: u8) {
        let simd = Portable;
        let mut state = 1u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32
        };
        let levels = std::array::from_fn(|i| 2.0 * (i % 4) as f32 + 1.0);
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
            let mut steps: Steps<GROUPS, STEPS> = Steps::new(0);
            let mut changes = [[0; 16]; GROUPS];
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
                        changes[group][lane] = changes[group][lane] << 1 | u32::from(!same);
                    }
                }
            }
            targets.snap(simd, book, (&mut steps, &changes), |_, _| &levels, |_, _| true);
            for (number, group, lane) in
                (0..16 * GROUPS * STEPS).map(|i| (i / (16 * GROUPS), i / 16 % GROUPS, i % 16))
            {
                let list = book.list(steps.places[number][group][lane]);
                let mut best = (list.first, f32::MAX);
                if list.count > 0 {
                    best.0 = book.near(list.first)[0];
                }
                for i in 0..list.count {
                    let point = book.near(list.first + i)[0];
                    let mut error = 0.0;
                    for (i, q) in Codebook::<P>::odds(simd, [point; 16]).iter().enumerate() {
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
