//! `create`: creates a model in Ollama's store.

use std::path::Path;

use weighbridge::Model;
use weighbridge::container::OLLAMA;
use weighbridge::model::Encoding;
use weighbridge::ollama::Modelfile;
use weighbridge::ops::{self, CreateOptions};

use super::Done;
use crate::args::CreatedType;
use crate::args::write::Create;
use crate::print::shown;
use crate::{Stop, failure, remark, writing};

pub(crate) fn run(args: &Create) -> Done {
    let place = args.store.place(&args.name)?;
    let (model, options) = source(args)?;
    remark(&model);
    let mut plan = ops::create(&model, with_arguments(options, args)?)?;
    let is_store = model.container() == OLLAMA.name;
    if args.quantize.is_none() && model.encoding() != Encoding::Gguf && !is_store {
        plan.notes.push(format!(
            "each tensor becomes a blob, as for `ollama create --experimental`; `ollama create` alone makes GGUF of a \
             directory, and so does --quantize F16, or `weighbridge convert {} FILE.gguf` before `create`",
            shown(model.path())
        ));
    }
    writing::run_whole(&model, &plan, &place, args.whole, &args.writing)
}

/// The model to start from, and what the Modelfile sets.
fn source(args: &Create) -> Result<(Model, CreateOptions), Stop> {
    let usual = Path::new("Modelfile");
    let file = match (&args.file, &args.src) {
        (Some(file), _) => Some(file.as_path()),
        (None, None) if usual.is_file() => Some(usual),
        (None, _) => None,
    };
    let open = args.writing.open.options();
    match (file, &args.src) {
        (None, None) => Err(Stop::Usage(
            "give a model, or a Modelfile with -f: there is no file ./Modelfile".to_owned(),
        )),
        (None, Some(src)) => Ok((open.open(src)?, CreateOptions::new())),
        (Some(file), src) => {
            let parsed = Modelfile::read(file)?;
            let folder = file.parent().unwrap_or(Path::new(""));
            let from = src.as_deref().map(|src| open.open(src)).transpose()?;
            Ok(CreateOptions::new().modelfile(&parsed, folder, from)?)
        }
    }
}

/// Adds what the command line sets.
fn with_arguments(options: CreateOptions, args: &Create) -> Result<CreateOptions, Stop> {
    let mut options = match args.quantize {
        Some(CreatedType::Gguf(file_type)) => options.file_type(file_type),
        Some(CreatedType::Blobs(quantization)) => options.quantize(quantization),
        None => options,
    };
    options = options.quantize_draft(args.draft_quantize);
    if let Some(text) = &args.template {
        let template = content(text)?;
        if template.contains("{%") {
            let fault = "{% is of a Jinja template, but Ollama's are Go templates: `weighbridge meta set FILE \
                chat_template=@TEMPLATE -o COPY` writes a GGUF file with a Jinja template";
            return Err(Stop::Usage(fault.to_owned()));
        }
        options = options.template(template)?;
    }
    if let Some(text) = &args.system {
        options = options.system(content(text)?);
    }
    for (name, value) in &args.parameter {
        options = options.parameter(name, value)?;
    }
    for text in &args.license {
        options = options.license(content(text)?);
    }
    for (role, text) in &args.message {
        options = options.message(role, content(text)?);
    }
    for file in args.adapter.iter().chain(&args.projector) {
        options = options.file(file)?;
    }
    if let Some(path) = &args.draft {
        options = options.draft(path)?;
    }
    if let Some(name) = &args.renderer {
        options = options.renderer(name);
    }
    if let Some(name) = &args.parser {
        options = options.parser(name);
    }
    if let Some(version) = &args.requires {
        options = options.requires(version)?;
    }
    Ok(options)
}

/// A text, or with `@` before it, the text of a file.
fn content(text: &str) -> Result<String, Stop> {
    let Some(path) = text.strip_prefix('@').map(Path::new) else {
        failure::note_file(text);
        return Ok(text.to_owned());
    };
    std::fs::read_to_string(path).map_err(|error| failure::io(path, "cannot read the file", error))
}
