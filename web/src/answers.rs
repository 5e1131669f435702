//! The questions, one function each.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};
use weighbridge::bytes::Text;
use weighbridge::ops::{
    self, Clipping, ConfigReport, DiffOptions, DiffOutcome, DifferentValues, GridOptions,
    InspectOptions, InspectReport, InspectedTensors, StatisticsOptions, TensorStatistics,
    ValueStatistics,
};
use weighbridge::tokenizer::{Token, TokenKind};
use weighbridge::{Error, ErrorKind, Model, Result, Strictness, Tensor};

use crate::fault::{SCHEMA, not_found};
use crate::findings;
use crate::pairs::{batch, pair};
use crate::standouts::Standouts;
use crate::tables::{PairTable, TensorTable};
use crate::viewer::MemoryToRun;
use crate::watch::{Watch, go_on};
use crate::{Parameters, Viewer};

/// A function that answers a question.
type Answer = fn(&Viewer, &Parameters, Watch<'_>) -> Result<Vec<u8>>;

static ANSWERS: &[(&str, Answer)] = &[
    ("models", models),
    ("overview", overview),
    ("tensors", tensors),
    ("tensor", tensor),
    ("statistics", statistics),
    ("standouts", standouts),
    ("findings", findings_of),
    ("progress", progress),
    ("grid", grid),
    ("tokens", tokens),
    ("pairs", pairs),
    ("differences", differences),
    ("clipping", clipping),
];

impl Viewer {
    /// Answers a question of the page with a JSON document. With a parameter `job`, the question `progress`
    /// about the same job says how far the work is.
    ///
    /// # Errors
    ///
    /// `NotFound` for an unknown question, model, tensor or pair; `Mismatch` for a parameter that is missing
    /// or wrong; `Cancelled` if `watch` cancels; otherwise the errors of the library.
    pub fn answer(
        &self,
        question: &str,
        parameters: &Parameters,
        watch: Watch<'_>,
    ) -> Result<Vec<u8>> {
        let known = ANSWERS.iter().find(|(name, _)| *name == question);
        let (_, answer) = known.ok_or_else(|| not_found("no such question"))?;
        let Some(name) = parameters.text("job") else { return answer(self, parameters, watch) };
        let job = self.jobs.start(name);
        let noting = |progress| {
            job.note(progress);
            watch(progress)
        };
        answer(self, parameters, &noting)
    }
}

/// An answer, preceded by the version of its form.
#[derive(Serialize)]
struct Versioned<T: Serialize> {
    schema: u32,
    #[serde(flatten)]
    answer: T,
}

fn json(answer: impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(&Versioned { schema: SCHEMA, answer })
        .map_err(|error| Error::new(ErrorKind::Io, format!("cannot write the answer: {error}")))
}

/// A path, with control characters escaped.
fn spelled(path: &std::path::Path) -> String {
    Text::from_path(path).spelling().into_owned()
}

/// The report of `inspect` without its tensors, which the page asks for apart.
fn inspected(model: &Model) -> Result<InspectReport<'_>> {
    let mut report = ops::inspect(model, &InspectOptions::new())?;
    if let InspectedTensors::Stored { tensors, .. } = &mut report.tensors {
        tensors.clear();
    }
    Ok(report)
}

/// `models`: what is shown of every model, whichever is open.
fn models(viewer: &Viewer, _: &Parameters, _: Watch<'_>) -> Result<Vec<u8>> {
    let model = |model: &Model| {
        let summary = ops::summarize(model);
        let architecture = model.resolution().ok().and_then(|found| found.architecture);
        json!({
            "path": spelled(model.path()),
            "container": model.container(),
            "architecture": architecture.map(|architecture| architecture.name),
            "name": summary.name,
            "dtype": summary.file_type.or(summary.main_dtype),
            "bits_per_weight": summary.bits_per_weight,
            "tensor_count": model.len(),
            "weight_count": model.quantization().elements(),
            "stored_bytes": model.stored_bytes(),
            "file_bytes": model.file_bytes(),
        })
    };
    let models: Vec<Value> = viewer.models.iter().map(model).collect();
    // What the page says in words about outliers and findings.
    let limits = json!({
        "outlier": ValueStatistics::OUTLIER,
        "far": findings::FAR,
        "alike": findings::ALIKE,
        "growth": findings::GROWTH,
    });
    json(json!({ "models": models, "limits": limits }))
}

