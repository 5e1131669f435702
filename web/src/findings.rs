//! Oddities of a model: one pass over all tensors, then a look at what belongs together.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use weighbridge::ops::{self, StatisticsOptions};
use weighbridge::{ErrorKind, Model, Progress, Result, Tensor, Threads, shape};

use crate::Watch;
use crate::lines::{Line, Lines, Sketch, cosine};
use crate::names::layer_of;
use crate::standouts::usual;

/// A row or column whose root mean square exceeds the median this many times is an outlier.
pub(crate) const FAR: f64 = 5.0;

/// With fewer rows or columns, a median says little.
const FEW: usize = 8;

/// Experts whose sketches have a larger cosine are alike.
pub(crate) const ALIKE: f64 = 0.8;

/// Norms grow if their root mean square does by this factor, in three of four steps.
pub(crate) const GROWTH: f64 = 2.0;

/// The number of pairs of experts that are named in one tensor.
const PAIRS: usize = 3;

/// The number of findings that are listed.
const LISTED: usize = 2000;

/// Something odd, and where it is.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of oddity.
    pub kind: Kind,
    /// The stored name of the tensor.
    pub tensor: String,
    /// One sentence with the numbers.
    pub text: String,
    /// The first row that is odd, and the row after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<[u64; 2]>,
    /// The first column that is odd, and the column after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<[u64; 2]>,
}

/// The kinds of findings, the most serious first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Kind {
    /// The values cannot be read.
    Unread,
    /// Values are NaN or infinite.
    NotFinite,
    /// All values of a row are 0.
    DeadRows,
    /// All values of a column are 0.
    DeadColumns,
    /// All values of an expert are 0.
    DeadExpert,
    /// The values of two experts are alike.
    AlikeExperts,
    /// A layer has the values of an earlier one.
    DuplicateLayer,
    /// A tensor has the values of an earlier one.
    Duplicate,
    /// A router gives an expert nearly the same score for every token.
    SmallRouterRow,
    /// A row is much larger than the others.
    OutlierRows,
    /// A column is much larger than the others.
    OutlierColumns,
    /// Norms grow with the layer.
    GrowingNorms,
}

/// The odd facts of a model.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Findings {
    /// The number of tensors whose values were read.
    pub tensors: usize,
    /// The number of all findings.
    pub total: usize,
    /// The first of them, the most serious first.
    pub findings: Vec<Finding>,
}

/// The part of a tensor's answer that is kept until all tensors have been read.
struct Kept {
    name: String,
    canonical: Option<String>,
    shape: Vec<u64>,
    rms: f64,
    /// Whether all values are the same number.
    is_constant: bool,
    hash: u64,
    sketches: Vec<Sketch>,
    findings: Vec<Finding>,
}

/// Finds what is odd in a model. Every value is read twice.
///
/// # Errors
///
/// `Cancelled` if the watch cancels. A tensor that cannot be read is a finding.
pub fn findings(model: &Model, watch: Watch<'_>) -> Result<Findings> {
    let canonical = canonical_names(model);
    let total = model.stored_bytes();
    let done = AtomicU64::new(0);
    let read = |(): &mut (), at: usize| {
        let Some(tensor) = model.stored_tensor_at(at) else { return Ok(None) };
        let mut progress = Progress::default();
        (progress.done, progress.total) = (done.load(Ordering::Relaxed), total);
        // What a single tensor reports would hide how far the model is.
        let within = |_| watch(progress);
        let known = canonical.get(tensor.name()).map(ToString::to_string);
        let one = Kept::of(&tensor, known, &within)?;
        done.fetch_add(tensor.stored_bytes(), Ordering::Relaxed);
        Ok(Some(one))
    };
    let kept = Threads::default().in_order(0..model.len(), || (), read)?;
    let mut kept: Vec<Kept> = kept.into_iter().flatten().collect();
    let mut found: Vec<Finding> =
        kept.iter_mut().flat_map(|one| std::mem::take(&mut one.findings)).collect();
    found.extend(duplicates(&kept));
    found.extend(experts(&kept));
    found.extend(growing(&kept));
    found.sort_by_key(|finding| finding.kind);
    let total = found.len();
    found.truncate(LISTED);
    Ok(Findings { tensors: kept.len(), total, findings: found })
}

