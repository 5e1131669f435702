//! The encoder of sound beside a decoder: two convolutions over a spectrum, then layers.

use crate::cache::LayerCache;
use crate::error::{Error, Result};
use crate::layer::{ENCODER, Layer, load_layers, run};
use crate::math::Activation;
use crate::plan::{EncoderPlan, Plan};
use crate::rows::Rows;
use crate::weight::{Loader, Norm, Weight};

/// Positions that a convolution sees.
const KERNEL: usize = 3;

#[derive(Debug)]
pub(crate) struct SoundEncoder {
    plan: EncoderPlan,
    convolutions: [Weight; 2],
    /// A row for each position behind the convolutions.
    positions: Rows,
    layers: Vec<Layer>,
    norm: Norm,
}

impl SoundEncoder {
    pub(crate) fn load(loader: Loader<'_>, plan: &EncoderPlan, decoder: &Plan) -> Result<Self> {
        let EncoderPlan { dim, bands, positions, .. } = *plan;
        let stored =
            loader.vector_if("enc.position_embedding.weight", positions.saturating_mul(dim))?;
        Ok(Self {
            convolutions: [
                loader.convolution("enc.conv1", bands * KERNEL)?,
                loader.convolution("enc.conv2", dim * KERNEL)?,
            ],
            positions: stored
                .map_or_else(|| sines(positions, dim), |values| Rows::new(values, dim)),
            layers: load_layers(loader, ENCODER, decoder, &plan.layers, dim)?,
            norm: loader.norm("enc.output_norm", dim, decoder.norm)?,
            plan: plan.clone(),
        })
    }

    pub(crate) fn of(&self, spectrum: &Rows) -> Result<Rows> {
        let EncoderPlan { bands, positions, .. } = self.plan;
        if spectrum.len() != bands || spectrum.width() != 2 * positions {
            let fault = format!(
                "a spectrum of {} bands and {} frames, but the model takes {bands} and {}",
                spectrum.len(),
                spectrum.width(),
                2 * positions
            );
            return Err(Error::Input(fault));
        }
        // A row for each frame.
        let frame = |frame: usize| spectrum.values().iter().skip(frame).step_by(spectrum.width());
        let frames = (0..spectrum.width()).flat_map(frame).copied().collect();
        let mut x = Rows::new(frames, bands);
        for (convolution, stride) in self.convolutions.iter().zip([1, 2]) {
            x = convolution.of(&windows(&x, stride))?;
            x.apply(Activation::Gelu);
        }
        x.add(&self.positions, 1.0);
        let mut caches = vec![LayerCache::default(); self.layers.len()];
        let mut x = run(&self.layers, &[], x, 0, &mut caches)?;
        self.norm.apply(&mut x);
        Ok(x)
    }
}

/// The inputs of a convolution at each position: for each channel the values at three positions, zeros beyond the ends.
fn windows(x: &Rows, stride: usize) -> Rows {
    let mut values = Vec::new();
    for middle in (0..x.len()).step_by(stride) {
        let before = middle.checked_sub(1).and_then(|place| x.row(place));
        let seen = [before, x.row(middle), x.row(middle + 1)];
        for channel in 0..x.width() {
            let at = |row: &Option<&[f32]>| row.and_then(|row| row.get(channel)).copied();
            values.extend(seen.iter().map(|row| at(row).unwrap_or(0.0)));
        }
    }
    Rows::new(values, x.width() * KERNEL)
}

/// Whisper's positions where the files leave them out: sines of falling frequency, then cosines.
#[expect(clippy::cast_precision_loss, reason = "positions are computed in f32")]
fn sines(positions: usize, dim: usize) -> Rows {
    let half = dim / 2;
    let step = 10_000f32.ln() / (half.max(2) - 1) as f32;
    let angle = |position: usize, place: usize| position as f32 * (-step * place as f32).exp();
    let row = |position: usize| {
        let sines = (0..half).map(move |place| angle(position, place).sin());
        sines.chain((0..half).map(move |place| angle(position, place).cos()))
    };
    Rows::new((0..positions).flat_map(row).collect(), dim)
}
