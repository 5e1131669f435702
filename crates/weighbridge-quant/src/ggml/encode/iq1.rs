//! Quantizers of the dtypes with ternary codebook points that are shifted up or down by an eighth.
//! Each lane quantizes one block.
//!
//! The best split of a run's numbers into -1, 0 and 1 is searched exhaustively: with the numbers in
//! ascending order, a split is a pair of positions. The points are then taken from the codebook.

use std::array::from_fn;

use super::codebook::{Codebook, IQ1 as BOOK, Point, Points, number_of};
use super::nearest::Targets;
use super::point::{floats, half_bits, mean_square, nearest, put_half};
use super::search::count;
use super::{Batch, Simd, largest, quantizers, weigh};

/// The number that is added to codes from 0 to 2: the values are shifted up or down.
const UP: f32 = -0.875;
const DOWN: f32 = -1.125;

/// The distances of the positions that splits are made at: a few first, then all.
const STRIDES: [usize; 2] = [4, 1];

quantizers! {
    IQ1_S: 256 => 50 Required, |batch, out| {
        let simd = batch.simd;
        let mean = mean_square(batch, 2.0);
        let mut found = [([0.0; 16], [UP; 16], [[0; 16]; 4]); 8];
        for (number, found) in found.iter_mut().enumerate() {
            let (x, weights) = run::<S, 32>(batch, number, mean);
            let split = whole_split(simd, &x, &weights);
            let (scale, points) = snapped::<S, 32, 4>(simd, &x, &weights, &split);
            *found = (floats(simd, scale), floats(simd, split.shifts[0]), points);
        }
        for (lane, out) in out.iter_mut().enumerate() {
            *out = [0; 50];
            for (number, (.., points)) in found.iter().enumerate() {
                let mut high = 0;
                for (k, points) in points.iter().enumerate() {
                    let point = number_of(points[lane]);
                    out[2 + 4 * number + k] = point.to_le_bytes()[0];
                    high |= (point >> 8) << (3 * k);
                }
                out[34 + 2 * number..36 + 2 * number].copy_from_slice(&high.to_le_bytes());
            }
            let scales = found.map(|(scales, ..)| scales[lane]);
            let max = scales.into_iter().fold(0.0, |max, scale| if max > scale { max } else { scale });
            if max == 0.0 {
                continue;
            }
            let d = max / 15.0;
            put_half(out, 0, d * 1.125);
            for (number, (_, shifts, _)) in found.iter().enumerate() {
                let code = nearest(0.5 * (1.0 / d * scales[number] - 1.0), 7);
                let code = if shifts[lane] == UP { code } else { code | 8 };
                out[35 + 2 * number] |= code << 4;
            }
        }
    }

    IQ1_M: 256 => 56 Used, |batch, out| {
        let simd = batch.simd;
        let (zero, one) = (simd.splat(0.0), simd.splat(1.0));
        let mean = mean_square(batch, 2.0);
        let mut max = zero;
        let mut scales = [zero; 16];
        let mut shifts = [[simd.splat(UP); 2]; 16];
        let mut points = [[[0; 16]; 2]; 16];
        let mut runs = [([zero; 16], [zero; 16]); 16];
        for (number, taken) in runs.iter_mut().enumerate() {
            *taken = run::<S, 16>(batch, number, mean);
            let (x, weights) = &*taken;
            let split = half_splits(simd, x, weights);
            (scales[number], points[number]) = snapped::<S, 16, 2>(simd, x, weights, &split);
            shifts[number] = split.shifts;
            max = simd.most(max, scales[number]);
        }
        let d = simd.div(max, simd.splat(15.0));
        let inverse = simd.div(one, d);
        let (mut sumqx, mut sumq2) = (zero, zero);
        let mut codes = [[0; 16]; 16];
        for number in 0..16 {
            let above = simd.sub(simd.mul(inverse, scales[number]), one);
            let code = simd.nearest(simd.mul(simd.splat(0.5), above), 0, 7);
            simd.put_words(simd.whole(code), &mut codes[number]);
            let factor = simd.add(simd.add(code, code), one);
            let (x, weights) = &runs[number];
            for half in 0..2 {
                let codes = codes_of(simd, &points[number][half]);
                for i in 0..8 {
                    let q = simd.mul(simd.add(codes[i], shifts[number][half]), factor);
                    let weighted = simd.mul(weights[8 * half + i], q);
                    sumqx = simd.add(sumqx, simd.mul(weighted, x[8 * half + i]));
                    sumq2 = simd.add(sumq2, simd.mul(weighted, q));
                }
            }
        }
        let d = simd.choose(simd.below(zero, sumq2), simd.div(sumqx, sumq2), d);
        let d = floats(simd, simd.mul(d, simd.splat(1.1125)));
        let max = floats(simd, max);
        let mut down = [[[0.0; 16]; 2]; 16];
        for (down, shifts) in down.iter_mut().zip(&shifts) {
            *down = [floats(simd, shifts[0]), floats(simd, shifts[1])];
        }
        for (lane, out) in out.iter_mut().enumerate() {
            *out = [0; 56];
            let mut words = [0u16; 4];
            for number in 0..16 {
                let [a, b] = points[number].map(|points| number_of(points[lane]));
                out[2 * number] = a.to_le_bytes()[0];
                out[2 * number + 1] = b.to_le_bytes()[0];
                out[32 + number] = (a >> 8 | b >> 8 << 4).to_le_bytes()[0];
                if max[lane] != 0.0 {
                    let [a, b] = down[number].map(|shifts| u8::from(shifts[lane] == DOWN));
                    out[32 + number] |= a << 3 | b << 7;
                    words[number / 4] |= u16::from(codes[number][lane].to_le_bytes()[0]) << (3 * (number % 4));
                }
            }
            if max[lane] == 0.0 {
                continue;
            }
            let d = half_bits(d[lane]);
            for (k, word) in words.into_iter().enumerate() {
                let word = word | (d >> (4 * k) & 15) << 12;
                out[48 + 2 * k..50 + 2 * k].copy_from_slice(&word.to_le_bytes());
            }
        }
    }
}