/// The canonical names of stored tensors.
fn canonical_names(model: &Model) -> HashMap<&str, &str> {
    let Ok(resolution) = model.resolution() else { return HashMap::new() };
    let mapped = resolution.mapped.iter();
    mapped
        .flat_map(|one| one.stored.iter().map(|stored| (stored.as_str(), one.canonical.as_str())))
        .collect()
}

impl Kept {
    fn of(tensor: &Tensor, canonical: Option<String>, watch: Watch<'_>) -> Result<Self> {
        let mut kept = Self {
            name: tensor.name().to_owned(),
            shape: tensor.shape().to_vec(),
            canonical,
            rms: 0.0,
            is_constant: true,
            hash: 0,
            sketches: Vec::new(),
            findings: Vec::new(),
        };
        match kept.read(tensor, watch) {
            Err(error) if error.kind() != ErrorKind::Cancelled => {
                kept.find(Kind::Unread, error.to_string(), None, None);
                Ok(kept)
            }
            read => read.map(|()| kept),
        }
    }

    fn find(
        &mut self,
        kind: Kind,
        text: String,
        rows: Option<[u64; 2]>,
        columns: Option<[u64; 2]>,
    ) {
        self.findings.push(Finding { kind, tensor: self.name.clone(), text, rows, columns });
    }

    fn finding(&self, kind: Kind, text: String) -> Finding {
        Finding { kind, tensor: self.name.clone(), text, rows: None, columns: None }
    }

    fn duplicates(&self, other: &Self) -> Finding {
        self.finding(Kind::Duplicate, format!("has the same values as {}", other.name))
    }

    /// The stack of layers, the layer, and the rest of the name.
    fn layer(&self) -> Option<(String, u64, String)> {
        let (layer, name) = layer_of(self.canonical.as_deref().unwrap_or(&self.name))?;
        let (stack, rest) = name.split_once("{n}")?;
        Some((stack.to_owned(), layer, rest.to_owned()))
    }

    /// Whether a tensor has weights of experts; of a stacked one, each slice is an expert.
    fn is_of_experts(&self) -> bool {
        let name = self.canonical.as_deref().unwrap_or(&self.name);
        name.contains("expert") && !name.contains("shared") && self.shape.len() >= 2
    }

    fn read(&mut self, tensor: &Tensor, watch: Watch<'_>) -> Result<()> {
        tensor.check_decodable()?;
        if tensor.elements() == 0 {
            return Ok(());
        }
        let options = StatisticsOptions::new().threads(1).bins(1).progress(watch);
        let report = ops::statistics(std::slice::from_ref(tensor), &options)?;
        let Some(entry) = report.tensors.into_iter().next() else { return Ok(()) };
        if let Some(error) = entry.error {
            return Err(error);
        }
        let Some(values) = entry.values else { return Ok(()) };
        let slices = match (self.is_of_experts(), self.shape.as_slice()) {
            (false, _) => 0,
            (true, [experts, _, _]) => usize::try_from(*experts).unwrap_or(0).min(4096),
            (true, _) => 1,
        };
        let lines = Lines::of(tensor, usual(&values), slices, watch)?;
        self.rms = values.rms.unwrap_or(0.0);
        let ends = values.min.as_ref().zip(values.max.as_ref());
        self.is_constant = ends.is_none_or(|(least, most)| least.value == most.value);
        self.hash = lines.hash;
        let not_finite = values.nan + values.infinite;
        if let Some(first) = lines.first_not_finite {
            let width = shape::columns(&self.shape).max(1);
            let place: Vec<String> =
                shape::indices(first, &self.shape).iter().map(u64::to_string).collect();
            let noun = if not_finite == 1 { "value is" } else { "values are" };
            let text =
                format!("{not_finite} {noun} NaN or infinite, the first at {}", place.join(", "));
            let is_matrix = !lines.rows.is_empty();
            let [row, column] =
                [first / width, first % width].map(|at| is_matrix.then(|| only(at)));
            self.find(Kind::NotFinite, text, row, column);
        }
        let is_router = self.canonical.as_deref().unwrap_or(&self.name).contains("router");
        self.judge(&lines.rows, "row", [Kind::DeadRows, Kind::OutlierRows]);
        // Of a matrix that is 0, the rows say all.
        if !lines.rows.iter().all(Line::is_dead) {
            self.judge(&lines.columns, "column", [Kind::DeadColumns, Kind::OutlierColumns]);
        }
        if is_router {
            self.judge_router(&lines.rows);
        }
        self.sketches = lines.sketches;
        Ok(())
    }

