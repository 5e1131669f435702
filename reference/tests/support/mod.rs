//! Fixtures, conversions and comparisons for the tests of logits.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use weighbridge::container;
use weighbridge::container::ollama;
use weighbridge::ops::{ConvertOptions, convert};
use weighbridge::{Model, WriteOptions};
use weighbridge_reference::{Frequencies, Plan, Reference, Rope, Rows};

/// The largest difference of logits, in standard deviations.
const TOLERANCE: f32 = 1e-3;

/// The container that a model is opened from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Container {
    /// As transformers wrote it.
    Directory,
    /// Converted to GGUF.
    Gguf,
    /// Converted to a directory of mlx-lm.
    Mlx,
    /// Converted to a model of Ollama's store.
    Ollama,
}

/// A file or folder of the larger set of fixtures, which `WEIGHBRIDGE_FIXTURES` names. Where it is missing the
/// test is skipped, and says so.
pub(crate) fn outside(path: &str) -> Option<PathBuf> {
    let fault = match std::env::var_os("WEIGHBRIDGE_FIXTURES") {
        None => format!("WEIGHBRIDGE_FIXTURES names no folder with {path}"),
        Some(folder) => {
            let found = PathBuf::from(folder).join(path);
            if found.exists() {
                return Some(found);
            }
            format!("{} is not here", found.display())
        }
    };
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let said = format!("skipped: {test}: {fault}\n");
    // Written past the test runner, which shows nothing of tests that pass.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes());
    None
}

/// The names of the models in a folder of fixtures.
pub(crate) fn fixtures(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder of fixtures");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let names = paths.filter(|path| path.join("logits.safetensors").exists());
    let name = |path: PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    let mut names: Vec<String> = names.map(name).collect();
    names.sort();
    names
}

/// A model in another container, and the folder that holds it.
pub(crate) fn converted(
    model: Model,
    container: Container,
) -> Result<(Model, Option<TempDir>), String> {
    let told = |error: weighbridge::Error| format!("{error}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (format, path) = match container {
        Container::Directory => return Ok((model, None)),
        Container::Gguf => (&container::GGUF, folder.path().join("model.gguf")),
        Container::Mlx => (&container::MLX, folder.path().join("model")),
        Container::Ollama => {
            let place = ollama::place("tiny", Some(folder.path())).map_err(told)?;
            (&container::OLLAMA, place)
        }
    };
    let plan =
        convert(&model, &ConvertOptions::new(format).allow_unloadable(true)).map_err(told)?;
    plan.run(&path, &WriteOptions::new()).map_err(told)?;
    Ok((Model::open(&path).map_err(told)?, Some(folder)))
}

/// The results of transformers.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) tokens: Vec<u32>,
    pub(crate) logits: Option<Rows>,
    pub(crate) generated: Option<Vec<u32>>,
    pub(crate) segments: Option<Vec<u32>>,
    pub(crate) hidden: Option<Rows>,
    pub(crate) pooled: Option<Rows>,
    pub(crate) spectrum: Option<Rows>,
    pub(crate) encoded: Option<Rows>,
    /// The tokens of the text encoder next to the decoder.
    pub(crate) encoder_tokens: Option<Vec<u32>>,
}

impl Expected {
    pub(crate) fn read(path: &Path) -> Self {
        let file = Model::open(path).expect("the expected values");
        let rows = |name: &str| {
            let tensor = file.stored_tensor(name).ok()?;
            let width = *tensor.shape().last().expect("a shape");
            let values = tensor.dequantize().expect("values").to_vec();
            Some(Rows::new(values, usize::try_from(width).expect("a width")))
        };
        let ids = |name: &str| {
            let values = rows(name)?.values().to_vec();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "tokens")]
            Some(values.iter().map(|id| *id as u32).collect::<Vec<u32>>())
        };
        Self {
            tokens: ids("tokens").expect("tokens"),
            logits: rows("logits"),
            generated: ids("generated"),
            segments: ids("token_type_ids"),
            hidden: rows("last_hidden_state"),
            pooled: rows("pooler_output"),
            spectrum: rows("mel"),
            encoded: rows("encoder"),
            encoder_tokens: ids("encoder_tokens"),
        }
    }
}