/// Splits of the lanes' runs.
struct TernaryCodes<S: Simd, const N: usize> {
    scale: S::Floats,
    /// From 0 to 2.
    codes: [S::Floats; N],
    /// The numbers that are added to the codes of each half.
    shifts: [S::Floats; 2],
    /// The lanes without a split.
    nothing: S::Mask,
}

/// The codes of points, from 0 to 2.
#[inline(always)]
fn codes_of<S: Simd>(simd: S, points: &[Point; 16]) -> [S::Floats; 8] {
    let codes = simd.load(&from_fn(|i| count(i % 4)));
    Codebook::<8>::entries(simd, &[codes; 8], simd.load_words(points))
}

/// The values of runs, and their weights.
#[inline(always)]
fn run<S: Simd, const N: usize>(
    batch: &Batch<'_, S, 256>,
    number: usize,
    mean: S::Floats,
) -> ([S::Floats; N], [S::Floats; N]) {
    let simd = batch.simd;
    let (mut x, mut weights) = ([simd.splat(0.0); N], [simd.splat(0.0); N]);
    batch.values(N * number, &mut x);
    if batch.importance(N * number, &mut weights) {
        weigh(simd, &mut weights, &x, mean);
    } else {
        for (weight, x) in weights.iter_mut().zip(x) {
            *weight = simd.mul(x, x);
        }
    }
    (x, weights)
}

/// The numbers of runs in ascending order, the first of equal ones first; NaN may be anywhere.
struct Sorted<S: Simd, const N: usize> {
    x: [S::Floats; N],
    weights: [S::Floats; N],
    places: [S::Floats; N],
}

