//! Rotary position embeddings: frequencies for every kind of scaling, as transformers computes them
//! (`modeling_rope_utils.py`), from numbers that stand in any container.

use weighbridge::arch::{Field, RopeLayout, RopeScalingKind};

use crate::error::{Error, Result};
use crate::facts::{Facts, size};
use crate::rows::{Rows, number};

/// The rotation of the elements of a head, by position.
#[derive(Clone, Debug)]
pub struct Rope {
    /// Elements that turn, two for each frequency.
    pub rotated: usize,
    /// Whether neighbours pair, or the first half with the second.
    pub interleaved: bool,
    /// The angle of each pair for one position.
    pub frequencies: Frequencies,
}

/// The angle of each pair for one position, and the factor of the rotated values.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Frequencies {
    /// The same for every length.
    Fixed {
        /// For each pair.
        inverse: Vec<f32>,
        /// Factor of what was turned.
        magnitude: f32,
    },
    /// A base that grows with the length.
    Dynamic {
        /// The base within the trained length.
        base: f32,
        /// The factor by which the context was extended.
        factor: f32,
        /// The trained length.
        trained: usize,
        /// Pairs.
        pairs: usize,
    },
    /// One set within the trained length, another beyond.
    Long {
        /// Within it.
        short: Vec<f32>,
        /// Beyond.
        long: Vec<f32>,
        /// The trained length.
        trained: usize,
        /// Factor of what was turned.
        magnitude: f32,
    },
}

/// Positions as sines and cosines of waves, all sines first. Each wave is longer than the one before by
/// the same factor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Sinusoids {
    /// The factor is that of as many waves as sines, from 1 to less than 10000.
    Open,
    /// The last wave is 10000 times as long as the first.
    Closed,
}

/// Sines and cosines for some positions.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    cos: Rows,
    sin: Rows,
}

fn or(field: &Option<Field<f32>>, usual: f32) -> f32 {
    field.as_ref().map_or(usual, |field| field.value)
}

/// base^(-2i / dims), for each of `pairs`.
pub(crate) fn powers(base: f32, dims: usize, pairs: usize) -> Vec<f32> {
    let power = |pair: usize| base.powf(2.0 * pair as f32 / dims as f32).recip();
    (0..pairs).map(power).collect()
}

/// YaRN's factor of the magnitude.
pub(crate) fn yarn_magnitude(factor: f32, multiplier: f32) -> f32 {
    if factor <= 1.0 { 1.0 } else { 0.1 * multiplier * factor.ln() + 1.0 }
}

impl Rope {
    /// That of layers which attend to all positions.
    pub(crate) fn of_full_layers(facts: &Facts<'_>) -> Result<Self> {
        Self::scaled(facts, facts.config.rope_theta.value, facts.rotated())
    }

    /// That of layers with a window: not scaled where it has a base of its own.
    pub(crate) fn of_windows(facts: &Facts<'_>) -> Result<Self> {
        let config = facts.config;
        let local = config.attention.local_head_dim.as_ref();
        let count = config.rope.local_dimension_count.as_ref();
        let rotated = count.or(local).map_or_else(|| facts.rotated(), |count| size(count.value));
        match &config.rope.local_theta {
            Some(_)
                if facts
                    .word(&["sliding_attention.rope_type"])
                    .is_some_and(|kind| kind != "default") =>
            {
                let fault = "scaled rotary embeddings of layers with a window";
                Err(Error::Unsupported(fault.to_owned()))
            }
            Some(theta) => Ok(Self::plain(facts, theta.value, rotated)),
            None => Self::scaled(facts, config.rope_theta.value, rotated),
        }
    }

    /// That of a base, where the borders of YaRN's ramp are not rounded.
    pub(crate) fn untruncated(facts: &Facts<'_>, base: f32) -> Result<Self> {
        Self::scaled_with(facts, base, facts.rotated(), false)
    }

    /// The same in the other direction.
    pub(crate) fn reversed(mut self) -> Result<Self> {
        match &mut self.frequencies {
            Frequencies::Fixed { inverse, .. } => {
                inverse.iter_mut().for_each(|inverse| *inverse = -*inverse);
                Ok(self)
            }
            _ => Err(Error::Unsupported("reversed rotary embeddings that grow".to_owned())),
        }
    }

    /// Without any scaling.
    pub(crate) fn plain(facts: &Facts<'_>, base: f32, rotated: usize) -> Self {
        let pairs = rotated.div_ceil(2);
        let inverse = powers(base, rotated, pairs);
        Self::with(facts, 2 * pairs, Frequencies::Fixed { inverse, magnitude: 1.0 })
    }

    fn with(facts: &Facts<'_>, rotated: usize, frequencies: Frequencies) -> Self {
        let interleaved = facts.rope_layout() == RopeLayout::Interleaved;
        Self { rotated, interleaved, frequencies }
    }