    /// Finds rows that are 0, and rows that are much larger than the others; or columns.
    fn judge(&mut self, lines: &[Line], noun: &str, [dead, outlier]: [Kind; 2]) {
        let count = lines.len();
        let place = |index: u64| match dead {
            Kind::DeadRows => (Some(only(index)), None),
            _ => (None, Some(only(index))),
        };
        let mut zeros = (0..).zip(lines).filter(|(_, line)| line.is_dead());
        if let Some((first, _)) = zeros.next() {
            let all = zeros.count() + 1;
            let text = match all {
                1 => format!("{noun} {first} of {count} is 0"),
                all if all == count => format!("all {count} {noun}s are 0"),
                all => format!("{all} of {count} {noun}s are 0, the first is {noun} {first}"),
            };
            let (rows, columns) = place(first);
            self.find(dead, text, rows, columns);
        }
        if lines.len() < FEW {
            return;
        }
        let sizes: Vec<f64> = lines.iter().filter(|line| !line.is_dead()).map(Line::rms).collect();
        let Some(median) = median(sizes) else { return };
        let far = (0u64..).zip(lines).map(|(index, line)| (index, line.rms() / median));
        let far: Vec<(u64, f64)> = far.filter(|(_, times)| *times > FAR).collect();
        let Some((worst, times)) = far.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)) else {
            return;
        };
        let others = match far.len() {
            1 => String::new(),
            all => format!("; {all} of {count} {noun}s exceed {FAR} times"),
        };
        let text = format!("{noun} {worst} has {times:.1} times the median RMS{others}");
        let (rows, columns) = place(worst);
        self.find(outlier, text, rows, columns);
    }

    /// Finds experts to which a router gives nearly the same score for every token.
    fn judge_router(&mut self, rows: &[Line]) {
        let Some(median) = median(rows.iter().map(Line::rms).collect()) else { return };
        let small: Vec<(u64, f64)> = (0u64..)
            .zip(rows)
            .map(|(expert, line)| (expert, line.rms()))
            .filter(|(_, rms)| *rms > 0.0 && *rms * FAR < median)
            .collect();
        for (expert, rms) in small {
            let text = format!(
                "the row of expert {expert} has {:.2} of the median RMS: its score hardly depends on the token",
                rms / median
            );
            self.find(Kind::SmallRouterRow, text, Some(only(expert)), None);
        }
    }
}

/// The range of one row or column.
fn only(index: u64) -> [u64; 2] {
    [index, index.saturating_add(1)]
}

fn median(mut sizes: Vec<f64>) -> Option<f64> {
    sizes.retain(|size| *size > 0.0);
    sizes.sort_by(f64::total_cmp);
    sizes.get(sizes.len() / 2).copied()
}

/// A tensor, and an earlier one with the same values.
type Copied<'k> = (&'k Kept, Option<&'k Kept>);

