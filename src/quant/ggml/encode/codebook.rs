//! Codebooks for quantizers: which point a combination of codes is, and which points are near it.

use std::array::from_fn;
use std::sync::LazyLock;

use super::Simd;
use crate::quant::ggml::grids;

/// No point of 8 codes: the first code is 3.
const NO_POINT: Point = 3;

/// A codebook whose points are `P` codes from 0 to `top - 1`.
pub(super) struct Codebook<const P: usize> {
    /// The number of codes, as a float.
    top: f32,
    /// For each combination of codes: its points.
    lists: Vec<PointList>,
    /// The points of all lists.
    near: Vec<Point>,
}

/// A point as one word. The lower half has the codes, the first lowest: 2 bits each of 8 codes, or 4
/// bits each for the odd numbers that 4 codes stand for. The upper half is the point's number.
pub(super) type Point = u32;

/// A point for each group of `P` numbers and each lane.
pub(super) type Points<const GROUPS: usize> = [[Point; 16]; GROUPS];

/// The points that a combination of codes may become.
#[derive(Clone, Copy, Default)]
pub(super) struct PointList {
    /// The point that the combination is, or the position of the first near point.
    pub(super) first: u32,
    /// The number of near points; 0 if the combination is a point.
    pub(super) count: u32,
}

pub(super) static IQ2_XXS: LazyLock<Codebook<8>> =
    LazyLock::new(|| Codebook::new(&grids::PACKED_IQ2_XXS, 3, 2));
pub(super) static IQ2_XS: LazyLock<Codebook<8>> =
    LazyLock::new(|| Codebook::new(&grids::PACKED_IQ2_XS, 3, 2));
pub(super) static IQ2_S: LazyLock<Codebook<8>> =
    LazyLock::new(|| Codebook::new(&grids::PACKED_IQ2_S, 3, 1));
pub(super) static IQ1: LazyLock<Codebook<8>> =
    LazyLock::new(|| Codebook::new(&grids::PACKED_IQ1, 3, 3));
pub(super) static IQ3_XXS: LazyLock<Codebook<4>> =
    LazyLock::new(|| Codebook::new(&grids::PACKED_IQ3_XXS, 8, 2));
pub(super) static IQ3_S: LazyLock<Codebook<4>> =
    LazyLock::new(|| Codebook::new(&grids::PACKED_IQ3_S, 8, 3));

impl<const P: usize> Codebook<P> {
    const BITS: usize = 16 / P;

    /// Builds a codebook from points with `16 / P` bits for each code. The near points are those
    /// with the `shells` smallest distances, the nearest first, in order of their numbers at equal
    /// distance.
    fn new(packed: &[u16], top: u8, shells: usize) -> Self {
        let mut this = Self { top: f32::from(top), lists: Vec::new(), near: Vec::new() };
        let bits = if P == 8 { 2 } else { 3 };
        let code =
            |packed: u16, i: usize| (packed >> (bits * i)).to_le_bytes()[0] & ((1 << bits) - 1);
        let points: Vec<[u8; P]> =
            packed.iter().map(|packed| from_fn(|i| code(*packed, i))).collect();
        let mut codes = [0; P];
        loop {
            let list = this.list_of(&points, &codes, shells);
            this.lists.push(list);
            // The next combination: the first code counts fastest.
            let Some(next) = codes.iter().position(|code| *code + 1 < top) else { break };
            codes[..next].fill(0);
            codes[next] += 1;
        }
        // The last list is read 16 points at a time, too.
        this.near.resize(this.near.len() + 16, NO_POINT);
        this
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a few thousand points, and near ones of each"
    )]
    fn list_of(&mut self, points: &[[u8; P]], codes: &[u8; P], shells: usize) -> PointList {
        let distance = |point: &[u8; P]| -> u32 {
            let square = |(a, b): (&u8, &u8)| u32::from(a.abs_diff(*b)).pow(2);
            point.iter().zip(codes).map(square).sum()
        };
        let far: Vec<u32> = points.iter().map(distance).collect();
        let first = self.near.len();
        if let Some(number) = far.iter().position(|far| *far == 0) {
            return PointList { first: Self::point(number, &points[number]), count: 0 };
        }
        let mut shell = 0;
        for _ in 0..shells {
            let Some(next) = far.iter().filter(|far| **far > shell).min() else { break };
            shell = *next;
            let equal = points.iter().enumerate().filter(|(number, _)| far[*number] == shell);
            self.near.extend(equal.map(|(number, point)| Self::point(number, point)));
        }
        let count = self.near.len() - first;
        if P == 8 {
            // They are read 16 at a time. What follows a list must not be taken for a point.
            self.near.resize(first + count.next_multiple_of(16), NO_POINT);
        }
        PointList { first: first as u32, count: count as u32 }
    }

    #[expect(clippy::cast_possible_truncation, reason = "at most 2,048 points")]
    fn point(number: usize, codes: &[u8; P]) -> Point {
        let odd = |code: u8| if P == 8 { code } else { 2 * code + 1 };
        let codes =
            codes.iter().rev().fold(0, |word, code| word << Self::BITS | u32::from(odd(*code)));
        codes | (number as u32) << 16
    }

    /// The points that a combination of codes may become.
    pub(super) fn list(&self, place: u32) -> PointList {
        self.lists[place as usize]
    }

    /// Whether a combination of codes is a point.
    pub(super) fn has(&self, place: u32) -> bool {
        self.list(place).count == 0
    }

    /// 16 points of the lists.
    pub(super) fn near(&self, first: u32) -> &[Point; 16] {
        let rest = self.near.get(first as usize..).unwrap_or_default();
        rest.first_chunk().unwrap_or(&[NO_POINT; 16])
    }

    /// The point that codes of 0 are, or the first that is near to them.
    pub(super) fn zeros(&self) -> Point {
        let PointList { first, count } = self.lists[0];
        if count == 0 { first } else { self.near[first as usize] }
    }

    /// The odd numbers that the codes of 16 points stand for.
    #[inline(always)]
    pub(super) fn odds<S: Simd>(simd: S, points: S::Words) -> [S::Floats; P] {
        let mut numbers = Self::unpacked(simd, points);
        if P == 8 {
            for number in &mut numbers {
                *number = simd.add(simd.add(*number, *number), simd.splat(1.0));
            }
        }
        numbers
    }

    /// The codes of 16 points, or the odd numbers that 4 codes stand for.
    #[inline(always)]
    pub(super) fn unpacked<S: Simd>(simd: S, mut points: S::Words) -> [S::Floats; P] {
        let mut numbers = [simd.splat(0.0); P];
        for number in &mut numbers {
            *number = simd.numbers(simd.cut(points, (1 << Self::BITS) - 1));
            points = if P == 8 { simd.down::<2>(points) } else { simd.down::<4>(points) };
        }
        numbers
    }

    /// The combinations that the lanes' codes are.
    #[inline(always)]
    pub(super) fn place<S: Simd>(&self, simd: S, codes: &[S::Floats; P]) -> S::Floats {
        let mut place = simd.splat(0.0);
        for code in codes.iter().rev() {
            place = simd.add(simd.mul(place, simd.splat(self.top)), *code);
        }
        place
    }
}

/// The number of a point.
pub(super) fn number_of(point: Point) -> u16 {
    (point >> 16) as u16
}
