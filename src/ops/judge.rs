//! Judges a plan before anything is written, by the checks that `verify` applies to a model of the
//! plan's container.

use super::account;
use super::agreement::FOR_OTHERS;
use super::verify::{Area, Examination, Fault, MlxReader, unloaded};
use crate::error::{AdvisedOption, Error, Result};
use crate::model::Model;
use crate::store::Encoding;
use crate::write::{Builder, Method, WritePlan};

/// Plans a language model that is made from `source`. A fault of the written model that the source does
/// not have is an error, or a note if `unloadable` is set.
///
/// A plan without a tensor is an error if the source has tensors: all would be left out. Otherwise, only complete models
/// are judged: an incomplete one is refused when the plan is run. Copies of all tensors and keys (`merge`, `split`) have no
/// faults but those of their source.
///
/// # Errors
///
/// `Unsupported` for such a fault; otherwise same as [`Builder::plan`].
pub(super) fn judged(mut builder: Builder, source: &Model, unloadable: bool) -> Result<WritePlan> {
    let resolution = source.resolution()?;
    if builder.tensors().is_empty() && !source.store().is_empty() {
        resolution.check_language_model()?;
        return Err(Error::unsupported("every tensor would be left out"));
    }
    source.merged().iter().for_each(|note| builder.note(note.clone()));
    if source.document("config.json").is_none() && source.encoding() == Encoding::Safetensors {
        for (key, value) in source.computed_config() {
            builder.note(format!("{key}: {value}: this key is not known, and the result lacks it"));
        }
    }
    let planned = builder.model(source)?.filter(|_| resolution.missing.is_empty());
    if let Some(planned) = planned {
        // Programs that run a directory are as likely to run its quantized form, whatever mlx-lm knows.
        let quantizes =
            builder.tensors().iter().any(|tensor| tensor.output.method == Method::Quantized);
        let is_copy = quantizes && source.encoding() != Encoding::Gguf;
        let (fault, tolerated) = verdict(&planned, source, (unloadable, is_copy))?;
        if let Some(fault) = fault {
            if !tolerated {
                return Err(Error::unsupported(fault)
                    .advise_option(FOR_OTHERS, AdvisedOption::AllowUnloadable));
            }
            builder.note(fault);
        } else if source.encoding() == Encoding::Gguf {
            not_loaded(&planned)?.into_iter().for_each(|note| builder.note(note));
        }
    }
    account::complete(source, &mut builder)?;
    Ok(builder.plan()?.for_whole_model(resolution))
}

/// Checks that llama.cpp loads the file of a planned vision model.
///
/// # Errors
///
/// `Unsupported` if it does not.
pub(super) fn check_projector(builder: &Builder, source: &Model) -> Result<()> {
    let planned = builder.model(source)?;
    let faults = planned.as_ref().map(unloaded).transpose()?.unwrap_or_default();
    if faults.is_empty() {
        return Ok(());
    }
    Err(Error::unsupported(format!("llama.cpp could not load the file: {}", shortened(&faults))))
}

/// A note on a GGUF file that llama.cpp does not load, which was written for another program.
pub(super) fn not_loaded(model: &Model) -> Result<Option<String>> {
    let faults = unloaded(model)?;
    Ok((!faults.is_empty()).then(|| shortened(&faults)))
}

/// The fault of a planned model, and whether it is written nevertheless: `is_copy` says that it is the
/// quantized form of a directory.
fn verdict(
    planned: &Model,
    source: &Model,
    (unloadable, is_copy): (bool, bool),
) -> Result<(Option<String>, bool)> {
    let found = Examination::of(planned)?;
    if planned.container() == "mlx"
        && let Some(MlxReader { fault, program }) =
            MlxReader::of(planned.store(), planned.resolution()?)
    {
        let tolerated = unloadable || program.is_some() || is_copy;
        let reader = program.unwrap_or("other readers");
        let note = format!("{fault}: the directory is for {reader}");
        return Ok((Some(if tolerated { note } else { fault }), tolerated));
    }
    if !found.loader.is_empty() {
        // Other programs may load what llama.cpp does not: a file that it did not load before is written.
        let shared =
            source.encoding() == Encoding::Gguf && !Examination::of(source)?.loader.is_empty();
        let faults = shortened(&found.loader);
        let fault = match planned.encoding() {
            Encoding::Gguf => format!("llama.cpp could not load the file: {faults}"),
            _ => faults,
        };
        return Ok((Some(fault), unloadable || shared));
    }
    let (of_source, new) = found.by_origin(source)?;
    if !new.is_empty() {
        let fault = format!("the written model would have a fault: {}", shortened(&new));
        return Ok((Some(fault), unloadable));
    }
    // Other notes name unknown tensors and, for GGUF, the tokenizer's file that is missing or not read.
    let lacks_keys = planned.encoding() == Encoding::Gguf && !has_tokenizer(source);
    let is_noted = |fault: &Fault| match fault.area {
        Area::Names => true,
        Area::Vocabulary => lacks_keys,
        _ => false,
    };
    let of_source = of_source.into_iter().filter(|fault| !is_noted(fault));
    let of_source: Vec<String> = of_source.map(|fault| fault.text).collect();
    let fault = (!of_source.is_empty())
        .then(|| format!("the written model has a fault of its source: {}", shortened(&of_source)));
    Ok((fault, true))
}

impl Examination {
    /// The faults in areas in which the source has one too, and the texts of the others.
    fn by_origin(self, source: &Model) -> Result<(Vec<Fault>, Vec<String>)> {
        let faults: Vec<_> = self.faults.into_iter().chain(self.refused).collect();
        if faults.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let known = Self::of(source)?;
        let mut areas: Vec<Area> =
            known.faults.iter().chain(&known.refused).map(|fault| fault.area).collect();
        if areas.contains(&Area::Values) {
            // Names and shapes of arrays that are not understood say nothing.
            return Ok((Vec::new(), Vec::new()));
        }
        areas.extend((!known.loader.is_empty()).then_some(Area::Loader));
        // Only some readers require a tokenizer.
        areas.extend((!has_tokenizer(source)).then_some(Area::Vocabulary));
        let (of_source, new): (Vec<_>, Vec<_>) =
            faults.into_iter().partition(|fault| areas.contains(&fault.area));
        Ok((of_source, new.into_iter().map(|fault| fault.text).collect()))
    }
}

fn has_tokenizer(model: &Model) -> bool {
    !model.tokenizer().is_ok_and(|tokenizer| tokenizer.is_none())
}

/// The first fault of a list, and the number of the others.
fn shortened(faults: &[String]) -> String {
    let first = faults.first().map(String::as_str).unwrap_or_default();
    match faults.len() {
        0 | 1 => first.to_owned(),
        2 => format!("{first}, and 1 more fault"),
        several => format!("{first}, and {} more faults", several.saturating_sub(1)),
    }
}