impl<S: Simd, const N: usize> Sorted<S, N> {
    /// Sorts with Batcher's merging network, which compares the same positions in all lanes.
    #[inline(always)]
    fn of(simd: S, x: &[S::Floats; N], weights: &[S::Floats; N]) -> Self {
        let mut this = Self { x: *x, weights: *weights, places: *x };
        for i in 0..N {
            this.places[i] = simd.splat(count(i));
        }
        let mut sorted = 1;
        while sorted < N {
            let mut apart = sorted;
            while apart > 0 {
                for i in 0..N - apart {
                    let paired = i >= apart % sorted && (i - apart % sorted) / apart % 2 == 0;
                    if paired && i / (2 * sorted) == (i + apart) / (2 * sorted) {
                        this.compare(simd, i, i + apart);
                    }
                }
                apart /= 2;
            }
            sorted *= 2;
        }
        this
    }

    #[inline(always)]
    fn compare(&mut self, simd: S, i: usize, j: usize) {
        let tie =
            simd.both(simd.same(self.x[j], self.x[i]), simd.below(self.places[j], self.places[i]));
        let swap = simd.either(simd.below(self.x[j], self.x[i]), tie);
        for all in [&mut self.x, &mut self.weights, &mut self.places] {
            let (a, b) = (all[i], all[j]);
            (all[i], all[j]) = (simd.choose(swap, b, a), simd.choose(swap, a, b));
        }
    }

    /// Adds one to the codes of all numbers from a position in order on.
    #[inline(always)]
    fn raise(&self, simd: S, x: &[S::Floats; N], from: S::Floats, codes: &mut [S::Floats; N]) {
        let (zero, one) = (simd.splat(0.0), simd.splat(1.0));
        let (mut least, mut first) = (simd.splat(f32::INFINITY), simd.splat(count(N)));
        for j in 0..N {
            let here = simd.same(from, simd.splat(count(j)));
            least = simd.choose(here, self.x[j], least);
            first = simd.choose(here, self.places[j], first);
        }
        for i in 0..N {
            let behind = simd.below(first, simd.splat(count(i) + 0.5));
            let behind = simd.both(simd.same(least, x[i]), behind);
            let raised = simd.either(simd.below(least, x[i]), behind);
            codes[i] = simd.add(codes[i], simd.choose(raised, one, zero));
        }
    }
}

/// The best split of each lane so far.
struct BestSplit<S: Simd> {
    scale: S::Floats,
    score: S::Floats,
    /// The positions; the first is negative if there is no split.
    places: [S::Floats; 2],
    shifts: [S::Floats; 2],
}

impl<S: Simd> BestSplit<S> {
    #[inline(always)]
    fn none(simd: S, max: S::Floats) -> Self {
        let up = simd.splat(UP);
        Self {
            scale: max,
            score: simd.splat(f32::MIN),
            places: [simd.splat(-1.0); 2],
            shifts: [up; 2],
        }
    }

    /// Looks at a few splits, before all are offered.
    #[inline(always)]
    fn expect(&mut self, simd: S, sums: &[[S::Floats; 2]]) {
        for [sumqx, sumq2] in sums {
            let score = simd.div(simd.mul(*sumqx, *sumqx), *sumq2);
            let score = simd.choose(simd.below(simd.splat(0.0), *sumq2), score, self.score);
            self.score = simd.most(score, self.score);
        }
    }

    /// Raises the score that splits must exceed to a little less than the largest expected one.
    ///
    /// That changes nothing: the first split above it is taken either way, because those before it are
    /// below it, and from then on everything is the same. Rounding only decides between scores that
    /// differ by less than 3e-7, unless they are so small or so large that they lose bits; and with
    /// 1,122 splits, such differences add up to less than a thousandth. `sumw` is the sum of all
    /// weights, of which the sum of weighted squares is between a 64th and four thirds.
    #[inline(always)]
    fn begin(&mut self, simd: S, sumw: S::Floats) {
        let mut sure = simd.same(sumw, sumw);
        for sum in [self.score, sumw, simd.mul(self.score, sumw)] {
            sure = simd.both(sure, simd.below(simd.splat(1e-30), sum));
            sure = simd.both(sure, simd.below(sum, simd.splat(1e30)));
        }
        let score = simd.mul(self.score, simd.splat(0.999));
        self.score = simd.choose(sure, score, simd.splat(f32::MIN));
    }

