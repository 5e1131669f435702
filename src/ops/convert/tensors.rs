//! The tensors of a conversion to safetensors files, and how each is written.

use std::collections::HashMap;

use crate::json::Json;

use super::{Conversion, QuantizationRules, mlx};
use crate::arch::{Dialect, Resolution};
use crate::container::writer::Writer;
use crate::dtype::DType;
use crate::error::Result;
use crate::model::{Sharding, Tensor};
use crate::ollama::TensorRules;
use crate::ops::dialect::{TranslatedTensors, keeps_names, tensors_of};
use crate::ops::{experts, ranks, repeated};
use crate::recipe::mlx_lm::MlxQuantization;
use crate::store::{Encoding, Part};
use crate::translate::{self, ConfigDocument};
use crate::write::{
    Builder, Method, OutTensor, Output, Precision, Producer, TensorRepack, choose, grouped,
    grouped_from,
};

/// The tensors of one rank, or of the whole model.
pub(super) struct Share {
    pub(super) rank: Option<u64>,
    /// The tensors, with their expert groups.
    pub(super) tensors: Vec<(Option<String>, Tensor)>,
    pub(super) in_mxfp4: HashMap<String, TensorRepack>,
    /// The reason why experts that were in MXFP4 are written in another dtype.
    pub(super) why_plain: Option<String>,
}

/// The choices of another program for the tensors.
pub(super) enum Rules {
    /// No program quantizes.
    None,
    /// mlx-lm's choices, in the order of the tensors.
    MlxLm(std::vec::IntoIter<Option<MlxQuantization>>),
    Ollama(TensorRules),
}

impl Rules {
    /// The quantization that Ollama's config blob states.
    pub(super) fn file_type(&self) -> Option<&'static str> {
        match self {
            Self::Ollama(rules) => Some(rules.file_type()),
            Self::None | Self::MlxLm(_) => None,
        }
    }

    /// The form in which the next tensor is written; `None` if no rule changes it.
    fn output(
        &mut self,
        tensor: &Tensor,
        floats: Option<DType>,
        precision: Precision,
    ) -> Result<Option<Output>> {
        match self {
            Self::None => Ok(None),
            Self::MlxLm(choices) => {
                let choice = choices.next().flatten();
                choice.map(|c| grouped(tensor, c.dtype, c.group_size, floats)).transpose()
            }
            Self::Ollama(rules) => rules.output(tensor, precision),
        }
    }
}

