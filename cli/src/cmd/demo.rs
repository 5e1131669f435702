//! `demo`: shows on the built-in sample what the program does, in a screen.

use std::io::Write;
use std::path::Path;

use weighbridge::container::{Container, MLX, SAFETENSORS};
use weighbridge::ops::{self, ConvertOptions, DiffOptions};
use weighbridge::recipe::FileType;
use weighbridge::recipe::llama_cpp::LlamaOptions;
use weighbridge::{DType, Error, ErrorKind, Model, WriteOptions, WritePlan};
use weighbridge_reference::{Reference, TextTokens, likeliest};

use super::Done;
use super::bench::SAMPLE;
use crate::print::{self, Table, bits, bytes, count, left, plural};
use crate::{Status, Stop, failure};

/// The tensor whose values are shown.
const TENSOR: &str = "layers.0.attention.q.weight";

pub(crate) fn run() -> Done {
    let folder = tempfile::tempdir()
        .map_err(|error| failure::io(&std::env::temp_dir(), "cannot create a folder", error))?;
    let at = |name: &str| folder.path().join(name);
    let path = at("tales.gguf");
    std::fs::write(&path, SAMPLE)
        .map_err(|error| failure::io(&path, "cannot write the file", error))?;
    let gguf = Model::open(&path)?;
    let safetensors = converted(&gguf, &SAFETENSORS, &at("tales"))?;
    let mlx = converted(&gguf, &MLX, &at("tales-mlx"))?;
    let mut out = print::stdout();
    let weights = count(gguf.quantization().elements());
    writeln!(out, "A sample model of {weights} weights, in three containers (file formats):\n")?;
    let columns = [
        left("CONTAINER"),
        left("STORED NAME").middle(13),
        left("DTYPE").optional(1),
        left("FIRST VALUES").optional(2),
    ];
    let mut table = Table::new(&columns);
    for model in [&gguf, &safetensors, &mlx] {
        table.row(row(model)?);
    }
    table.write(&mut out)?;
    let compared = |other: &Model| ops::diff(&gguf, other, &DiffOptions::new());
    let (a, b) = (compared(&safetensors)?, compared(&mlx)?);
    let tensors = plural(a.report().compared, "tensor");
    let values = match (a.report().different.len(), b.report().different.len()) {
        (0, 0) => {
            format!(
                "All {tensors} have equal values: the conversions, to F32 and to MLX with 8 bits, are exact."
            )
        }
        (a, b) => format!("Of {tensors}, {a} differ in the second and {b} in the third."),
    };
    writeln!(out, "\nWeighbridge calls this tensor {TENSOR} in all three.\n{values}")?;
    let file_type = FileType::from_name("Q4_K_M").ok_or_else(unknown_type)?;
    let plan = ops::quantize(&safetensors, &LlamaOptions::new(file_type), None, &at("small.gguf"))?;
    let small = written(&plan, &at("small.gguf"))?;
    let error = ops::diff(&safetensors, &small, &DiffOptions::new())?.report().relative_rms;
    writeln!(
        out,
        "Quantized from Q8_0 ({}) to Q4_K_M ({}): {} bits per weight; the weights change by {:.1} % (RMS).",
        bytes(SAMPLE.len() as u64),
        bytes(plan.bytes()),
        bits(small.quantization().bits_per_weight()),
        error.unwrap_or_default() * 100.0,
    )?;
    let (before, after) = (tale(&gguf)?, tale(&small)?);
    let told = match before == after {
        true => "Quantized, it tells the same story",
        false => "Quantized, it tells another story",
    };
    writeln!(out, "{told}: \"{after}...\"")?;
    writeln!(out, "\nNext, your model:")?;
    for command in ["FILE", "view FILE", "memory FILE 8G"] {
        writeln!(out, "  weighbridge {command}")?;
    }
    out.flush()?;
    Ok(Status::Fine)
}

fn unknown_type() -> Error {
    Error::new(ErrorKind::Unsupported, "no file type is named Q4_K_M")
}

/// The model in another container, with the same values.
fn converted(model: &Model, to: &'static Container, path: &Path) -> Result<Model, Stop> {
    let options = ConvertOptions::new(to).lossless(true);
    let options = if *to == SAFETENSORS { options.dtype(DType::F32) } else { options };
    written(&ops::convert(model, &options)?, path)
}

fn written(plan: &WritePlan, path: &Path) -> Result<Model, Stop> {
    plan.run(path, &WriteOptions::new())?;
    Ok(Model::open(path)?)
}

/// Container, stored name, dtype and first values of the tensor.
fn row(model: &Model) -> Result<[String; 4], Stop> {
    let tensor = model.tensor(TENSOR)?;
    let source = tensor.sources().next().map(|source| source.name().to_owned());
    let values = tensor.dequantize()?;
    let values: Vec<String> = values.iter().take(2).map(|value| format!("{value:.3}")).collect();
    let container = model.container().to_owned();
    Ok([container, source.unwrap_or_default(), tensor.dtype_label(), values.join(", ")])
}

/// The text with which the model continues a prompt.
fn tale(model: &Model) -> Result<String, Stop> {
    const PROMPT: &str = "Once";
    let no_texts = || Error::new(ErrorKind::Unsupported, "the model has no tokenizer");
    let texts = model.tokenizer()?.ok_or_else(no_texts)?.detokenizer()?;
    let reference = Reference::new(model)?;
    let mut session = reference.session();
    let mut stream = texts.stream();
    let mut tokens = TextTokens::new(model)?.of(PROMPT)?;
    let mut text = PROMPT.to_owned();
    for _ in 0..24 {
        let token = likeliest(&session.next(&tokens)?)?;
        text += &stream.push(token);
        tokens = vec![token];
    }
    Ok(text + &stream.finish())
}