/// Runs a model and gives the largest difference, in standard deviations.
///
/// # Errors
///
/// A sentence if the model cannot be run, or differs.
pub(crate) fn compare(model: &Model, plan: Plan, expected: &Expected) -> Result<f32, String> {
    let reference = Reference::with_plan(model, plan);
    agrees(&reference.map_err(|error| error.to_string())?, expected)
}

/// As [`compare`], with a model that is ready.
///
/// # Errors
///
/// As [`compare`].
pub(crate) fn agrees(reference: &Reference, expected: &Expected) -> Result<f32, String> {
    let told = |error: weighbridge_reference::Error| error.to_string();
    let tokens = &expected.tokens;
    let mut worst = 0f32;
    let mut check = |what: &str, found: &Rows, expected: &Rows| {
        let off = difference(found, expected).map_err(|fault| format!("{what}: {fault}"))?;
        worst = worst.max(off);
        if off <= TOLERANCE { Ok(()) } else { Err(format!("{what} differ by {off:.2e}")) }
    };
    if expected.hidden.is_some() {
        let given = reference.encode(tokens, expected.segments.as_deref()).map_err(told)?;
        if let Some(hidden) = &expected.hidden {
            check("hidden states", &given.hidden, hidden)?;
        }
        if let Some(pooled) = &expected.pooled {
            let found = given.pooled.ok_or("no pooled output")?;
            let width = found.len();
            check("pooled outputs", &Rows::new(found, width), pooled)?;
        }
        if let Some(logits) = &expected.logits {
            check("logits", &given.logits.ok_or("no head for masked words")?, logits)?;
        }
        return Ok(worst);
    }
    let encoded = expected.spectrum.as_ref().map(|mel| reference.encode_sound(mel));
    let read = expected.encoder_tokens.as_ref().map(|tokens| reference.encode(tokens, None));
    let encoded = encoded.or(read.map(|given| given.map(|given| given.hidden)));
    let encoded = encoded.transpose().map_err(told)?;
    if let (Some(found), Some(expected)) = (&encoded, &expected.encoded) {
        check("the encoder's outputs", found, expected)?;
    }
    let session = || match &encoded {
        Some(encoded) => reference.session_of(encoded),
        None => Ok(reference.session()),
    };
    let logits = session().and_then(|mut session| session.logits(tokens)).map_err(told)?;
    check("logits", &logits, expected.logits.as_ref().ok_or("no expected logits")?)?;
    // Token by token: caches hold what later positions need. Frequencies that depend on the length of
    // the sequence differ by design.
    let fixed = |rope: &Rope| matches!(rope.frequencies, Frequencies::Fixed { .. });
    if reference.plan().ropes.iter().all(fixed) {
        let mut session = session().map_err(told)?;
        let each = tokens.iter().map(|token| session.next(&[*token]));
        let each = each.collect::<Result<Vec<_>, _>>().map_err(told)?.concat();
        check("logits of single tokens", &Rows::new(each, logits.width()), &logits)?;
    }
    if let Some(generated) = &expected.generated {
        let found = session().and_then(|mut session| session.greedy(tokens, generated.len()));
        let found = found.map_err(told)?;
        if found != *generated {
            return Err(format!("continues with {found:?}, not {generated:?}"));
        }
    }
    Ok(worst)
}

/// The largest difference, in standard deviations of what is expected.
fn difference(found: &Rows, expected: &Rows) -> Result<f32, String> {
    if (found.len(), found.width()) != (expected.len(), expected.width()) {
        return Err(format!(
            "{} rows of {}, not {} of {}",
            found.len(),
            found.width(),
            expected.len(),
            expected.width()
        ));
    }
    let values = expected.values();
    let count = values.len() as f64;
    let mean = values.iter().copied().map(f64::from).sum::<f64>() / count;
    let square = values.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum::<f64>() / count;
    let pairs = found.values().iter().zip(values);
    let most = pairs.map(|(a, b)| if (a - b).is_nan() { f32::INFINITY } else { (a - b).abs() });
    #[expect(clippy::cast_possible_truncation, reason = "a report")]
    let deviation = square.sqrt() as f32;
    Ok(most.fold(0f32, f32::max) / deviation)
}