impl Conversion<'_> {
    /// The tensors of each rank, or of the whole model, in the writer's dialect.
    pub(super) fn shares(&self, builder: &mut Builder) -> Result<Vec<Share>> {
        let shardings = self.options.mesh.map_or_else(
            || vec![(None, Sharding::new())],
            |mesh| (0..).map(Some).zip(mesh.shardings()).collect(),
        );
        let share = |(rank, sharding): (Option<u64>, Sharding)| {
            Ok(Share { rank, ..self.share(&sharding, builder)? })
        };
        shardings.into_iter().map(share).collect()
    }

    /// Whether all values are decoded.
    pub(super) fn decodes(&self) -> bool {
        let precision = self.options.precision;
        precision.dtype.map_or(precision.decodes, |dtype| !dtype.is_quantized())
    }

    fn share(&self, sharding: &Sharding, builder: &mut Builder) -> Result<Share> {
        let Self { model, writer, options, .. } = *self;
        let (store, resolution) = (model.store(), model.resolution()?);
        // A scheme of which some tensors change is not kept.
        let is_left = resolution.dialect == writer.dialect && self.changes_some();
        let decodes = self.decodes() || is_left;
        let translated = match options.one_file && keeps_names(model) {
            true => {
                let tensors = model.stored_tensors().collect();
                TranslatedTensors { tensors, ..TranslatedTensors::default() }
            }
            false => tensors_of(model, writer.dialect, sharding, decodes)?,
        };
        let TranslatedTensors {
            mut tensors,
            left_out: mut absent,
            in_mxfp4,
            has_plain_experts,
            repeated,
        } = translated;
        repeated::note(&repeated, "mlx-lm").into_iter().for_each(|note| builder.note(note));
        if decodes {
            absent.extend(without_scheme(resolution, &mut tensors));
        }
        absent.retain(|(name, _)| !translate::modules::has_folder(store, resolution, name));
        builder.leave_out(absent);
        if store.encoding() == Encoding::Gguf {
            let before = translate::rows_before_positions(store, resolution)?;
            let end = "embeddings.position_embeddings.weight";
            for tensor in tensors.iter_mut().filter(|t| before > 0 && t.name().ends_with(end)) {
                *tensor = tensor.clone().after_copies(before)?;
                let what = "before position 0, are copies of the next row";
                builder.note(format!("{}: its first {before} rows, {what}", tensor.name()));
            }
        }
        let (in_mxfp4, why_plain) = match (writer.repacks_to)(DType::HF_MXFP4) {
            true => {
                let plain = !options.precision.is_as_stored() || is_left || has_plain_experts;
                experts::in_mxfp4(&mut tensors, &in_mxfp4, plain)?
            }
            false => Default::default(),
        };
        if options.mesh.is_some() {
            ranks::separate(&tensors, &options.fusions).into_iter().for_each(|it| builder.note(it));
        }
        let tensors = experts::stacked(ranks::joined(tensors, &options.fusions)?, writer)?;
        Ok(Share { rank: None, tensors, in_mxfp4, why_plain })
    }

    /// The rules that quantize the tensors of a share, if the caller or the container has any.
    pub(super) fn rules(
        &self,
        share: &Share,
        config: Option<&ConfigDocument>,
        builder: &mut Builder,
    ) -> Result<Rules> {
        let keys = || config.map(ConfigDocument::keys).transpose().map(Option::unwrap_or_default);
        let precision = &self.options.precision;
        Ok(match &self.options.quantization {
            Some(QuantizationRules::MlxLm(options)) => {
                let keys = keys()?;
                let model_type = keys.get("model_type").and_then(Json::as_str);
                let recipe = mlx::recipe(self.model, model_type, &share.tensors, options)?;
                builder.quantization(recipe.config);
                Rules::MlxLm(recipe.choices.into_iter())
            }
            Some(QuantizationRules::Ollama(to)) => {
                let config = Json::Object(keys()?.into_owned());
                Rules::Ollama(TensorRules::quantizing(&config, *to))
            }
            None if self.layers.is_some() && precision.dtype.is_none() && !precision.lossless => {
                let config = Json::Object(keys()?.into_owned());
                TensorRules::decoding_fp8(&config).map_or(Rules::None, Rules::Ollama)
            }
            None => Rules::None,
        })
    }

    /// The dtype to which a tensor is cast for readers other than mlx-lm. A vector in F32 stays so if the checkpoint's
    /// other tensors are narrower: its publisher keeps it in F32, as the biases of routers. GGUF has all vectors in F32,
    /// whatever the model had.
    pub(super) fn casts(
        &self,
        tensors: &[(Option<String>, Tensor)],
    ) -> impl Fn(&Tensor) -> Option<DType> + use<> {
        let is_wide = |tensor: &Tensor| tensor.dtype().is_ok_and(|dtype| dtype == DType::F32);
        let weights = |wide: bool| {
            let of = tensors.iter().map(|(_, tensor)| tensor).filter(|t| is_wide(t) == wide);
            of.map(Tensor::elements).fold(0, u64::saturating_add)
        };
        let keeps = !matches!(self.model.encoding(), Encoding::Gguf | Encoding::Ggml)
            && weights(true) < weights(false);
        let dtype = self.options.precision.plain_dtype();
        move |tensor| dtype.filter(|_| !(keeps && is_wide(tensor)))
    }

    /// Adds the tensors of a rank, or of the whole model.
    pub(super) fn push_share(
        &self,
        share: Share,
        rules: &mut Rules,
        builder: &mut Builder,
    ) -> Result<()> {
        let resolution = self.model.resolution()?;
        let Share { rank, tensors, mut in_mxfp4, .. } = share;
        // A scheme whose tensors are divided is written decoded, and so are those that every rank has.
        let same = resolution.dialect == self.writer.dialect && rank.is_none();
        let whole = !self.changes_some();
        let for_mlx = (self.writer.dialect == Dialect::Mlx).then(|| {
            let quantizes = matches!(rules, Rules::MlxLm(_));
            mlx::floats(self.model, resolution, self.options.precision, quantizes, &tensors)
        });
        let uncast = resolution.architecture.map_or(&[][..], |row| row.mlx_uncast);
        let casts = self.casts(&tensors);
        for (experts, tensor) in tensors {
            let floats = for_mlx.unwrap_or_else(|| casts(&tensor));
            let cast = !uncast.iter().any(|piece| tensor.name().contains(piece));
            let mut precision =
                Precision { floats: floats.filter(|_| cast), ..self.options.precision };
            if mlx::is_bare(self.model, self.writer, &tensor) {
                precision.dtype = precision.dtype.or(floats).or(Some(DType::BF16));
                builder.note(format!(
                    "{}: decoded, since mlx-lm's class has no quantized form of it",
                    tensor.name()
                ));
            }
            let chosen = match rules.output(&tensor, floats, precision)? {
                None => self.as_before(&tensor, precision)?,
                chosen => chosen,
            };
            let output = match (in_mxfp4.remove(tensor.name()), chosen) {
                (Some(repacking), _) => {
                    Output::new(Producer::Repacked(repacking), Method::Repacked)
                }
                (None, Some(output)) => output,
                (None, None) => copy_or_choose(&tensor, self.writer, (same, whole), precision)?,
            };
            let dtypes = (tensor.dtype(), output.producer.dtype());
            if let (Some(_), (Ok(from), Ok(to))) = (rank, dtypes)
                && from.is_quantized()
                && !to.is_quantized()
            {
                builder.note(format!(
                    "{from} is decoded to {to}: the ranks' parts of quantized tensors are written plain, and config.json \
                     states no quantization"
                ));
            }
            builder.push(OutTensor { experts, rank, ..OutTensor::new(tensor.name(), output) });
        }
        Ok(())
    }
}

