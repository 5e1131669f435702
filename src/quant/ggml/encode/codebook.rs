//! Codebooks for quantizers: which point a combination of codes is, and which points are near it.

use std::sync::LazyLock;

use crate::quant::ggml::grids;

/// A codebook whose points are `P` codes from 0 to `top - 1`.
pub(super) struct Codebook<const P: usize> {
    top: u8,
    points: Vec<[u8; P]>,
    /// For each combination of codes: its own point, or the range of its list in `near`.
    places: Vec<CodeLookup>,
    near: Vec<u16>,
}

#[derive(Clone, Copy)]
enum CodeLookup {
    Point(u16),
    Near { first: u32, count: u32 },
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
    /// Builds a codebook from points with `16 / P` bits for each code. The near points are those
    /// with the `shells` smallest distances, the nearest first, in order of their numbers at equal
    /// distance.
    fn new(packed: &[u16], top: u8, shells: usize) -> Self {
        let mut this = Self { top, points: Vec::new(), places: Vec::new(), near: Vec::new() };
        let bits = if P == 8 { 2 } else { 3 };
        let code =
            |packed: u16, i: usize| (packed >> (bits * i)).to_le_bytes()[0] & ((1 << bits) - 1);
        this.points =
            packed.iter().map(|packed| std::array::from_fn(|i| code(*packed, i))).collect();
        let mut codes = [0; P];
        loop {
            let place = this.place_of(&codes, shells);
            this.places.push(place);
            // The next combination: the first code counts fastest.
            let Some(next) = codes.iter().position(|code| *code + 1 < top) else { break };
            codes[..next].fill(0);
            codes[next] += 1;
        }
        this
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a few thousand points, and near ones of each"
    )]
    fn place_of(&mut self, codes: &[u8; P], shells: usize) -> CodeLookup {
        let distance = |point: &[u8; P]| -> u32 {
            let square = |(a, b): (&u8, &u8)| u32::from(a.abs_diff(*b)).pow(2);
            point.iter().zip(codes).map(square).sum()
        };
        let far: Vec<u32> = self.points.iter().map(distance).collect();
        if let Some(point) = far.iter().position(|far| *far == 0) {
            return CodeLookup::Point(point as u16);
        }
        let first = self.near.len();
        let mut shell = 0;
        for _ in 0..shells {
            let Some(next) = far.iter().filter(|far| **far > shell).min() else { break };
            shell = *next;
            let equal = (0u16..).zip(&far).filter(|(_, far)| **far == shell);
            self.near.extend(equal.map(|(point, _)| point));
        }
        CodeLookup::Near { first: first as u32, count: (self.near.len() - first) as u32 }
    }

    /// The codes of a point.
    pub(super) fn point(&self, number: u16) -> &[u8; P] {
        &self.points[usize::from(number)]
    }

    /// The point equal to the codes, if there is one; otherwise the near point with the smallest
    /// error. Changes the codes to those of the point.
    pub(super) fn snap(&self, codes: &mut [u8; P], error: impl Fn(&[u8; P]) -> f32) -> (u16, bool) {
        let mut place = 0;
        for code in codes.iter().rev() {
            place = place * usize::from(self.top) + usize::from(*code);
        }
        let (first, count) = match self.places[place] {
            CodeLookup::Point(point) => return (point, true),
            CodeLookup::Near { first, count } => (first as usize, count as usize),
        };
        let near = &self.near[first..first + count];
        // ggml aborts if all errors are NaN or infinite.
        let mut best = (near[0], f32::MAX);
        for point in near {
            let error = error(self.point(*point));
            if error < best.1 {
                best = (*point, error);
            }
        }
        *codes = *self.point(best.0);
        (best.0, false)
    }
}
