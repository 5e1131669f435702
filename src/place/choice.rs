//! Chooses files of a repository: one of its GGUF files, or the files that a model needs.

use crate::error::{Error, Result};

/// The quantization that is chosen of several if none is named: llama.cpp's choice
/// (docs/development, `-hf`).
const USUAL: &str = "Q4_K_M";

/// The GGUF file that a tag such as `Q4_K_M` means, of a split one the first shard. Without a tag, or
/// with `latest`: the file that is Q4_K_M, else the first.
///
/// # Errors
///
/// `NotFound` with the tags that exist; `Mismatch` if several files have the tag.
pub(crate) fn gguf<'n>(
    names: impl Iterator<Item = &'n String>,
    tag: Option<&str>,
) -> Result<&'n String> {
    let names: Vec<&String> = names.collect();
    let models: Vec<&String> = names.iter().copied().filter(|name| is_model(name)).collect();
    let tagged = |tag: &str| -> Vec<&String> {
        let fits = |file: &&&String| quantization(file).is_some_and(|found| found == tag);
        models.iter().filter(fits).copied().collect()
    };
    // `latest` is what Ollama adds where no tag is given.
    let wanted = tag.map(str::to_ascii_uppercase).filter(|tag| tag != "LATEST");
    let Some(wanted) = wanted else {
        let usual = tagged(USUAL).first().copied();
        return usual
            .or_else(|| models.first().copied())
            .ok_or_else(|| Error::not_found("the repository has no GGUF files"));
    };
    match tagged(&wanted).as_slice() {
        [one] => return Ok(one),
        [] => {}
        several => {
            let list: Vec<&str> = several.iter().map(|file| file.as_str()).collect();
            let fault = format!("several files are {wanted}: {}", list.join(", "));
            return Err(Error::mismatch(fault).advise("give the file: hf://ORG/NAME/FILE"));
        }
    }
    let is_wanted = |name: &&&String| {
        let whole = name.rsplit_once(".part").and_then(|(whole, _)| quantization(whole));
        is_piece(name) && whole.as_ref() == Some(&wanted)
    };
    let pieces: Vec<&str> = names.iter().filter(is_wanted).map(|name| name.as_str()).collect();
    if !pieces.is_empty() {
        let fault = format!("the file that is {wanted} is cut into pieces: {}", pieces.join(", "));
        let advice = format!("fetch the files of the pattern *{wanted}*, and join them with cat");
        return Err(Error::unsupported(fault).advise(advice));
    }
    let mut tags: Vec<String> = models.iter().filter_map(|file| quantization(file)).collect();
    tags.sort();
    tags.dedup();
    let error = Error::not_found(format!("no GGUF file of the repository is {wanted}"));
    Err(match tags.is_empty() {
        true => error.advise("it has no GGUF files"),
        false => error.advise(format!("it has {}", tags.join(", "))),
    })
}

/// Whether a GGUF file is a model: no projector, no importance matrix, of shards the first.
fn is_model(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let later = lower.contains("-of-") && !lower.contains("-00001-of-");
    lower.ends_with(".gguf") && !is_projector(&lower) && !lower.contains("imatrix") && !later
}

/// Whether a file is a part of a GGUF file that was cut anywhere: `NAME.gguf.part1of2`.
fn is_piece(name: &str) -> bool {
    name.to_ascii_lowercase().contains(".gguf.part")
}

fn is_projector(lower: &str) -> bool {
    lower.ends_with(".gguf") && lower.contains("mmproj")
}

/// The quantization in the name of a GGUF file: its last part that begins like one.
fn quantization(file: &str) -> Option<String> {
    let stem = file.rsplit('/').next()?.rsplit_once('.')?.0;
    let stem = stem.split("-00001-of-").next()?.to_ascii_uppercase();
    let starts = ["Q", "IQ", "TQ", "BF16", "F16", "F32", "FP16", "MXFP4", "NVFP4"];
    let is_one = |part: &&str| {
        starts.iter().any(|start| {
            let rest = part.strip_prefix(start);
            rest.is_some_and(|rest| {
                let numbered = start.ends_with('Q');
                !numbered && rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit())
            })
        })
    };
    stem.split(['-', '.', ' ']).rfind(is_one).map(str::to_owned)
}

/// The forms in which a repository may have its weights. Only the first that it has is downloaded.
const WEIGHTS: [&[&str]; 4] =
    [&[".safetensors"], &[".gguf"], &[".npz"], &[".bin", ".pt", ".pth", ".ckpt"]];