#[derive(Serialize)]
struct Overview<'m> {
    path: String,
    report: InspectReport<'m>,
    /// The bytes of each file of the report.
    file_sizes: Vec<u64>,
    config: Part<ConfigReport<'m>>,
    consistency: Part<Consistency>,
    tokenizer: Part<Option<TokenizerSummary>>,
    /// Absent if it is unknown, or not measured here.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<MemoryToRun>,
}

/// A part of an answer that may be missing without harm to the others.
#[derive(Serialize)]
#[serde(untagged)]
enum Part<T: Serialize> {
    Found(T),
    Failed { error: String },
}

impl<T: Serialize> From<Result<T>> for Part<T> {
    fn from(result: Result<T>) -> Self {
        match result {
            Ok(found) => Self::Found(found),
            Err(error) => Self::Failed { error: error.to_string() },
        }
    }
}

#[derive(Serialize)]
struct Consistency {
    faults: Vec<String>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct TokenizerSummary {
    kind: String,
    source: String,
    tokens: u64,
    /// The purpose, number and text of each special token.
    special: Vec<(String, u32, Option<String>)>,
    templates: Vec<Template>,
}

#[derive(Serialize)]
struct Template {
    name: Option<String>,
    text: String,
    source: String,
}

/// `overview`: everything about a model but its tensors.
fn overview(viewer: &Viewer, parameters: &Parameters, _: Watch<'_>) -> Result<Vec<u8>> {
    let (_, model) = viewer.model(parameters, "model")?;
    let consistency = ops::check_consistency(model, Strictness::Default);
    let consistency =
        consistency.map(|found| Consistency { faults: found.faults, notes: found.notes });
    json(Overview {
        path: spelled(model.path()),
        report: inspected(model)?,
        file_sizes: model.file_sizes().collect(),
        config: ops::config(model).into(),
        consistency: consistency.into(),
        tokenizer: tokenizer(model).into(),
        memory: viewer.measure.and_then(|measure| measure(model)),
    })
}

fn tokenizer(model: &Model) -> Result<Option<TokenizerSummary>> {
    let Some(tokenizer) = model.tokenizer()? else { return Ok(None) };
    let template = |template: &weighbridge::tokenizer::ChatTemplate| Template {
        name: template.name.clone(),
        text: template.text.value.clone(),
        source: template.text.source.to_string(),
    };
    let text = |id: u32| {
        let token = tokenizer.tokens().find(|token| token.id == id)?;
        Some(Text::new(&token.text).spelling().into_owned())
    };
    let special = tokenizer.special.iter();
    let special = special.map(|(name, id)| (name.clone(), id.value, text(id.value))).collect();
    Ok(Some(TokenizerSummary {
        kind: tokenizer.kind.value.name().to_owned(),
        source: tokenizer.kind.source.to_string(),
        tokens: tokenizer.len(),
        special,
        templates: tokenizer.chat_templates.iter().map(template).collect(),
    }))
}

/// `tensors`: the stored tensors of a model, column by column.
fn tensors(viewer: &Viewer, parameters: &Parameters, _: Watch<'_>) -> Result<Vec<u8>> {
    let (_, model) = viewer.model(parameters, "model")?;
    json(TensorTable::of(model)?)
}

/// `tensor`: where a tensor's bytes lie, and how its values are packed.
fn tensor(viewer: &Viewer, parameters: &Parameters, _: Watch<'_>) -> Result<Vec<u8>> {
    viewer.with_tensor(parameters, |tensor| {
        let parts = tensor.segments().map(|segment| {
            json!({
                "part": segment.part.name(),
                "name": segment.name.spelling(),
                "dtype": segment.dtype.name(),
                "file": spelled(segment.path),
                "offset": segment.range.start,
                "bytes": segment.range.end.saturating_sub(segment.range.start),
            })
        });
        let parts: Vec<Value> = parts.collect();
        let dtype = tensor.dtype().ok().map(weighbridge::DType::descriptor);
        let derivation = tensor.derivation();
        json(json!({
            "name": tensor.name(),
            "stored": tensor.stored_names().map(Text::spelling).collect::<Vec<Cow<'_, str>>>(),
            "dtype": tensor.dtype_label(),
            "summary": dtype.map(|dtype| dtype.summary),
            "block_len": dtype.filter(|dtype| dtype.block_len > 1).map(|dtype| dtype.block_len),
            "group_size": tensor.group_size(),
            "shape": tensor.shape(),
            "elements": tensor.elements(),
            "bytes": tensor.stored_bytes(),
            "bits_per_weight": tensor.bits_per_weight(),
            "derivation": derivation.as_ref().ok().map(|derivation| derivation.name()),
            "unreadable": tensor.check_decodable().err().map(|error| error.to_string()),
            "parts": parts,
        }))
    })
}

#[derive(Serialize)]
struct Batch {
    tensors: Vec<Summary>,
    /// The position of the tensor after the last; `None` after the last tensor of all.
    next: Option<usize>,
}

/// `statistics`: the values of one tensor, or of the tensors from a position on, as many as an answer may be
/// about.
fn statistics(viewer: &Viewer, parameters: &Parameters, watch: Watch<'_>) -> Result<Vec<u8>> {
    let mut options = StatisticsOptions::new().progress(watch);
    if let Some(bins) = parameters.number("bins")? {
        options = options.bins(bins);
    }
    if let (Some(low), Some(high)) = (parameters.number("low")?, parameters.number("high")?) {
        options = options.range(low, high);
    }
    let Some(from) = parameters.number("from")? else {
        return viewer.with_tensor(parameters, |tensor| {
            let report = ops::statistics(std::slice::from_ref(tensor), &options)?;
            let tensors = report.tensors.into_iter().map(Summary::read).collect();
            json(Batch { tensors, next: None })
        });
    };
    let (_, model) = viewer.model(parameters, "model")?;
    let tensors = (from..model.len()).take(crate::pairs::TENSORS);
    let tensors: Vec<Tensor> = tensors.filter_map(|at| model.stored_tensor_at(at)).collect();
    let some = batch(&tensors, 0, Tensor::stored_bytes);
    let next = from.saturating_add(some.len());
    let next = (next < model.len()).then_some(next);
    let tensors = match ops::statistics(some, &options) {
        Ok(report) => report.tensors.into_iter().map(Summary::read).collect(),
        Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
        // One file may have been shortened; the others are still there.
        Err(_) => some.iter().map(|tensor| Summary::of(tensor, &options)).collect::<Result<_>>()?,
    };
    json(Batch { tensors, next })
}

/// The statistics of one tensor of several, or the reason why there are none.
#[derive(Serialize)]
#[serde(untagged)]
enum Summary {
    Read(Box<TensorStatistics>),
    Unread { name: String, reason: String },
}

impl Summary {
    fn read(statistics: TensorStatistics) -> Self {
        Self::Read(Box::new(statistics))
    }