    /// With the scaling that the config says.
    pub(crate) fn scaled(facts: &Facts<'_>, base: f32, rotated: usize) -> Result<Self> {
        let truncate = facts.config.rope_scaling.truncate.as_ref();
        Self::scaled_with(facts, base, rotated, truncate.is_none_or(|truncate| truncate.value))
    }

    fn scaled_with(facts: &Facts<'_>, base: f32, rotated: usize, truncate: bool) -> Result<Self> {
        let scaling = &facts.config.rope_scaling;
        let kind = scaling.kind.as_ref().map_or(&RopeScalingKind::None, |kind| &kind.value);
        // An odd number of elements counts as the next even one, whose waves it determines.
        let pairs = rotated.div_ceil(2);
        let magnitude = gain(facts).unwrap_or(1.0);
        let fixed = |inverse| Frequencies::Fixed { inverse, magnitude };
        let longest = facts.config.max_seq_len.as_ref();
        let trained = scaling.trained(longest).map(|length| length.value);
        let longest = longest.map(|length| length.value);
        let need = |number: Option<u32>| {
            let lacks = || {
                Error::Unsupported(format!("rope scaling {} without a trained length", kind.name()))
            };
            number.map(size).ok_or_else(lacks)
        };
        let factor = or(&scaling.factor, 1.0);
        let mut plain = powers(base, rotated, pairs);
        let frequencies = match kind {
            RopeScalingKind::None => fixed(plain),
            RopeScalingKind::Linear => {
                plain.iter_mut().for_each(|inverse| *inverse /= factor);
                fixed(plain)
            }
            RopeScalingKind::Dynamic => {
                Frequencies::Dynamic { base, factor, trained: need(longest)?, pairs }
            }
            RopeScalingKind::Llama3 => {
                fixed(llama3(plain, scaling.llama3(), trained.unwrap_or(8192)))
            }
            RopeScalingKind::Yarn => yarn(facts, base, rotated, need(trained)?, truncate),
            RopeScalingKind::LongRope => long(facts, &plain, need(trained)?)?,
            RopeScalingKind::Proportional => return Ok(proportional(facts, base, rotated)),
            RopeScalingKind::Tensor => {
                let divisors = facts.stored("rope_freqs.weight")?;
                divided(&mut plain, &divisors)?;
                plain.iter_mut().for_each(|inverse| *inverse /= factor);
                fixed(plain)
            }
            other => {
                return Err(Error::Unsupported(format!("rope scaling \"{}\"", other.name())));
            }
        };
        Ok(Self::with(facts, 2 * pairs, frequencies))
    }

    /// Sines and cosines for positions from `start` on, in a context of `length`.
    #[expect(clippy::cast_precision_loss, reason = "positions are computed in f32")]
    pub(crate) fn turns(&self, start: usize, length: usize) -> Turns {
        let (inverse, magnitude) = self.frequencies.at(length);
        let angles = (start..length)
            .flat_map(|position| inverse.iter().map(move |inverse| position as f32 * inverse));
        let (mut cos, mut sin) = (Vec::new(), Vec::new());
        for angle in angles {
            cos.push(angle.cos() * magnitude);
            sin.push(angle.sin() * magnitude);
        }
        Turns { cos: Rows::new(cos, inverse.len()), sin: Rows::new(sin, inverse.len()) }
    }