/// The files that a model needs besides its weights: config, tokenizer, templates, code, license,
/// description.
const DOCUMENTS: [&str; 8] =
    [".json", ".jinja", ".txt", ".md", ".model", ".tiktoken", ".py", ".yaml"];
const TEXTS: [&str; 4] = ["LICENSE", "LICENCE", "NOTICE", "README"];

/// The files of a repository that a model needs, in the order of `names`: weights in one form, and
/// the documents beside them. Of several GGUF files, one model with all its shards, and a projector.
///
/// # Errors
///
/// Same as [`gguf`].
#[cfg_attr(
    not(any(feature = "http", test)),
    expect(dead_code, reason = "only downloads choose files")
)]
pub(crate) fn needed<'n>(names: &[&'n String], tag: Option<&str>) -> Result<Vec<&'n String>> {
    let is_form = |form: &[&str], name: &str| form.iter().any(|ending| name.ends_with(ending));
    let forms = WEIGHTS.iter().filter(|form| match tag {
        Some(_) => form.contains(&".gguf"),
        None => true,
    });
    // Weights in folders, such as `original/`, are other forms of the same, unless there are no others.
    let weights = |form: &[&str]| -> Vec<&'n String> {
        let all = names.iter().copied().filter(|name| is_form(form, name));
        let all: Vec<&String> = all.filter(|name| !is_training_state(name)).collect();
        let beside: Vec<&String> = all.iter().copied().filter(|name| is_beside(name)).collect();
        if beside.is_empty() { all } else { beside }
    };
    let mut found = forms.map(|form| (form, weights(form))).find(|(_, found)| !found.is_empty());
    if let Some((form, weights)) = &mut found {
        if form.contains(&".gguf") {
            let all = weights.clone();
            let pieces = names.iter().copied().filter(|name| is_piece(name));
            let model = gguf(all.iter().copied().chain(pieces), tag)?;
            let set = model.split("-00001-of-").next().unwrap_or(model);
            let shards = |name: &&&String| {
                *name == &model
                    || model.as_str() != set && {
                        name.strip_prefix(set).is_some_and(|rest| rest.contains("-of-"))
                    }
            };
            *weights = all.iter().filter(shards).copied().collect();
            weights.extend(projector(&all));
        } else if weights.iter().any(|name| name.starts_with("model")) {
            // `consolidated.safetensors` holds the same weights under other names.
            weights.retain(|name| !name.starts_with("consolidated"));
        }
    } else if tag.is_some() {
        gguf(names.iter().copied(), tag)?;
    }
    let weights = found.map(|(_, weights)| weights).unwrap_or_default();
    let is_document = |name: &str| {
        let file = name.rsplit('/').next().unwrap_or(name);
        is_beside(name)
            && !file.starts_with('.')
            && (DOCUMENTS.iter().any(|ending| file.ends_with(ending))
                || TEXTS.iter().any(|text| file.starts_with(text)))
    };
    let others = |name: &&&String| weights.contains(name) || is_document(name) && !is_index(name);
    let index =
        |name: &&&String| is_index(name) && weights.iter().any(|weight| is_index_of(name, weight));
    Ok(names.iter().filter(|name| others(name) || index(name)).copied().collect())
}

/// The folder of the chat templates that have names.
pub(crate) const TEMPLATES: &str = "additional_chat_templates";

/// Whether a folder of this name belongs to a model: that of a module of Sentence Transformers, such
/// as `1_Pooling`, or that of chat templates.
pub(crate) fn is_folder_of_model(name: &str) -> bool {
    let is_number = |number: &str| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    name == TEMPLATES || name.split_once('_').is_some_and(|(number, _)| is_number(number))
}

/// Whether a file lies directly in the repository, or in a folder that belongs to a model.
fn is_beside(name: &str) -> bool {
    name.rsplit_once('/').is_none_or(|(folder, _)| is_folder_of_model(folder))
}

/// Files of a training run, which are no weights of a model.
fn is_training_state(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    ["optimizer.", "scheduler.", "training_args.", "rng_state", "scaler."]
        .iter()
        .any(|start| file.starts_with(start))
}

fn is_index(name: &str) -> bool {
    name.ends_with(".index.json")
}

/// Whether an index, such as `model.safetensors.index.json`, names files with the ending of `weight`.
fn is_index_of(index: &str, weight: &str) -> bool {
    let ending = |name: &str| name.rsplit_once('.').map(|(_, ending)| ending.to_owned());
    ending(index.trim_end_matches(".index.json")) == ending(weight)
        && index.starts_with("consolidated") == weight.starts_with("consolidated")
}

