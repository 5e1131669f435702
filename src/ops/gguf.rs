//! A model as one of GGUF: keys and tensors, whatever it is read from.

use super::dialect::{Spoken, speak};
use crate::arch::Dialect;
use crate::device::Device;
use crate::dtype::{DType, Packing};
use crate::error::{Error, Result};
use crate::metadata::{KeyValues, Value};
use crate::provider::WeightProvider;
use crate::recipe::FileType;
use crate::tensor::Part;
use crate::translate;
use crate::view::View;
use crate::write::{How, Making, OutTensor};

/// A tensor of the draft: how it is made as it is, and what has to be known to make it otherwise.
#[derive(Debug)]
pub(super) struct Drafted<'a> {
    pub(super) tensor: OutTensor<'a>,
    pub(super) how: How,
    pub(super) why: Option<String>,
}

/// Keys and tensors that are going to be a GGUF model.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) keys: KeyValues,
    pub(super) tensors: Vec<Drafted<'a>>,
    /// Tensors that are left out, each with the reason.
    pub(super) left_out: Vec<(String, String)>,
}

/// What plain tensors become.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plain {
    /// Matrices that are not quantized; where nothing is said, as they are.
    pub(super) dtype: Option<DType>,
    /// Quantized tensors too.
    pub(super) all: bool,
}

impl<'a> Draft<'a> {
    /// The model in GGUF's names, order and values, with its tensors packed as they are where GGUF
    /// has their dtype.
    pub(super) fn of<D: Device>(model: &'a WeightProvider<D>, plain: Plain) -> Result<Self> {
        let (store, resolution) = (model.store(), model.resolution());
        let keys = translate::gguf_metadata(store, resolution)?;
        let Spoken { tensors: views, left_out } = speak(model, Dialect::Gguf)?;
        let own = resolution.dialect == Dialect::Gguf;
        let mut tensors = Vec::new();
        for (name, values) in translate::gguf_tensors(store, resolution)? {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let making = Making::Bytes {
                bytes: bytes.into(),
                dtype: DType::F32,
                shape: vec![values.len() as u64],
            };
            let tensor = OutTensor { name: name.to_owned(), making };
            let why = Some("computed from the config".to_owned());
            tensors.push(Drafted { tensor, how: How::Generated, why });
        }
        for view in views {
            tensors.push(drafted(view, own, plain)?);
        }
        let mut draft = Self { keys, tensors, left_out };
        if !own || plain.dtype.is_some() {
            let number = draft.file_type();
            draft.keys.set("general.file_type", Value::U32(number));
        }
        Ok(draft)
    }

    /// What llama.cpp calls a model of these dtypes: by the one that most of its matrices have.
    fn file_type(&self) -> u32 {
        let mut counts: Vec<(DType, u64)> = Vec::new();
        for Drafted { tensor, .. } in &self.tensors {
            let (Ok(dtype), [_, _, ..]) = (tensor.making.dtype(), tensor.making.shape()) else {
                continue;
            };
            let weights = crate::shape::elements(tensor.making.shape()).unwrap_or(0);
            match counts.iter_mut().find(|(other, _)| *other == dtype) {
                Some((_, sum)) => *sum = sum.saturating_add(weights),
                None => counts.push((dtype, weights)),
            }
        }
        let most = counts.iter().max_by_key(|(_, weights)| *weights).map(|(dtype, _)| *dtype);
        match most {
            // The one file type that is read and never made by name.
            Some(DType::NVFP4) => 39,
            Some(DType::MXFP4) => 38,
            Some(dtype) => FileType::from_name(dtype.name())
                .and_then(|found| found.descriptor().number)
                .unwrap_or(0),
            None => 0,
        }
    }
}

/// How a tensor under GGUF's name is made.
fn drafted(view: View<'_>, own: bool, plain: Plain) -> Result<Drafted<'_>> {
    let name = view.name().to_owned();
    let finished = |making, how, why: Option<String>| {
        Ok(Drafted { tensor: OutTensor { name: name.clone(), making }, how, why })
    };
    let stored = view.stored_dtype();
    let plainly = matches!(&stored, Ok(dtype) if dtype.descriptor().packing == Packing::Plain);
    let integer = matches!(&stored, Ok(dtype) if dtype.is_integer());
    // llama.cpp's operations want these as F32 (`prepare_tensors` of its converter).
    let small = !own && !integer && (view.shape().len() < 2 || is_small(&name));
    let wanted = match plain.dtype {
        _ if small => Some(DType::F32),
        Some(dtype) if view.shape().len() > 1 && (plainly || plain.all) && !integer => Some(dtype),
        _ => None,
    };
    let exact = view.values_dtype();
    let encoded = |view, dtype, why| {
        let how = match dtype == exact || dtype == DType::F32 && exact != DType::F64 {
            true => How::Exact,
            false => How::Rounded,
        };
        (Making::Encoded { view, dtype, importance: None }, how, why)
    };
    if let Some(dtype) = wanted.filter(|dtype| stored.as_ref().ok() != Some(dtype)) {
        let (making, how, why) = encoded(view, dtype, None);
        return finished(making, how, why);
    }
    if let Some(why) = view.why_computed() {
        let (making, how, why) = encoded(view, exact, Some(why.to_owned()));
        return finished(making, how, why);
    }
    match view.packed() {
        Ok(parts) => {
            let ggml = stored.as_ref().is_ok_and(|dtype| dtype.descriptor().ggml.is_some());
            let held =
                parts.iter().all(|part| matches!(part.part, Part::Weight | Part::GlobalScale));
            if ggml && held {
                return finished(Making::Packed(view), How::Copied, None);
            }
            let stored = stored?;
            let fault = format!("GGUF has no dtype for {stored}");
            Err(Error::unsupported(fault)
                .in_tensor(&name)
                .advise("say what to make of it: --dtype F16, or `quantize`"))
        }
        Err(error) => {
            let (making, how, why) = encoded(view, exact, Some(error.to_string()));
            finished(making, how, why)
        }
    }
}

/// Tensors that llama.cpp's converter keeps as F32 whatever the file type: norms, routers,
/// convolutions and the embeddings of positions (`prepare_tensors` in conversion/base.py).
fn is_small(name: &str) -> bool {
    const ENDS: &[&str] = &[
        "_norm.weight",
        "ffn_gate_inp.weight",
        "ffn_gate_inp_shexp.weight",
        "position_embd.weight",
        "token_types.weight",
        "ssm_conv1d.weight",
        "shortconv.conv.weight",
    ];
    ENDS.iter().any(|end| name.ends_with(end)) || !name.ends_with(".weight")
}