    /// Turns the heads of each row, which are `head_dim` wide, from their element `start` on.
    pub(crate) fn apply(&self, turns: &Turns, x: &mut Rows, head_dim: usize, start: usize) {
        let end = start + self.rotated;
        if let Some(engine) = x.engine() {
            let (heads, pairs) = (x.width() / head_dim.max(1), turns.cos.width());
            let apart = if self.interleaved { 1 } else { self.rotated / 2 };
            let count = if end <= head_dim { x.len() * heads * pairs } else { 0 };
            let numbers = [count, heads, head_dim, pairs, start, apart].map(number);
            return x.step(&engine, "turn", &[&turns.cos, &turns.sin], &numbers);
        }
        let turns = turns.cos.rows().zip(turns.sin.rows());
        for (row, (cos, sin)) in x.rows_mut().zip(turns) {
            for head in row.chunks_exact_mut(head_dim.max(1)) {
                let Some(part) = head.get_mut(start..end) else { continue };
                let turns = cos.iter().zip(sin);
                let turn = |a: &mut f32, b: &mut f32, (cos, sin): (&f32, &f32)| {
                    (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
                };
                if self.interleaved {
                    let (pairs, _) = part.as_chunks_mut::<2>();
                    pairs.iter_mut().zip(turns).for_each(|([a, b], by)| turn(a, b, by));
                } else {
                    let (first, second) = part.split_at_mut(self.rotated / 2);
                    let pairs = first.iter_mut().zip(second);
                    pairs.zip(turns).for_each(|((a, b), by)| turn(a, b, by));
                }
            }
        }
    }
}

impl Frequencies {
    /// Those of a context of that length.
    fn at(&self, length: usize) -> (Vec<f32>, f32) {
        match self {
            Self::Fixed { inverse, magnitude } => (inverse.clone(), *magnitude),
            Self::Long { short, long, trained, magnitude } => {
                (if length > *trained { long } else { short }.clone(), *magnitude)
            }
            #[expect(clippy::cast_precision_loss, reason = "lengths are computed in f32")]
            Self::Dynamic { base, factor, trained, pairs } => {
                let dims = 2.0 * *pairs as f32;
                let length = length.max(*trained) as f32;
                let grown = factor * length / *trained as f32 - (factor - 1.0);
                let base = base * grown.powf(dims / (dims - 2.0));
                (powers(base, 2 * pairs, *pairs), 1.0)
            }
        }
    }
}

/// Llama 3's: long waves divided by the factor, short ones left, a ramp between.
#[expect(clippy::cast_precision_loss, reason = "lengths are computed in f32")]
fn llama3(mut inverse: Vec<f32>, [factor, low, high]: [f32; 3], trained: u32) -> Vec<f32> {
    let trained = trained as f32;
    for inverse in &mut inverse {
        let wavelength = std::f32::consts::TAU / *inverse;
        if wavelength > trained / low {
            *inverse /= factor;
        } else if wavelength >= trained / high {
            let smooth = (trained / wavelength - low) / (high - low);
            *inverse = (1.0 - smooth) * *inverse / factor + smooth * *inverse;
        }
    }
    inverse
}

/// The number by which llama.cpp multiplies what is rotated, whatever the kind of scaling.
fn gain(facts: &Facts<'_>) -> Option<f32> {
    let stated = facts.config.rope_scaling.attention_factor.as_ref();
    let of_gguf = stated.filter(|factor| factor.source.ends_with("rope.scaling.attn_factor"));
    of_gguf.map(|factor| factor.value)
}

/// YaRN's: pairs that turn often are left, those that turn seldom divided, a ramp between.
#[expect(clippy::cast_precision_loss, reason = "pairs are computed in floats")]
#[expect(clippy::cast_possible_truncation, reason = "frequencies are f32")]
fn yarn(
    facts: &Facts<'_>,
    base: f32,
    rotated: usize,
    trained: usize,
    truncate: bool,
) -> Frequencies {
    let scaling = &facts.config.rope_scaling;
    let longest = facts.config.max_seq_len.as_ref().map_or(1.0, |length| length.value as f32);
    let factor = or(&scaling.factor, longest / trained as f32);
    // The pair that turns so often within the trained length.
    let pair = |turns: f32| {
        let waves = trained as f64 / (f64::from(turns) * std::f64::consts::TAU);
        rotated as f64 * waves.ln() / (2.0 * f64::from(base).ln())
    };
    let [mut low, mut high] = scaling.betas().map(pair);
    if truncate {
        (low, high) = (low.floor(), high.ceil());
    }
    let (low, mut high) = (low.max(0.0), high.min(rotated as f64 - 1.0));
    if low == high {
        high += 0.001;
    }
    let plain = powers(base, rotated, rotated / 2);
    let blend = |(pair, inverse): (usize, &f32)| {
        let ramp = ((pair as f64 - low) / (high - low)).clamp(0.0, 1.0) as f32;
        inverse / factor * ramp + inverse * (1.0 - ramp)
    };
    let magnitude = match (&scaling.attention_factor, &scaling.mscale, &scaling.mscale_all_dim) {
        (Some(stated), ..) if gain(facts).is_none() => stated.value,
        (_, Some(one), Some(all)) if one.value > 0.0 && all.value > 0.0 => {
            yarn_magnitude(factor, one.value) / yarn_magnitude(factor, all.value)
        }
        // GGUF has one number for both, whose quotient is 1 in latent attention; in other, the first is 1.
        _ if let Some(all) = &scaling.log_multiplier => {
            let one = if facts.config.attention.kv_lora_rank.is_some() { all.value } else { 1.0 };
            yarn_magnitude(factor, one) / yarn_magnitude(factor, all.value)
        }
        _ => yarn_magnitude(factor, 1.0),
    };
    let inverse = plain.iter().enumerate().map(blend).collect();
    Frequencies::Fixed { inverse, magnitude: magnitude * gain(facts).unwrap_or(1.0) }
}

/// LongRoPE's: a divisor for each frequency, from the config or from tensors.
#[expect(clippy::cast_precision_loss, reason = "lengths are computed in f32")]
fn long(facts: &Facts<'_>, plain: &[f32], trained: usize) -> Result<Frequencies> {
    let scaling = &facts.config.rope_scaling;
    let set = |field: &Option<Field<Vec<f32>>>, stored: &str| {
        let divisors = match field {
            Some(field) => field.value.clone(),
            None => facts.stored(stored)?,
        };
        let mut inverse = plain.to_vec();
        divided(&mut inverse, &divisors)?;
        Ok::<_, Error>(inverse)
    };
    let longest = facts.config.max_seq_len.as_ref().map_or(trained, |length| size(length.value));
    let factor = or(&scaling.factor, longest as f32 / trained as f32);
    let usual =
        if factor <= 1.0 { 1.0 } else { (1.0 + factor.ln() / (trained as f32).ln()).sqrt() };
    Ok(Frequencies::Long {
        short: set(&scaling.short_factors, "rope_factors_short.weight")?,
        long: set(&scaling.long_factors, "rope_factors_long.weight")?,
        trained,
        magnitude: or(&scaling.attention_factor, usual),
    })
}

/// The first part of a head's pairs turns, as fast as if all did.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of the pairs")]
#[expect(clippy::cast_precision_loss, reason = "heads are narrow")]
fn proportional(facts: &Facts<'_>, base: f32, rotated: usize) -> Rope {
    let width = size(facts.config.head_dim.value);
    let part = facts.config.rope.partial_factor.as_ref().map(|part| part.value);
    let turning = part.map_or(rotated / 2, |part| (width as f32 * part / 2.0) as usize);
    let factor = or(&facts.config.rope_scaling.factor, 1.0);
    let mut inverse = powers(base, width, width / 2);
    inverse.iter_mut().for_each(|inverse| *inverse /= factor);
    inverse.iter_mut().skip(turning).for_each(|inverse| *inverse = 0.0);
    Rope::with(facts, width, Frequencies::Fixed { inverse, magnitude: 1.0 })
}

fn divided(inverse: &mut [f32], divisors: &[f32]) -> Result<()> {
    if inverse.len() != divisors.len() {
        let fault = format!("{} divisors for {} frequencies", divisors.len(), inverse.len());
        return Err(Error::Mismatch(fault));
    }
    inverse.iter_mut().zip(divisors).for_each(|(inverse, divisor)| *inverse /= divisor);
    Ok(())
}

impl Sinusoids {
    /// The rows of `count` positions from `first` on, `width` wide.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "positions are computed in floats"
    )]
    pub(crate) fn rows(self, first: usize, count: usize, width: usize) -> Rows {
        // The sines, the cosines, and the waves between one that is 10000 times as long as another.
        let (sines, cosines, between) = match self {
            Self::Open => (width.div_ceil(2), width / 2, width as f64 / 2.0),
            Self::Closed => (width / 2, width / 2, (width / 2) as f64 - 1.0),
        };
        let angle =
            |position: usize, wave: usize| position as f64 / 10_000f64.powf(wave as f64 / between);
        let mut values = Vec::new();
        for position in first..first + count {
            values.extend((0..sines).map(|wave| angle(position, wave).sin() as f32));
            values.extend((0..cosines).map(|wave| angle(position, wave).cos() as f32));
            values.extend((sines + cosines..width).map(|_| 0.0));
        }
        Rows::new(values, width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sinusoids_are_those_of_the_classes() {
        // transformers' CTRL (`positional_encoding(2, 4)`) and XGLM (`get_embedding(2, 5)`).
        let open = Sinusoids::Open.rows(1, 1, 4);
        let closed = Sinusoids::Closed.rows(1, 1, 5);
        let expected = [0.841_471, 0.009_999_83, 0.540_302, 0.999_95];
        let last = [0.841_471, 0.000_1, 0.540_302, 1.0, 0.0];
        let close = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(close(open.values(), &expected), "{open:?}");
        assert!(close(closed.values(), &last), "{closed:?}");
        assert_eq!((open.len(), closed.width()), (1, 5));
    }

    #[test]
    fn reversed_heads_turn_back() {
        let frequencies = Frequencies::Fixed { inverse: vec![1.0, 0.1], magnitude: 1.0 };
        let rope = Rope { rotated: 4, interleaved: false, frequencies };
        let mut x = Rows::new(vec![1.0, 2.0, 3.0, 4.0], 4);
        let before = x.clone();
        rope.apply(&rope.turns(5, 6), &mut x, 4, 0);
        let back = rope.reversed().unwrap_or_else(|error| panic!("{error}"));
        back.apply(&back.turns(5, 6), &mut x, 4, 0);
        let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-5;
        assert!(x.values().iter().zip(before.values()).all(near), "{:?}", x.values());
    }
}