/// Tensors with the same values as an earlier one, and layers all of whose tensors have those of one other layer.
/// Constants, such as norms that are all 1, are left out.
fn duplicates(kept: &[Kept]) -> Vec<Finding> {
    let mut first: HashMap<(u64, &[u64]), &Kept> = HashMap::new();
    let mut layers: BTreeMap<(String, u64), Vec<Copied<'_>>> = BTreeMap::new();
    let mut found = Vec::new();
    for one in kept.iter().filter(|one| !one.is_constant) {
        let other = first.get(&(one.hash, one.shape.as_slice())).copied();
        if other.is_none() {
            first.insert((one.hash, &one.shape), one);
        }
        match one.layer() {
            Some((stack, layer, _)) => layers.entry((stack, layer)).or_default().push((one, other)),
            None => found.extend(other.map(|other| one.duplicates(other))),
        }
    }
    for (_, tensors) in layers {
        let layer_of = |one: &Kept| one.layer().map(|(_, layer, _)| layer);
        let source = tensors.first().and_then(|(_, other)| layer_of((*other)?));
        let is_copy = |(one, other): &Copied<'_>| {
            let [mine, others] = [Some(*one), *other].map(|one| one.and_then(Kept::layer));
            mine.zip(others).is_some_and(|(mine, others)| {
                (&mine.0, &mine.2) == (&others.0, &others.2) && Some(others.1) == source
            })
        };
        match (tensors.as_slice(), source) {
            ([(one, _), _, ..], Some(source)) if tensors.iter().all(is_copy) => {
                let layer = layer_of(one).unwrap_or_default();
                let count = tensors.len();
                let text = format!(
                    "layer {layer} has the values of layer {source}, in all {count} tensors that are not constant"
                );
                found.push(one.finding(Kind::DuplicateLayer, text));
            }
            _ => found
                .extend(tensors.iter().filter_map(|(one, other)| Some(one.duplicates((*other)?)))),
        }
    }
    found
}

/// Experts of one tensor, or of the tensors of one canonical name, that are 0 or alike.
fn experts(kept: &[Kept]) -> Vec<Finding> {
    let mut groups: BTreeMap<String, Vec<(u64, &Kept, &Sketch)>> = BTreeMap::new();
    for one in kept.iter().filter(|one| !one.sketches.is_empty()) {
        // A canonical name has all experts of a layer; the stored one says which of them a tensor is.
        let (number, stored) = expert_of(&one.name);
        let key = one.canonical.as_deref().map_or(stored, |name| expert_of(name).1);
        let group = groups.entry(key).or_default();
        // A name with a number has one expert; else the experts are the slices of one tensor.
        for (slice, sketch) in (0..).zip(&one.sketches) {
            let named = number.filter(|_| one.sketches.len() == 1);
            group.push((named.unwrap_or(slice), one, sketch));
        }
    }
    let mut found = Vec::new();
    for group in groups.values().filter(|group| group.len() > 1) {
        let place = |(expert, one, _): &(u64, &Kept, &Sketch)| match one.shape.as_slice() {
            [_, rows, _] => Some([*expert * rows, expert.saturating_add(1) * rows]),
            _ => None,
        };
        let mut add = |kind, expert: &(u64, &Kept, &Sketch), text: String| {
            let (tensor, rows) = (expert.1.name.clone(), place(expert));
            found.push(Finding { kind, tensor, text, rows, columns: None });
        };
        let mut pairs = Vec::new();
        for (number, one) in group.iter().enumerate() {
            if one.2.iter().all(|cell| *cell == 0.0) {
                add(Kind::DeadExpert, one, format!("all values of expert {} are 0", one.0));
            }
            let later = group.iter().skip(number + 1);
            pairs.extend(later.filter_map(|other| {
                let cosine = cosine(one.2, other.2).filter(|cosine| *cosine > ALIKE)?;
                Some((cosine, one, other))
            }));
        }
        pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
        let more = pairs.len().saturating_sub(PAIRS);
        for (number, (cosine, one, other)) in pairs.iter().take(PAIRS).enumerate() {
            let rest = match (number, more) {
                (0, 1..) => format!("; {more} more pairs are alike"),
                _ => String::new(),
            };
            let text = format!(
                "experts {} and {} are alike: cosine about {cosine:.2}{rest}",
                one.0, other.0
            );
            add(Kind::AlikeExperts, one, text);
        }
    }
    found
}