    fn of(tensor: &Tensor, options: &StatisticsOptions<'_>) -> Result<Self> {
        match ops::statistics(std::slice::from_ref(tensor), options) {
            Ok(report) => {
                let read = report.tensors.into_iter().next().map(Self::read);
                read.ok_or_else(|| not_found("no statistics"))
            }
            Err(error) if error.kind() == ErrorKind::Cancelled => Err(error),
            Err(error) => {
                Ok(Self::Unread { name: tensor.name().to_owned(), reason: error.to_string() })
            }
        }
    }
}

/// `standouts`: the values, rows and columns of one tensor that stand out.
fn standouts(viewer: &Viewer, parameters: &Parameters, watch: Watch<'_>) -> Result<Vec<u8>> {
    viewer.with_tensor(parameters, |tensor| json(Standouts::of(tensor, watch)?))
}

/// `findings`: what is odd in a model.
fn findings_of(viewer: &Viewer, parameters: &Parameters, watch: Watch<'_>) -> Result<Vec<u8>> {
    let (_, model) = viewer.model(parameters, "model")?;
    json(findings::findings(model, watch)?)
}

/// `progress`: how far the work on another question is.
fn progress(viewer: &Viewer, parameters: &Parameters, _: Watch<'_>) -> Result<Vec<u8>> {
    let found = parameters.text("of").and_then(|job| viewer.jobs.progress(job));
    json(json!({ "done": found.map(|at| at.done), "total": found.map(|at| at.total) }))
}

/// `grid`: a heat map of a tensor, or with `difference` of what the second of a pair differs.
fn grid(viewer: &Viewer, parameters: &Parameters, watch: Watch<'_>) -> Result<Vec<u8>> {
    let side = |name: &str| Ok::<usize, Error>(parameters.number(name)?.unwrap_or(256));
    let mut options = GridOptions::new(side("height")?, side("width")?).progress(watch);
    if let Some(rows) = parameters.range("rows")? {
        options = options.rows(rows);
    }
    if let Some(columns) = parameters.range("columns")? {
        options = options.columns(columns);
    }
    if parameters.text("side") == Some("difference") {
        let pairs = viewer.pairs(parameters)?;
        return json(pair(&pairs, parameters)?.grid(&options)?);
    }
    viewer.with_tensor(parameters, |tensor| {
        let grid = ops::grid(tensor, &options)?;
        // With so few rows the cells are single numbers, to which scales can be told.
        let [first, end] = grid.rows;
        let few = end.saturating_sub(first) <= SCALED_ROWS && grid.height as u64 == end - first;
        let scales = if few { tensor.row_scales(first..end)? } else { None };
        let finite = |values: Vec<f32>| values.into_iter().map(f64::from).map(finite).collect();
        let mut answer = GridAnswer::from(grid);
        if let Some(scales) = scales {
            answer.scale_width = Some(scales.width);
            answer.scales = Some(finite(scales.values));
            let inner = scales.sub_blocks.map(|inner| (inner.width, finite(inner.values)));
            (answer.sub_width, answer.sub_scales) = inner.unzip();
        }
        json(answer)
    })
}

/// The number of rows for which a grid is accompanied by scales.
const SCALED_ROWS: u64 = 64;

#[derive(Serialize)]
struct GridAnswer {
    #[serde(flatten)]
    grid: ops::Grid,
    /// The number of values that share a scale.
    #[serde(skip_serializing_if = "Option::is_none")]
    scale_width: Option<u64>,
    /// The scales of the rows, from the first column on; `None` for one that is not finite.
    #[serde(skip_serializing_if = "Option::is_none")]
    scales: Option<Vec<Option<f64>>>,
    /// The same for the sub-blocks of blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    sub_width: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sub_scales: Option<Vec<Option<f64>>>,
}

impl From<ops::Grid> for GridAnswer {
    fn from(grid: ops::Grid) -> Self {
        Self { grid, scale_width: None, scales: None, sub_width: None, sub_scales: None }
    }
}

fn finite(number: f64) -> Option<f64> {
    Some(number).filter(|number| number.is_finite())
}

/// The number of tokens in one answer.
const TOKENS: usize = 500;

/// `tokens`: tokens by number, or those that contain a text.
fn tokens(viewer: &Viewer, parameters: &Parameters, _: Watch<'_>) -> Result<Vec<u8>> {
    let (_, model) = viewer.model(parameters, "model")?;
    let Some(tokenizer) = model.tokenizer()? else {
        return Err(not_found("the model has no tokenizer"));
    };
    let wanted = parameters.text("search").filter(|text| !text.is_empty());
    let wanted = wanted.map(|text| text.to_lowercase());
    let from = parameters.number::<usize>("from")?.unwrap_or(0);
    let matches = |token: &Token<'_>| {
        wanted.as_ref().is_none_or(|wanted| {
            let text = Text::new(&token.text);
            token.id.to_string() == *wanted || text.spelling().to_lowercase().contains(wanted)
        })
    };
    let mut matching = tokenizer.tokens().filter(matches);
    let shown: Vec<Value> = matching.by_ref().skip(from).take(TOKENS).map(token).collect();
    // Without a search, the number is known.
    let total = match wanted {
        None => usize::try_from(tokenizer.len()).unwrap_or(usize::MAX),
        Some(_) => tokenizer.tokens().filter(matches).count(),
    };
    drop(matching);
    json(json!({ "from": from, "total": total, "tokens": shown }))
}

