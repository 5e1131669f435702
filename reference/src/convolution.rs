//! Convolutions over the last positions, each channel by itself, and layers that consist of one.

use crate::cache::LayerCache;
use crate::error::{Error, Result};
use crate::rows::Rows;
use crate::weight::{Loader, Weight};

/// A convolution over the last positions.
#[derive(Debug)]
pub(crate) struct Convolution {
    channels: usize,
    /// Positions that it sees, its own included.
    kernel: usize,
    /// A run of `kernel` factors for each channel.
    factors: Vec<f32>,
    bias: Option<Vec<f32>>,
}

impl Convolution {
    /// The convolution `{name}.weight` and its bias, if it has one.
    pub(crate) fn load(
        loader: Loader<'_>,
        name: &str,
        channels: usize,
        kernel: usize,
    ) -> Result<Self> {
        let factors = loader.vector(&format!("{name}.weight"), channels.saturating_mul(kernel))?;
        let bias = loader.vector_if(&format!("{name}.bias"), channels)?;
        if channels == 0 || kernel == 0 {
            let fault = format!("{name} has not {channels} channels of {kernel} positions");
            return Err(Error::Mismatch(fault));
        }
        Ok(Self { channels, kernel, factors, bias })
    }

    /// The convolution whose channels are those of several tensors, one after another. Tensors that
    /// transformers writes need not be divided where the channels of q, k and v are.
    pub(crate) fn load_joined(
        loader: Loader<'_>,
        names: &[String],
        channels: usize,
        kernel: usize,
    ) -> Result<Self> {
        let mut factors = Vec::new();
        for name in names {
            let name = format!("{name}.weight");
            if let Some(len) = loader.len_if(&name)? {
                factors.extend(loader.vector(&name, len)?);
            }
        }
        if factors.is_empty() || factors.len() != channels.saturating_mul(kernel) {
            let fault = format!("{} have not {channels} channels", names.join(", "));
            return Err(Error::Mismatch(fault));
        }
        Ok(Self { channels, kernel, factors, bias: None })
    }

    /// Each channel's sum over the last positions.
    pub(crate) fn of(&self, x: &Rows, cache: &mut LayerCache) -> Rows {
        let before = (self.kernel - 1) * self.channels;
        cache.inputs.resize(before, 0.0);
        let mut inputs = std::mem::take(&mut cache.inputs);
        inputs.extend_from_slice(x.values());
        let mut out = Rows::zeros(x.len(), self.channels);
        for (position, row) in out.rows_mut().enumerate() {
            if let Some(bias) = &self.bias {
                row.copy_from_slice(bias);
            }
            let seen = inputs.chunks_exact(self.channels).skip(position).take(self.kernel);
            for (place, seen) in seen.enumerate() {
                let factors = self.factors.iter().skip(place).step_by(self.kernel);
                let sums = row.iter_mut().zip(seen).zip(factors);
                sums.for_each(|((sum, x), factor)| *sum += x * factor);
            }
        }
        let rest = inputs.len().saturating_sub(before);
        cache.inputs = inputs.split_off(rest);
        out
    }
}

/// A gated convolution in place of attention (LFM2).
#[derive(Debug)]
pub(crate) struct ShortConvolution {
    input: Weight,
    convolution: Convolution,
    output: Weight,
}

impl ShortConvolution {
    pub(crate) fn load(loader: Loader<'_>, name: &str, dim: usize, kernel: usize) -> Result<Self> {
        Ok(Self {
            input: loader.sized(&format!("{name}.in"), 3 * dim, dim)?,
            convolution: Convolution::load(loader, name, dim, kernel)?,
            output: loader.sized(&format!("{name}.output"), dim, dim)?,
        })
    }

    pub(crate) fn of(&self, x: &Rows, cache: &mut LayerCache) -> Result<Rows> {
        let dim = self.convolution.channels;
        let parts = self.input.of(x)?;
        let mut entering = parts.columns(0..dim);
        entering.with(&parts.columns(2 * dim..3 * dim), |gate, x| gate * x);
        let mut out = self.convolution.of(&entering, cache);
        out.with(&parts.columns(dim..2 * dim), |x, gate| gate * x);
        self.output.of(&out)
    }
}