/// The number of the expert in a name, the last of its numbers if there are two, and the name without it.
fn expert_of(name: &str) -> (Option<u64>, String) {
    let mut parts: Vec<&str> = name.split('.').collect();
    let numbers = (0..).zip(&parts).filter_map(|(place, part)| Some((place, part.parse().ok()?)));
    let numbers: Vec<(usize, u64)> = numbers.collect();
    let last = numbers.last().copied().filter(|_| numbers.len() > 1);
    if let Some((place, _)) = last {
        parts.remove(place);
    }
    (last.map(|(_, number)| number), parts.join("."))
}

/// Norms whose root mean square grows with the layer.
fn growing(kept: &[Kept]) -> Vec<Finding> {
    let mut kinds: BTreeMap<String, Vec<(u64, &Kept)>> = BTreeMap::new();
    for one in kept.iter().filter(|one| one.rms > 0.0) {
        let name = one.canonical.as_deref().unwrap_or(&one.name);
        if let Some((layer, kind)) = layer_of(name).filter(|_| name.contains("norm")) {
            kinds.entry(kind).or_default().push((layer, one));
        }
    }
    let mut found = Vec::new();
    for layers in kinds.values_mut().filter(|layers| layers.len() >= 4) {
        layers.sort_by_key(|(layer, _)| *layer);
        let steps = layers.windows(2).filter(|pair| matches!(pair, [a, b] if b.1.rms > a.1.rms));
        let up = steps.count() * 4 >= (layers.len() - 1) * 3;
        let (Some((first, a)), Some((last, b))) = (layers.first(), layers.last()) else { continue };
        if up && b.rms >= a.rms * GROWTH {
            let text = format!(
                "the RMS grows from {:.3} in layer {first} to {:.3} in layer {last}",
                a.rms, b.rms
            );
            found.push(b.finding(Kind::GrowingNorms, text));
        }
    }
    found
}

#[cfg(test)]
pub(crate) mod tests {
    use std::ops::ControlFlow;

    use weighbridge::OpenOptions;

    use super::*;

