//! Several residual streams, of which layers compute one and predict the others: alternating updates
//! (Baykal et al., "Alternating Updates for Efficient Transformers", 2023), and the low-rank path
//! beside attention (Gemma 3n).

use crate::error::{Error, Result};
use crate::math::Function;
use crate::plan::NormPlan;
use crate::rows::Rows;
use crate::weight::{Loader, Norm, Weight};

/// The least mean square that a stream is scaled by, as transformers has it.
const LEAST_SQUARE: f32 = 1e-5;

/// The prediction and correction of the streams in a layer.
#[derive(Debug)]
pub(crate) struct Streams {
    active: usize,
    count: usize,
    router: Weight,
    router_norm: Norm,
    prediction: Weight,
    correction: Weight,
    output_scale: Vec<f32>,
}

impl Streams {
    pub(crate) fn load(
        loader: Loader<'_>,
        name: &str,
        dim: usize,
        active: usize,
        norm: NormPlan,
    ) -> Result<Self> {
        let at = |what: &str| format!("{name}.{what}");
        let router = loader.weight(&at("router"), dim)?;
        let count = router.outputs();
        if active >= count {
            return Err(Error::Mismatch(format!("stream {active} of {count} is computed")));
        }
        Ok(Self {
            active,
            count,
            router_norm: loader.norm(&at("router_norm"), dim, norm)?,
            prediction: loader.sized(&at("prediction"), count * count, count)?,
            correction: loader.sized(&at("correction"), count, count)?,
            output_scale: loader.vector(&at("output_scale"), dim)?,
            router,
        })
    }

    pub(crate) fn active(&self) -> usize {
        self.active
    }

    fn modalities(&self, x: &Rows) -> Result<Rows> {
        let mut seen = self.router_norm.of(x);
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        seen.scale((x.width() as f32).recip());
        let mut routed = self.router.of(&seen)?;
        routed.apply(Function::Tanh);
        Ok(routed)
    }

    fn active_of<'s>(&self, streams: &'s [Rows]) -> Result<&'s Rows> {
        let found = streams.get(self.active).filter(|_| streams.len() == self.count);
        found.ok_or_else(|| Error::Mismatch(format!("{} streams of {}", streams.len(), self.count)))
    }

    /// Adds to each stream a mix of all.
    pub(crate) fn predict(&self, streams: &mut [Rows]) -> Result<()> {
        let factors = self.prediction.of(&self.modalities(self.active_of(streams)?)?)?;
        let before = streams.to_vec();
        for (to, stream) in streams.iter_mut().enumerate() {
            for (from, other) in before.iter().enumerate() {
                add_rows(stream, other, &factors, to * self.count + from, 0.0);
            }
        }
        Ok(())
    }

    /// Adds to each stream a part of what the computed one turned out to differ by.
    pub(crate) fn correct(&self, streams: &mut [Rows], computed: &Rows) -> Result<()> {
        let factors = self.correction.of(&self.modalities(computed)?)?;
        let mut new = computed.clone();
        new.add(self.active_of(streams)?, -1.0);
        for (to, stream) in streams.iter_mut().enumerate() {
            add_rows(stream, &new, &factors, to, 1.0);
        }
        Ok(())
    }

    pub(crate) fn scale(&self, x: &mut Rows) {
        for row in x.rows_mut() {
            row.iter_mut().zip(&self.output_scale).for_each(|(x, scale)| *x *= scale);
        }
    }
}

/// Adds to each row that of `other`, times a column of `factors` and a constant more.
fn add_rows(x: &mut Rows, other: &Rows, factors: &Rows, column: usize, more: f32) {
    for ((row, other), factors) in x.rows_mut().zip(other.rows()).zip(factors.rows()) {
        let factor = factors.get(column).map_or(0.0, |factor| factor + more);
        row.iter_mut().zip(other).for_each(|(x, other)| *x += factor * other);
    }
}

/// The low-rank path beside attention.
#[derive(Debug)]
pub(crate) struct Laurel {
    left: Weight,
    right: Weight,
    norm: Norm,
}

impl Laurel {
    pub(crate) fn load(loader: Loader<'_>, name: &str, dim: usize, norm: NormPlan) -> Result<Self> {
        let left = loader.weight(&format!("{name}.left"), dim)?;
        let right = loader.sized(&format!("{name}.right"), dim, left.outputs())?;
        Ok(Self { left, right, norm: loader.norm(&format!("{name}.norm"), dim, norm)? })
    }

    pub(crate) fn of(&self, x: &Rows) -> Result<Rows> {
        let mut out = self.right.of(&self.left.of(x)?)?;
        self.norm.apply(&mut out);
        out.add(x, 1.0);
        Ok(out)
    }
}

/// The steps that create the streams, and join them at the end.
#[derive(Debug)]
pub(crate) struct Ends {
    projections: Weight,
    unembedding: Weight,
}

impl Ends {
    pub(crate) fn load(loader: Loader<'_>, dim: usize) -> Result<Self> {
        Ok(Self {
            projections: loader.sized("altup.projections", dim, dim)?,
            unembedding: loader.sized("altup.unembed_projections", dim, dim)?,
        })
    }

    /// The embedding, and what is made of it for the other streams, with its magnitude.
    pub(crate) fn split(&self, x: Rows) -> Result<Vec<Rows>> {
        let others = (0..self.projections.arrays()).map(|place| {
            let mut made = self.projections.of_array(place, &x)?;
            as_large_as(&mut made, &x);
            Ok(made)
        });
        let others = others.collect::<Result<Vec<_>>>()?;
        Ok(std::iter::once(x).chain(others).collect())
    }

    /// The mean of all streams, the others with the magnitude of the first.
    pub(crate) fn join(&self, streams: &[Rows]) -> Result<Rows> {
        let (first, others) =
            streams.split_first().ok_or_else(|| Error::Mismatch("no streams".to_owned()))?;
        let mut sum = first.clone();
        for (place, stream) in others.iter().enumerate() {
            let mut made = self.unembedding.of_array(place, stream)?;
            as_large_as(&mut made, first);
            sum.add(&made, 1.0);
        }
        #[expect(clippy::cast_precision_loss, reason = "streams are few")]
        sum.scale((streams.len() as f32).recip());
        Ok(sum)
    }
}

/// Gives each row the root mean square of another's.
fn as_large_as(x: &mut Rows, other: &Rows) {
    #[expect(clippy::cast_precision_loss, reason = "a width")]
    let square = |row: &[f32]| crate::math::dot(row, row) / row.len() as f32;
    for (row, other) in x.rows_mut().zip(other.rows()) {
        let factor = (square(other) / square(row).max(LEAST_SQUARE)).sqrt();
        row.iter_mut().for_each(|x| *x *= factor);
    }
}
