//! A LoRA adapter as a GGUF file.

use crate::adapter::Adapter;
use crate::container::GGUF;
use crate::dialect::Dialect;
use crate::dtype::DType;
use crate::error::Result;
use crate::metadata::Value;
use crate::model::{Model, Tensor};
use crate::ops::account;
use crate::shape;
use crate::translate;
use crate::write::{Builder, ItemKind, Outcome, WritePlan};

/// Plans an adapter as the GGUF file that llama.cpp's `convert_lora_to_gguf.py` writes: the matrices in the
/// names and the row order that the base has in GGUF, with one alpha. They keep their dtypes unless one is
/// given, which is F16 where rows do not divide into its blocks.
///
/// # Errors
///
/// `Malformed` for an adapter without tensors, or with NaN; `NotFound` and `Mismatch` if the adapter does not fit the base; `Unsupported` if the base has no form in
/// GGUF, or for changes that are no products of two matrices of one GGUF tensor with a common alpha.
pub fn adapter_in_gguf(adapter: &Adapter, base: &Model, dtype: Option<DType>) -> Result<WritePlan> {
    adapter.check_content().map_err(|error| error.in_file(adapter.path()))?;
    let tensors = base.tensors_in(Dialect::Gguf)?.tensors;
    let names: Vec<&str> = tensors.iter().map(Tensor::name).collect();
    let matrices = adapter.in_gguf(base, &names)?;
    let mut builder = Builder::new(&GGUF)?;
    adapter.unread().for_each(|note| builder.note(note));
    let keys = builder.metadata();
    keys.set_text("general.architecture", &translate::gguf_architecture(base)?);
    keys.set_text("general.type", "adapter");
    keys.set_text("adapter.type", "lora");
    keys.set("adapter.lora.alpha", Value::F32(matrices.alpha));
    if let Some((key, tokens)) = matrices.invocation {
        keys.set_array(key, tokens);
    }
    if let Some(name) = adapter.base_model() {
        keys.set("general.base_model.count", Value::U32(1));
        keys.set_text("general.base_model.0.name", name);
    }
    let reason = "GGUF has no place for what it changes".to_owned();
    builder.leave_out(matrices.lost.into_iter().map(|name| (name, reason.clone())).collect());
    for tensor in &matrices.tensors {
        match dtype {
            Some(dtype) => {
                // The rank is the length of a row of the second matrix.
                let fits = dtype.row_bytes(shape::columns(tensor.shape())).is_some();
                if !fits {
                    let note = format!("rows that do not divide into blocks of {dtype} are F16");
                    builder.note(note);
                }
                let dtype = if fits { dtype } else { DType::F16 };
                builder.add_as(tensor.name(), tensor, dtype)?;
            }
            None => builder.add(tensor.name(), tensor)?,
        }
    }
    account::of_part(adapter.model(), &mut builder, |kind, name| match kind {
        ItemKind::Tensor | ItemKind::Part => {
            (Outcome::LeftOut, "GGUF has no place for what it changes")
        }
        ItemKind::File if name != "adapter_config.json" => {
            (Outcome::LeftOut, "not a part of the adapter")
        }
        _ => (Outcome::Derived, account::GGUF_KEYS),
    })?;
    builder.plan()
}
