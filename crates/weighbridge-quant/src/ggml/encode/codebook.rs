//! Codebooks for quantizers: which point a combination of codes is, and which points are near it.

use std::array::from_fn;
use std::sync::LazyLock;

use super::Simd;
use super::search::count;
use crate::ggml::grids;

/// A codebook whose points are `P` codes from 0 to `top - 1`.
pub(super) struct Codebook<const P: usize> {
    /// The number of codes, as a float.
    top: f32,
    /// For each combination of codes: its points.
    lists: Vec<PointList>,
    /// The points of all lists.
    near: Vec<Point>,
}

/// A point as one word. The lower half has the codes, the first lowest: 2 bits each of 8 codes, or 3
/// bits each of 4 codes. The upper half is the point's number.
pub(super) type Point = u32;

/// A point for each group of `P` numbers and each lane.
pub(super) type Points<const GROUPS: usize> = [[Point; 16]; GROUPS];

/// The points that a combination of codes may become.
#[derive(Clone, Copy, Default)]
pub(super) struct PointList {
    /// The position of the point that the combination is, or of the first near point.
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
    const BITS: usize = if P == 8 { 2 } else { 3 };

    /// Builds a codebook from points with `BITS` bits for each code. The near points are those
    /// with the `shells` smallest distances, the nearest first, in order of their numbers at equal
    /// distance.
    fn new(packed: &[u16], top: u8, shells: usize) -> Self {
        let mut this = Self { top: f32::from(top), lists: Vec::new(), near: Vec::new() };
        let code = |packed: u16, i: usize| {
            (packed >> (Self::BITS * i)).to_le_bytes()[0] & ((1 << Self::BITS) - 1)
        };
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
        this.near.resize(this.near.len() + 16, 0);
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
            self.near.push(Self::packed(number, &points[number]));
            return PointList { first: first as u32, count: 0 };
        }
        let mut shell = 0;
        for _ in 0..shells {
            let Some(next) = far.iter().filter(|far| **far > shell).min() else { break };
            shell = *next;
            let equal = points.iter().enumerate().filter(|(number, _)| far[*number] == shell);
            self.near.extend(equal.map(|(number, point)| Self::packed(number, point)));
        }
        let count = self.near.len() - first;
        PointList { first: first as u32, count: count as u32 }
    }

    #[expect(clippy::cast_possible_truncation, reason = "at most 2,048 points")]
    fn packed(number: usize, codes: &[u8; P]) -> Point {
        let codes = codes.iter().rev().fold(0, |word, code| word << Self::BITS | u32::from(*code));
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

    /// A point of the lists.
    pub(super) fn point(&self, number: u32) -> Point {
        self.near[number as usize]
    }

    /// 16 points of the lists.
    pub(super) fn row(&self, first: u32) -> &[Point; 16] {
        self.near[first as usize..].first_chunk().unwrap_or(&[0; 16])
    }

    /// The odd numbers that codes stand for, repeated.
    #[inline(always)]
    pub(super) fn levels<S: Simd>(simd: S) -> S::Floats {
        simd.load(&from_fn(|i| count(2 * (i % (32 / P)) + 1)))
    }

    /// For each code of 16 points, the entry of a table of all codes' entries, repeated.
    #[inline(always)]
    pub(super) fn entries<S: Simd>(
        simd: S,
        tables: &[S::Floats; P],
        mut points: S::Words,
    ) -> [S::Floats; P] {
        let mut entries = *tables;
        for entry in &mut entries {
            if P == 8 {
                *entry = simd.fours(*entry, points);
                points = simd.down::<2>(points);
            } else {
                *entry = simd.eights(*entry, points);
                points = simd.down::<3>(points);
            }
        }
        entries
    }

    /// The combinations that the lanes' codes are.
    #[inline(always)]
    pub(super) fn place<S: Simd>(&self, simd: S, codes: &[S::Floats; P]) -> S::Floats {
        let mut place = simd.splat(0.0);
        for code in codes.iter().rev() {
            // These are small integers: rounding once makes no difference.
            place = simd.fused(place, simd.splat(self.top), *code);
        }
        place
    }
}

/// The number of a point.
pub(super) fn number_of(point: Point) -> u16 {
    (point >> 16) as u16
}