/// The projector of a vision model: the one in F16, else the first.
pub(crate) fn projector<'n>(names: &[&'n String]) -> Option<&'n String> {
    let found = || names.iter().copied().filter(|name| is_projector(&name.to_ascii_lowercase()));
    let is_half = |name: &&String| quantization(name).as_deref() == Some("F16");
    found().find(is_half).or_else(|| found().next())
}

/// Whether a file with this name belongs to a model besides its weights. The name must be valid as
/// a file name in any directory.
pub(crate) fn is_companion(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    let known = matches!(ending, Some("json" | "jinja" | "model" | "txt" | "tiktoken" | "py"));
    known
        && !name.starts_with('.')
        && name.len() <= 255
        && name.chars().all(plain)
        && !name.contains(".index")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantizations_in_names() {
        let cases = [
            ("Qwen3-8B-Q4_K_M.gguf", Some("Q4_K_M")),
            ("Q8_0/model-Q8_0-00001-of-00002.gguf", Some("Q8_0")),
            ("model.q4_0.gguf", Some("Q4_0")),
            ("gemma-BF16.gguf", Some("BF16")),
            ("qwen-IQ2_XXS.gguf", Some("IQ2_XXS")),
            ("Qwen3-8B.gguf", None),
        ];
        for (file, expected) in cases {
            assert_eq!(quantization(file).as_deref(), expected, "{file}");
        }
    }

    fn needed_of(names: &str, tag: Option<&str>) -> String {
        let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
        let names: Vec<&String> = names.iter().collect();
        match needed(&names, tag) {
            Ok(found) => found.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn weights_come_in_one_form() {
        let names = ".gitattributes LICENSE README.md config.json consolidated.safetensors \
                     flax_model.msgpack figure.png model-00001-of-00002.safetensors \
                     model-00002-of-00002.safetensors model.safetensors.index.json \
                     onnx/model.onnx original/consolidated.00.pth pytorch_model.bin \
                     pytorch_model.bin.index.json tokenizer.json";
        assert_eq!(
            needed_of(names, None),
            "LICENSE README.md config.json model-00001-of-00002.safetensors \
             model-00002-of-00002.safetensors model.safetensors.index.json tokenizer.json"
        );
        assert_eq!(
            needed_of(
                "config.json optimizer.bin pytorch_model.bin pytorch_model.bin.index.json",
                None
            ),
            "config.json pytorch_model.bin pytorch_model.bin.index.json"
        );
        let modules = "1_Pooling/config.json 2_Dense/model.safetensors \
                       additional_chat_templates/tool_use.jinja model.safetensors x/config.json";
        assert_eq!(
            needed_of(modules, None),
            "1_Pooling/config.json 2_Dense/model.safetensors \
             additional_chat_templates/tool_use.jinja model.safetensors"
        );
        assert_eq!(
            needed_of("vae/a.safetensors unet/b.safetensors", None),
            "vae/a.safetensors unet/b.safetensors"
        );
    }

    #[test]
    fn one_gguf_file_is_chosen() {
        let names = "README.md a-BF16.gguf a-Q4_K_M.gguf a-Q8_0-00001-of-00002.gguf \
                     a-Q8_0-00002-of-00002.gguf imatrix.gguf mmproj-BF16.gguf mmproj-F16.gguf";
        assert_eq!(needed_of(names, None), "README.md a-Q4_K_M.gguf mmproj-F16.gguf");
        assert_eq!(
            needed_of(names, Some("q8_0")),
            "README.md a-Q8_0-00001-of-00002.gguf a-Q8_0-00002-of-00002.gguf mmproj-F16.gguf"
        );
        assert_eq!(needed_of(names, Some("Q5_0")), "no GGUF file of the repository is Q5_0");
        assert_eq!(
            needed_of("a-Q2_K.gguf a.Q5_0.gguf.part1of2 a.Q5_0.gguf.part2of2", Some("Q5_0")),
            "the file that is Q5_0 is cut into pieces: a.Q5_0.gguf.part1of2, a.Q5_0.gguf.part2of2"
        );
        assert_eq!(needed_of("b-Q5_0.gguf c-Q8_0.gguf", Some("latest")), "b-Q5_0.gguf");
        assert_eq!(
            needed_of("model.safetensors", Some("Q8_0")),
            "no GGUF file of the repository is Q8_0"
        );
    }
}