impl Conversion<'_> {
    /// A merged matrix of an MLX directory in the quantized form that it has there, if that is asked for.
    fn as_before(&self, tensor: &Tensor, precision: Precision) -> Result<Option<Output>> {
        let is_asked = self.options.requantize_merged && precision.is_as_stored();
        let is_asked = is_asked && self.writer.dialect == Dialect::Mlx && tensor.is_adapted();
        let Some(group) = tensor.group_size().filter(|_| is_asked) else { return Ok(None) };
        let mut scales = tensor.segments().filter(|segment| segment.part == Part::Scale);
        let floats = scales.next().map(|segment| segment.dtype).filter(|it| !it.is_integer());
        let floats = precision.floats.or(floats).unwrap_or(DType::BF16);
        grouped_from(tensor, floats, tensor.dtype()?, group).map(Some)
    }
}

/// Removes the tensors of a quantization scheme from those that are decoded. Returns them, with what each is.
fn without_scheme(resolution: &Resolution, tensors: &mut Vec<Tensor>) -> Vec<(String, String)> {
    let of_scheme = resolution.auxiliary.iter().filter(|tensor| tensor.is_of_scheme());
    let reasons: HashMap<&str, &str> =
        of_scheme.map(|tensor| (tensor.stored.as_str(), tensor.reason)).collect();
    let all = std::mem::take(tensors).into_iter();
    let (removed, kept): (Vec<Tensor>, Vec<Tensor>) =
        all.partition(|tensor| reasons.contains_key(tensor.name()));
    *tensors = kept;
    let named = |tensor: Tensor| {
        let reason = reasons.get(tensor.name()).copied().unwrap_or_default();
        (tensor.name().to_owned(), reason.to_owned())
    };
    removed.into_iter().map(named).collect()
}

/// Chooses how to write a tensor that no rule quantizes. `same` says whether the names of source
/// and output are of the same dialect.
fn copy_or_choose(
    tensor: &Tensor,
    writer: &Writer,
    (same, whole): (bool, bool),
    mut precision: Precision,
) -> Result<Output> {
    if writer.keeps_schemes && precision.is_as_stored() {
        // Transformers reads a checkpoint's own quantization scheme, but not MLX's groups from
        // Ollama's store.
        let mlx = tensor.dtype().is_ok_and(|dtype| dtype.group_quantizer().is_some());
        let quantized = tensor.dtype().is_ok_and(DType::is_quantized);
        if same && tensor.is_stored() && !mlx && (whole || !quantized) {
            return Ok(Output::new(Producer::Packed(tensor.clone()), Method::Copied));
        }
        if quantized {
            precision.decodes = true;
        }
    }
    choose(tensor, writer, precision)
}