fn token(token: Token<'_>) -> Value {
    let kind = token.kind.map(|kind| match kind {
        TokenKind::Normal => "normal",
        TokenKind::Unknown => "unknown",
        TokenKind::Control => "control",
        TokenKind::UserDefined => "user defined",
        TokenKind::Unused => "unused",
        TokenKind::Byte => "byte",
        _ => "other",
    });
    let score = token.score.filter(|score| score.is_finite());
    json!([token.id, Text::new(&token.text).spelling(), kind, score])
}

/// `pairs`: the tensors that two models have in common, and those that only one has.
fn pairs(viewer: &Viewer, parameters: &Parameters, _: Watch<'_>) -> Result<Vec<u8>> {
    let pairs = viewer.pairs(parameters)?;
    let (_, of_b) = viewer.model(parameters, "b")?;
    json(PairTable::of(&pairs, of_b))
}

#[derive(Serialize)]
struct Difference {
    pair: usize,
    outcome: &'static str,
    #[serde(flatten)]
    values: Option<DifferentValues>,
    /// The error with which the tensor counts in that of several; absent if it does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    matrix_error: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// `differences`: how the tensors of the pairs from a position on differ.
fn differences(viewer: &Viewer, parameters: &Parameters, watch: Watch<'_>) -> Result<Vec<u8>> {
    let pairs = viewer.pairs(parameters)?;
    let one: Option<usize> = parameters.number("pair")?;
    let from = match one {
        Some(one) => one,
        None => parameters.number("from")?.unwrap_or(0),
    };
    let bytes =
        |pair: &ops::TensorPair| pair.a.stored_bytes().saturating_add(pair.b.stored_bytes());
    let some = batch(&pairs.both, from, bytes);
    let some = if one.is_some() { some.get(..1).unwrap_or_default() } else { some };
    let mut found = Vec::new();
    for (number, pair) in (from..).zip(some) {
        go_on(watch)?;
        let compared = match pair.compare(0.0) {
            Err(error) if error.kind() != ErrorKind::Cancelled => DiffOutcome::Unread(error),
            compared => compared?,
        };
        let matrix_error = pair.matrix_error(&compared);
        let (outcome, values, reason) = match compared {
            DiffOutcome::Identical => ("identical", None, None),
            DiffOutcome::Values(values) => ("values", Some(values.report(pair.a.shape())), None),
            DiffOutcome::Shapes => ("shapes", None, None),
            DiffOutcome::Unread(error) => ("unread", None, Some(error.to_string())),
            _ => ("unknown", None, None),
        };
        found.push(Difference { pair: number, outcome, values, matrix_error, reason });
    }
    let next = from.saturating_add(some.len());
    json(json!({ "differences": found, "next": (next < pairs.both.len()).then_some(next) }))
}

#[derive(Serialize)]
struct Clipped {
    clipping: Option<Clipping>,
}

/// `clipping`: the values of a pair that the quantization clipped; `null` if that is unknown.
fn clipping(viewer: &Viewer, parameters: &Parameters, watch: Watch<'_>) -> Result<Vec<u8>> {
    let pairs = viewer.pairs(parameters)?;
    let found = pair(&pairs, parameters)?.clipping(&DiffOptions::new().progress(watch))?;
    json(Clipped { clipping: found })
}