    /// Offers a split with several shifts.
    #[inline(always)]
    fn offer<const SHIFTS: usize>(
        &mut self,
        simd: S,
        sums: &[[S::Floats; 2]; SHIFTS],
        places: [usize; 2],
        shifts: &[[f32; 2]; SHIFTS],
    ) {
        let exceeds = |score: S::Floats, [sumqx, sumq2]: [S::Floats; 2]| {
            simd.below(simd.mul(score, sumq2), simd.mul(sumqx, sumqx))
        };
        // Mostly none is better.
        let mut some = exceeds(self.score, sums[0]);
        for sums in &sums[1..] {
            some = simd.either(some, exceeds(self.score, *sums));
        }
        if !simd.any(some) {
            return;
        }
        for (sums, shifts) in sums.iter().zip(shifts) {
            let [sumqx, sumq2] = *sums;
            let better = simd.both(simd.below(simd.splat(0.0), sumq2), exceeds(self.score, *sums));
            let scale = simd.div(sumqx, sumq2);
            self.scale = simd.choose(better, scale, self.scale);
            self.score = simd.choose(better, simd.mul(scale, sumqx), self.score);
            for i in 0..2 {
                let place = simd.splat(count(places[i]));
                self.places[i] = simd.choose(better, place, self.places[i]);
                self.shifts[i] = simd.choose(better, simd.splat(shifts[i]), self.shifts[i]);
            }
        }
    }

    /// The codes of the split. `few` are the lanes without numbers to split.
    #[inline(always)]
    fn split<const N: usize>(
        self,
        simd: S,
        x: &[S::Floats; N],
        sorted: &Sorted<S, N>,
        few: S::Mask,
    ) -> TernaryCodes<S, N> {
        let zero = simd.splat(0.0);
        let mut codes = [zero; N];
        for place in self.places {
            sorted.raise(simd, x, place, &mut codes);
        }
        // A negative scale is made positive by changing the signs of all values.
        let turn = simd.below(self.scale, zero);
        let (two, minus_two) = (simd.splat(2.0), simd.splat(-2.0));
        for code in &mut codes {
            *code = simd.choose(turn, simd.sub(two, *code), *code);
        }
        let nothing = simd.either(few, simd.below(self.places[0], zero));
        let mut shifts = self.shifts;
        for shift in &mut shifts {
            *shift = simd.choose(turn, simd.sub(minus_two, *shift), *shift);
            *shift = simd.choose(nothing, simd.splat(UP), *shift);
        }
        let scale = simd.choose(turn, simd.mul(self.scale, simd.splat(-1.0)), self.scale);
        TernaryCodes { scale, codes, shifts, nothing }
    }
}