    /// A safetensors file of F32 tensors.
    fn model(tensors: &[(&str, &[u64], Vec<f32>)]) -> Model {
        let (mut entries, mut data) = (Vec::new(), Vec::new());
        for (name, shape, values) in tensors {
            let start = data.len();
            data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            entries.push(format!(
                r#""{name}":{{"dtype":"F32","shape":{shape:?},"data_offsets":[{start},{}]}}"#,
                data.len()
            ));
        }
        let header = format!("{{{}}}", entries.join(","));
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.bytes());
        bytes.extend(data);
        OpenOptions::new().open_memory("m.safetensors", bytes).unwrap()
    }

    fn noise(from: u64, count: u64) -> Vec<f32> {
        let value = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        (from..from + count).map(|n| value(n * n + n) as f32 / (1 << 23) as f32 - 1.0).collect()
    }

    fn found(model: &Model) -> Vec<(Kind, String, String)> {
        let all = findings(model, &|_| ControlFlow::Continue(())).unwrap();
        all.findings.into_iter().map(|one| (one.kind, one.tensor, one.text)).collect()
    }

    /// A model with what is odd planted in it.
    pub(crate) fn planted() -> Model {
        let mut rows = noise(1, 1024);
        rows[32 * 5..32 * 6].fill(0.0);
        rows[32 * 7..32 * 8].iter_mut().for_each(|value| *value *= 40.0);
        let mut columns = noise(5000, 1024);
        columns.iter_mut().skip(3).step_by(32).for_each(|value| *value *= 40.0);
        let mut broken = noise(9000, 64);
        broken[9] = f32::NAN;
        let mut experts = noise(20_000, 3 * 1024);
        let copy: Vec<f32> = experts[..1024].iter().map(|value| value * 1.01).collect();
        experts[2048..].copy_from_slice(&copy);
        let norm =
            |layer: u16| noise(30_000, 64).iter().map(|v| v * f32::from(layer + 1)).collect();
        model(&[
            ("rows", &[32, 32], rows.clone()),
            ("columns", &[32, 32], columns),
            ("broken", &[8, 8], broken),
            ("again", &[32, 32], rows),
            ("x.experts.w", &[3, 32, 32], experts),
            ("l.0.norm", &[64], norm(0)),
            ("l.1.norm", &[64], norm(1)),
            ("l.2.norm", &[64], norm(2)),
            ("l.3.norm", &[64], norm(3)),
            ("ones", &[64], vec![1.0; 64]),
            ("ones2", &[64], vec![1.0; 64]),
        ])
    }

    #[test]
    fn what_is_planted_is_found() {
        let found = found(&planted());
        let has = |kind: Kind, tensor: &str, text: &str| {
            let one = found.iter().find(|(k, t, _)| *k == kind && t == tensor);
            assert!(one.is_some_and(|(.., t)| t.contains(text)), "{kind:?} {tensor}: {found:#?}");
        };
        has(Kind::DeadRows, "rows", "row 5 of 32 is 0");
        has(Kind::OutlierRows, "rows", "row 7 has ");
        has(Kind::OutlierColumns, "columns", "column 3 has ");
        has(Kind::NotFinite, "broken", "1 value is NaN or infinite, the first at 1, 1");
        has(Kind::AlikeExperts, "x.experts.w", "experts 0 and 2 are alike: cosine about 1.00");
        has(Kind::GrowingNorms, "l.3.norm", "in layer 0 to ");
        let copies: Vec<_> = found.iter().filter(|(kind, ..)| *kind == Kind::Duplicate).collect();
        assert!(
            matches!(copies.as_slice(), [(_, tensor, _)] if tensor == "rows" || tensor == "again")
        );
    }

    #[test]
    fn a_layer_that_is_a_copy_is_one_finding() {
        let [q, k] = [noise(1, 1024), noise(40_000, 1024)];
        let shape = &[32u64, 32][..];
        let layer = |n: u64, q: &Vec<f32>, k: &Vec<f32>| {
            [(format!("l.{n}.q"), q.clone()), (format!("l.{n}.k"), k.clone())]
        };
        let others = [layer(0, &q, &k), layer(1, &noise(2, 1024), &q), layer(2, &q, &k)];
        let tensors = others.as_flattened();
        let tensors: Vec<_> =
            tensors.iter().map(|(name, values)| (name.as_str(), shape, values.clone())).collect();
        let found = found(&model(&tensors));
        let text = "layer 2 has the values of layer 0, in all 2 tensors that are not constant";
        let copies = [
            (Kind::DuplicateLayer, found[0].1.clone(), text.to_owned()),
            (Kind::Duplicate, "l.1.k".to_owned(), "has the same values as l.0.q".to_owned()),
        ];
        assert_eq!(found, copies);
        assert!(["l.2.q", "l.2.k"].contains(&found[0].1.as_str()));
    }

    #[test]
    fn noise_alone_has_no_findings() {
        let tensors =
            [("a", &[64u64, 64][..], noise(1, 4096)), ("b", &[64, 64], noise(90_000, 4096))];
        assert_eq!(found(&model(&tensors)), []);
    }

    #[test]
    fn the_number_of_an_expert_is_that_of_its_name() {
        assert_eq!(expert_of("l.3.experts.7.w1"), (Some(7), "l.3.experts.w1".to_owned()));
        assert_eq!(expert_of("l.3.experts.w1"), (None, "l.3.experts.w1".to_owned()));
        // Files list experts by text: 0, 1, 10, 11, 2.
        let w = |n: u64| (format!("l.0.experts.{n}.w"), noise(n * 5000, 1024));
        let mut all: Vec<(String, Vec<f32>)> = [0, 1, 10, 11, 2].map(w).into();
        all[4].1.fill(0.0);
        all[3].1 = all[2].1.clone();
        let shape = &[32u64, 32][..];
        let tensors: Vec<_> =
            all.iter().map(|(name, v)| (name.as_str(), shape, v.clone())).collect();
        let found = found(&model(&tensors));
        let texts: Vec<&str> = found.iter().map(|(.., text)| text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "all 32 rows are 0",
                "all values of expert 2 are 0",
                "experts 10 and 11 are alike: cosine about 1.00",
                "has the same values as l.0.experts.10.w",
            ]
        );
    }
}