/// The best splits of 32 numbers with the same shift.
#[inline(always)]
fn whole_split<S: Simd>(
    simd: S,
    x: &[S::Floats; 32],
    weights: &[S::Floats; 32],
) -> TernaryCodes<S, 32> {
    let zero = simd.splat(0.0);
    let max = largest(simd, x);
    let sorted = Sorted::of(simd, x, weights);
    let (mut sumx, mut sumw) = ([zero; 33], [zero; 33]);
    for j in 0..32 {
        sumx[j + 1] = simd.add(sumx[j], simd.mul(sorted.weights[j], sorted.x[j]));
        sumw[j + 1] = simd.add(sumw[j], sorted.weights[j]);
    }
    // What the highest code adds, for each shift.
    let shifts = [UP, DOWN];
    let mut after = [[[zero; 2]; 2]; 33];
    for second in 0..33 {
        for (after, shift) in after[second].iter_mut().zip(shifts) {
            let value = simd.splat(2.0 + shift);
            let sumw = simd.mul(simd.sub(sumw[32], sumw[second]), value);
            *after = [simd.mul(simd.sub(sumx[32], sumx[second]), value), simd.mul(sumw, value)];
        }
    }
    let mut best = BestSplit::none(simd, max);
    let (eighth, minus) = (simd.splat(0.125), simd.splat(-0.125));
    for stride in STRIDES {
        if stride == 1 {
            best.begin(simd, sumw[32]);
        }
        for first in (stride - 1..33).step_by(stride) {
            let mut before = [[zero; 2]; 2];
            for (before, shift) in before.iter_mut().zip(shifts) {
                let value = simd.splat(shift);
                let sumw = simd.mul(sumw[first], value);
                *before = [simd.mul(sumx[first], value), simd.mul(sumw, value)];
            }
            for second in (first..33).step_by(stride) {
                let qx = simd.sub(sumx[second], sumx[first]);
                let q2 = simd.mul(simd.mul(simd.sub(sumw[second], sumw[first]), eighth), eighth);
                let mut sums = [[zero; 2]; 2];
                for (i, value) in [eighth, minus].into_iter().enumerate() {
                    sums[i] = [
                        simd.add(simd.add(before[i][0], simd.mul(qx, value)), after[second][i][0]),
                        simd.add(simd.add(before[i][1], q2), after[second][i][1]),
                    ];
                }
                if stride == 1 {
                    best.offer(simd, &sums, [first, second], &[[UP; 2], [DOWN; 2]]);
                } else {
                    best.expect(simd, &sums);
                }
            }
        }
    }
    best.split(simd, x, &sorted, simd.below(max, simd.splat(1e-12)))
}

/// The best splits of 16 numbers, of which each half has its own shift.
#[inline(always)]
fn half_splits<S: Simd>(
    simd: S,
    x: &[S::Floats; 16],
    weights: &[S::Floats; 16],
) -> TernaryCodes<S, 16> {
    let zero = simd.splat(0.0);
    let max = largest(simd, x);
    let sorted = Sorted::of(simd, x, weights);
    let shifts = [UP, DOWN];
    // For each half, the sums up to each position; and what they add at the first position and at
    // the second, for each shift. Values differ by 1, so what lies before both positions counts
    // two less.
    let mut px = [[zero; 17]; 2];
    let (mut before, mut between) = ([[[zero; 2]; 2]; 17], [[[zero; 2]; 2]; 17]);
    let mut whole = [[zero; 2]; 2];
    let mut sumw = zero;
    for half in 0..2 {
        let mut pw = [zero; 17];
        for j in 0..16 {
            let first = simd.below(sorted.places[j], simd.splat(8.0));
            let (x, weight) = (simd.mul(sorted.weights[j], sorted.x[j]), sorted.weights[j]);
            let (x, weight) = (simd.add(px[half][j], x), simd.add(pw[j], weight));
            let (yes, no) = ([x, weight], [px[half][j], pw[j]]);
            let [yes, no] = if half == 0 { [yes, no] } else { [no, yes] };
            px[half][j + 1] = simd.choose(first, yes[0], no[0]);
            pw[j + 1] = simd.choose(first, yes[1], no[1]);
        }
        sumw = simd.add(sumw, pw[16]);
        for (i, shift) in shifts.into_iter().enumerate() {
            let [a, b, c] = [shift, 1.0 + shift, 2.0 + shift];
            whole[half][i] = simd.mul(px[half][16], simd.splat(c));
            let all = simd.mul(simd.mul(pw[16], simd.splat(c)), simd.splat(c));
            for j in 0..17 {
                let low = simd.mul(pw[j], simd.splat(a * a - b * b));
                before[j][half][i] = simd.add(all, low);
                between[j][half][i] = simd.mul(pw[j], simd.splat(b * b - c * c));
            }
        }
    }
    let mut best = BestSplit::none(simd, max);
    for stride in STRIDES {
        if stride == 1 {
            best.begin(simd, sumw);
        }
        for first in (stride - 1..17).step_by(stride) {
            for second in (first..17).step_by(stride) {
                let mut parts = [[[zero; 2]; 2]; 2];
                for half in 0..2 {
                    let sum = simd.add(px[half][first], px[half][second]);
                    for i in 0..2 {
                        let q2 = simd.add(before[first][half][i], between[second][half][i]);
                        parts[half][i] = [simd.sub(whole[half][i], sum), q2];
                    }
                }
                let mut sums = [[zero; 2]; 4];
                for i in 0..4 {
                    let ([a, c], [b, d]) = (parts[0][i / 2], parts[1][i % 2]);
                    sums[i] = [simd.add(a, b), simd.add(c, d)];
                }
                if stride == 1 {
                    let shifts = [[UP, UP], [UP, DOWN], [DOWN, UP], [DOWN, DOWN]];
                    best.offer(simd, &sums, [first, second], &shifts);
                } else {
                    best.expect(simd, &sums);
                }
            }
        }
    }
    best.split(simd, x, &sorted, simd.below(max, simd.splat(1e-7)))
}

/// The codebook points for each 8 codes, and the scales that fit them. The scale is 0 if there is
/// no split.
#[inline(always)]
fn snapped<S: Simd, const N: usize, const GROUPS: usize>(
    simd: S,
    x: &[S::Floats; N],
    weights: &[S::Floats; N],
    split: &TernaryCodes<S, N>,
) -> (S::Floats, Points<GROUPS>) {
    let (zero, one) = (simd.splat(0.0), simd.splat(1.0));
    let book: &Codebook<8> = &BOOK;
    let targets: Targets<N, GROUPS> = Targets::new(simd, x, weights, zero);
    let [up, down] = [UP, DOWN].map(|shift| simd.load(&from_fn(|i| count(i % 4) + shift)));
    let shifts = [floats(simd, split.shifts[0]), floats(simd, split.shifts[1])];
    let some = floats(simd, simd.choose(split.nothing, zero, one));
    let scales = floats(simd, split.scale);
    let half = |k: usize| 2 * k / GROUPS;
    let mut points = [[book.point(book.list(0).first); 16]; GROUPS];
    let mut moved = [0.0; 16];
    for (k, codes) in split.codes.as_chunks::<8>().0.iter().enumerate() {
        let mut places = [0; 16];
        simd.put_words(simd.whole(book.place(simd, codes)), &mut places);
        for lane in (0..16).filter(|lane| some[*lane] != 0.0) {
            let list = book.list(places[lane]);
            points[k][lane] = book.point(list.first);
            if list.count > 0 {
                moved[lane] = 1.0;
                let levels = if shifts[half(k)][lane] == UP { up } else { down };
                points[k][lane] =
                    targets.nearest(simd, book, (k, lane), list, scales[lane], levels).point;
            }
        }
    }
    let (mut sumqx, mut sumq2) = (zero, zero);
    for k in 0..GROUPS {
        let codes = codes_of(simd, &points[k]);
        for i in 0..8 {
            let q = simd.add(codes[i], split.shifts[half(k)]);
            let weighted = simd.mul(weights[8 * k + i], q);
            sumqx = simd.add(sumqx, simd.mul(weighted, x[8 * k + i]));
            sumq2 = simd.add(sumq2, simd.mul(weighted, q));
        }
    }
    let better = simd.both(simd.below(zero, sumqx), simd.below(zero, sumq2));
    let better = simd.both(better, simd.same(simd.load(&moved), one));
    let scale = simd.choose(better, simd.div(sumqx, sumq2), split.scale);
    (simd.choose(split.nothing, zero, scale), points)
}
