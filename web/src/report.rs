//! A report on one model, or on what two differ, as one HTML file without scripts.

use std::collections::BTreeMap;
use std::fmt::Write;

use weighbridge::bytes::Text;
use weighbridge::ops::{
    self, Clipping, DiffOptions, DiffOutcome, Histogram, MeanError, ModelDiff, StatisticsOptions,
    StatisticsReport, TensorDiff, TensorPairs, ValueStatistics,
};
use weighbridge::{Model, Result, Tensor};

use crate::Watch;
use crate::findings::{Findings, findings};
use crate::names::{layer_of, natural};

/// The largest number of tensors that a report lists: a browser shows a longer table only slowly.
const LISTED: usize = 2000;

/// The bins of the small histograms.
const BINS: usize = 40;

const STYLE: &str = include_str!("report.css");

/// Reports on a model, and with `b` on how that differs from it. Every value is read.
///
/// # Errors
///
/// Same as [`ops::statistics`] and [`ops::diff`].
pub fn report(a: &Model, b: Option<&Model>, watch: Watch<'_>) -> Result<String> {
    let diff = match b {
        Some(b) => Some(TensorPairs::new(a, b)?.compare(&DiffOptions::new().progress(watch))?),
        None => None,
    };
    let mut tensors: Vec<Tensor> = a.stored_tensors().collect();
    tensors.sort_by(|a, b| natural(a.name()).cmp(&natural(b.name())));
    tensors.truncate(LISTED);
    let found = findings(a, watch)?;
    let found_b = b.map(|b| findings(b, watch)).transpose()?;
    let worst = diff.as_ref().map(|diff| worst(diff, watch)).transpose()?.unwrap_or_default();
    let statistics =
        ops::statistics(&tensors, &StatisticsOptions::new().bins(BINS).progress(watch))?;
    let mut page = Page::new(&match b {
        Some(b) => format!("{} and {}", title(a), title(b)),
        None => title(a),
    });
    page.model("A", a, b.is_some());
    if let (Some(b), Some(diff)) = (b, &diff) {
        page.model("B", b, true);
        page.differences(diff, &worst);
    }
    match &found_b {
        None => page.findings("What is odd", &found),
        Some(found_b) => {
            page.findings("What is odd in A", &found);
            page.findings("What is odd in B", found_b);
        }
    }
    let of = if b.is_some() { " in A" } else { "" };
    page.dtypes(a, of);
    page.tensors(a, &statistics, of);
    Ok(page.end())
}

/// The number of tensors whose values are shown for both models.
const WORST: usize = 10;

/// A tensor with a large error, and its values in both models.
struct Worst<'d> {
    tensor: &'d TensorDiff,
    error: f64,
    values: [ValueStatistics; 2],
    clipping: Option<Clipping>,
}

fn values(tensor: &Tensor, options: &StatisticsOptions<'_>) -> Result<Option<ValueStatistics>> {
    let report = ops::statistics(std::slice::from_ref(tensor), options)?;
    Ok(report.tensors.into_iter().next().and_then(|tensor| tensor.values))
}

/// The matrices with the largest errors.
fn worst<'d>(diff: &'d ModelDiff, watch: Watch<'_>) -> Result<Vec<Worst<'d>>> {
    let error = |tensor: &'d TensorDiff| {
        let error = tensor.pair.matrix_error(&tensor.outcome)?;
        (error > 0.0).then_some((tensor, error))
    };
    let mut rows: Vec<_> = diff.tensors.iter().filter_map(error).collect();
    rows.sort_by(|a, b| b.1.total_cmp(&a.1));
    rows.truncate(WORST);
    let mut found = Vec::new();
    for (tensor, error) in rows {
        let options = StatisticsOptions::new().bins(BINS).progress(watch);
        let Some(a) = values(&tensor.pair.a, &options)? else { continue };
        let Some(bins) = &a.histogram else { continue };
        let options = options.range(bins.low, bins.high);
        let Some(b) = values(&tensor.pair.b, &options)? else { continue };
        let clipping = tensor.pair.clipping(&DiffOptions::new().progress(watch))?;
        found.push(Worst { tensor, error, values: [a, b], clipping });
    }
    Ok(found)
}

fn title(model: &Model) -> String {
    let name = ops::summarize(model).name.filter(|name| !name.is_empty());
    name.unwrap_or_else(|| {
        let path = model.path().file_name().map(std::path::Path::new);
        path.map_or_else(
            || Text::from_path(model.path()).brief(),
            |path| Text::from_path(path).brief(),
        )
    })
}

/// HTML that grows. Text from models passes through `escaped`.
struct Page(String);

/// A text from a model as HTML: short, without control characters, and without marks of HTML.
fn escaped(text: &str) -> String {
    let text = Text::new(text.as_bytes()).brief();
    let mut safe = String::new();
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Marks of direction that `Text` leaves, because they change only what is next to them.
            '\u{61c}' | '\u{200e}' | '\u{200f}' => safe.extend(character.escape_unicode()),
            other => safe.push(other),
        }
    }
    safe
}

/// A number with four significant digits.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if (0.001..1e6).contains(&size) => {
            let decimals = (0..7).find(|decimals| size * 10f64.powi(*decimals) >= 1000.0);
            let text = format!("{value:.*}", usize::try_from(decimals.unwrap_or(6)).unwrap_or(6));
            match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                false => text,
            }
        }
        _ => format!("{value:.3e}"),
    }
}

fn percent(share: f64) -> String {
    if share.is_finite() { format!("{} %", number(share * 100.0)) } else { share.to_string() }
}

fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut size, mut unit) = (bytes as f64, 0);
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    if unit == 0 { format!("{bytes} B") } else { format!("{size:.1} {name}") }
}

/// A number of weights: 268.1 M.
fn count(count: u64) -> String {
    const UNITS: [&str; 5] = ["", " k", " M", " B", " T"];
    let (mut size, mut unit) = (count as f64, 0);
    while size >= 1000.0 && unit + 1 < UNITS.len() {
        size /= 1000.0;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    if unit == 0 { count.to_string() } else { format!("{size:.1}{name}") }
}

fn shape(shape: &[u64]) -> String {
    let dims: Vec<String> = shape.iter().map(u64::to_string).collect();
    if dims.is_empty() { "scalar".to_owned() } else { dims.join(" × ") }
}

impl Page {
    fn new(title: &str) -> Self {
        let title = escaped(title);
        Self(format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
             <title>{title} · Weighbridge</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <h1 dir=\"auto\">{title}</h1>\n"
        ))
    }

    /// Adds HTML. Writing to a string never fails.
    fn add(&mut self, html: std::fmt::Arguments<'_>) {
        let _ = self.0.write_fmt(html);
    }

    fn end(mut self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        self.add(format_args!(
            "<footer>Written by weighbridge {version}. Quantiles and histograms are those of \
             <code>weighbridge inspect</code>, differences those of <code>weighbridge diff</code>, \
             what is odd that of <code>weighbridge inspect --findings</code>.</footer>\n</main>\n</body>\n</html>\n"
        ));
        self.0
    }

    fn facts(&mut self, facts: &[(&str, String)]) {
        self.0.push_str("<dl>\n");
        for (label, value) in facts {
            self.add(format_args!(
                "<div><dt>{label}</dt><dd dir=\"auto\">{}</dd></div>\n",
                escaped(value)
            ));
        }
        self.0.push_str("</dl>\n");
    }

    fn model(&mut self, letter: &str, model: &Model, several: bool) {
        let summary = ops::summarize(model);
        let path = escaped(&Text::from_path(model.path()).spelling());
        if several {
            self.add(format_args!("<h2>{letter}</h2>\n"));
        }
        self.add(format_args!("<p class=\"path\"><code>{path}</code></p>\n"));
        let container = match summary.version {
            Some(version) => format!("{} version {version}", model.container()),
            None => model.container().to_owned(),
        };
        let architecture = model.resolution().ok().and_then(|found| found.architecture);
        let dtype = summary.file_type.or(summary.main_dtype);
        let bits = summary.bits_per_weight.map(|bits| format!(", {bits:.2} bits"));
        let mut facts = vec![
            ("Container", container),
            ("Family", architecture.map_or("unknown", |found| found.name).to_owned()),
            ("Type", dtype.unwrap_or_default() + &bits.unwrap_or_default()),
            ("Parameters", count(model.quantization().elements())),
            ("Size", bytes(model.file_bytes())),
            ("Tensors", model.len().to_string()),
        ];
        if let Some(context) = summary.context_length {
            facts.push(("Context", context.to_string()));
        }
        if let Some(license) = summary.license {
            facts.push(("License", license));
        }
        self.facts(&facts);
        for note in model.notes() {
            self.add(format_args!("<p class=\"note\">{}</p>\n", escaped(&note.text)));
        }
        if let Ok(found) = ops::check_consistency(model, weighbridge::Strictness::Default) {
            for fault in &found.faults {
                self.add(format_args!("<p class=\"note fault\">{}</p>\n", escaped(fault)));
            }
            for note in &found.notes {
                self.add(format_args!("<p class=\"note\">{}</p>\n", escaped(note)));
            }
        }
    }

    /// Writes how many bytes each dtype takes.
    fn dtypes(&mut self, model: &Model, of: &str) {
        let quantization = model.quantization();
        let all = quantization.bytes().max(1);
        if quantization.dtypes.is_empty() {
            return;
        }
        self.add(format_args!("<h2>Where the bytes are{of}</h2>\n<table>\n"));
        for line in &quantization.dtypes {
            let share = line.bytes as f64 / all as f64;
            self.add(format_args!(
                "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"bar\">\
                 <svg viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
                 <rect width=\"{:.2}\" height=\"8\"/></svg></td></tr>\n",
                escaped(&line.label),
                bytes(line.bytes),
                percent(share),
                share * 100.0
            ));
        }
        self.0.push_str("</table>\n");
    }

    /// The error of each layer, as bars.
    fn layers(&mut self, diff: &ModelDiff) {
        let mut layers: BTreeMap<Option<u64>, MeanError> = BTreeMap::new();
        for tensor in &diff.tensors {
            if let Some(error) = tensor.pair.matrix_error(&tensor.outcome) {
                let layer = layer_of(&tensor.pair.name).map(|(layer, _)| layer);
                layers.entry(layer).or_default().add(tensor.pair.a.elements(), error);
            }
        }
        let errors = layers.into_iter().filter_map(|(at, error)| Some((at, error.relative_rms()?)));
        let errors: Vec<(Option<u64>, f64)> = errors.collect();
        let most = errors.iter().map(|(_, error)| *error).fold(0.0, f64::max);
        if most == 0.0 {
            return;
        }
        self.0.push_str("<h2>Where it hurts</h2>\n<table>\n");
        for (layer, error) in errors {
            let label =
                layer.map_or_else(|| "no layer".to_owned(), |layer| format!("layer {layer}"));
            self.add(format_args!(
                "<tr><td>{label}</td><td class=\"n\">{}</td><td class=\"bar\">\
                 <svg viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
                 <rect width=\"{:.2}\" height=\"8\"/></svg></td></tr>\n",
                percent(error),
                error / most * 100.0
            ));
        }
        self.0.push_str("</table>\n");
    }

    /// The values of both models over each other, for the matrices with the largest errors.
    fn worst(&mut self, worst: &[Worst<'_>]) {
        if worst.is_empty() {
            return;
        }
        self.add(format_args!(
            "<h2>The {} worst matrices</h2>\n<p class=\"key\"><i class=\"a\"></i>A <i class=\"b\"></i>B; \
             the heights are logarithmic</p>\n\
             <div class=\"worst\">\n",
            worst.len()
        ));
        for Worst { tensor, error, values: [a, b], clipping } in worst {
            let pair = &tensor.pair;
            let clipped = clipping.as_ref().map(|clipping| {
                let (count, share) = (clipping.clipped, percent(clipping.share_of_error));
                format!("<br>{count} values clipped, with {share} of the squared error")
            });
            self.add(format_args!(
                "<figure><figcaption dir=\"auto\">{}<br><small>{} to {}: {}{}</small></figcaption>{}</figure>\n",
                escaped(&pair.name),
                escaped(&pair.a.dtype_label()),
                escaped(&pair.b.dtype_label()),
                percent(*error),
                clipped.unwrap_or_default(),
                overlay(a, b)
            ));
        }
        self.0.push_str("</div>\n");
    }

    /// Writes what is odd in the model.
    fn findings(&mut self, title: &str, found: &Findings) {
        self.add(format_args!("<h2>{title}</h2>\n"));
        if found.findings.is_empty() {
            self.0.push_str("<p>Nothing odd was found.</p>\n");
            return;
        }
        self.head(&["Tensor", "Finding"], 2);
        for one in found.findings.iter().take(LISTED) {
            self.add(format_args!(
                "<tr><td class=\"name\" dir=\"auto\">{}</td><td>{}</td></tr>\n",
                escaped(&one.tensor),
                escaped(&one.text)
            ));
        }
        self.0.push_str("</table></div>\n");
        self.rest(found.total);
    }

    fn differences(&mut self, diff: &ModelDiff, worst: &[Worst<'_>]) {
        self.0.push_str("<h2>What differs</h2>\n");
        let error = diff.error();
        let differing = diff.tensors.iter().filter(|tensor| tensor.outcome.is_difference());
        let mut rows: Vec<&TensorDiff> = differing.collect();
        let relative_rms = error.relative_rms().map_or_else(
            || "no matrix compared".to_owned(),
            |mean| {
                let noun = if error.tensors == 1 { "matrix" } else { "matrices" };
                let mean = percent(mean);
                format!("{mean} (mean over {} {noun}, weighted by size)", error.tensors)
            },
        );
        // A value that is finite in one model alone is worse than every number.
        let relative = |outcome: &DiffOutcome| match outcome {
            DiffOutcome::Values(values) if values.max().is_finite() => values.relative_rms(),
            _ => f64::INFINITY,
        };
        rows.sort_by(|a, b| relative(&b.outcome).total_cmp(&relative(&a.outcome)));
        self.facts(&[
            ("Relative RMS", relative_rms),
            ("Tensors that differ", format!("{} of {}", rows.len(), diff.tensors.len())),
            ("Only in A", diff.only_a.len().to_string()),
            ("Only in B", diff.only_b.len().to_string()),
        ]);
        for note in &diff.notes {
            self.add(format_args!("<p class=\"note\">{}</p>\n", escaped(note)));
        }
        if rows.is_empty() {
            self.0.push_str("<p>All values that both models have are equal.</p>\n");
            return;
        }
        self.layers(diff);
        self.worst(worst);
        self.0.push_str("<h2>Tensors that differ</h2>\n");
        self.head(&["Tensor", "A", "B", "Relative RMS", "Cosine", "Largest"], 3);
        for tensor in rows.iter().take(LISTED) {
            let pair = &tensor.pair;
            let cells = match &tensor.outcome {
                DiffOutcome::Values(values) => [
                    match values.max() {
                        most if most.is_finite() => percent(values.relative_rms()),
                        most => number(most),
                    },
                    values.cosine().map_or_else(|| "–".to_owned(), |cosine| format!("{cosine:.7}")),
                    number(values.max()),
                ],
                _ => [
                    format!("{} and {}", shape(pair.a.shape()), shape(pair.b.shape())),
                    "–".to_owned(),
                    "–".to_owned(),
                ],
            };
            let [a, b] = [&pair.a, &pair.b].map(|tensor| escaped(&tensor.dtype_label()));
            let name = escaped(&pair.name);
            self.add(format_args!(
                "<tr><td class=\"name\" dir=\"auto\">{name}</td><td>{a}</td><td>{b}</td>"
            ));
            cells.iter().for_each(|cell| self.add(format_args!("<td class=\"n\">{cell}</td>")));
            self.0.push_str("</tr>\n");
        }
        self.0.push_str("</table></div>\n");
        self.rest(rows.len());
    }

    /// The head of a table, in which the columns from `numbers` on are numbers.
    fn head(&mut self, heads: &[&str], numbers: usize) {
        self.0.push_str("<div class=\"scroll\"><table><thead><tr>");
        for (column, head) in heads.iter().enumerate() {
            let class = if column >= numbers { " class=\"n\"" } else { "" };
            self.add(format_args!("<th scope=\"col\"{class}>{head}</th>"));
        }
        self.0.push_str("</tr></thead>\n");
    }

    fn rest(&mut self, count: usize) {
        if let Some(more) = count.checked_sub(LISTED).filter(|more| *more > 0) {
            self.add(format_args!("<p class=\"note\">{more} more tensors are not listed.</p>\n"));
        }
    }

    fn tensors(&mut self, model: &Model, report: &StatisticsReport, of: &str) {
        if report.tensors.is_empty() {
            return;
        }
        self.add(format_args!("<h2>Tensors{of}</h2>\n"));
        let heads = [
            "Tensor",
            "Dtype",
            "Values",
            "Shape",
            "Mean",
            "Deviation",
            "Least",
            "Largest",
            "Zeros",
            "Outliers",
        ];
        self.head(&heads, 3);
        for tensor in &report.tensors {
            let (name, dtype) = (escaped(&tensor.name), escaped(&tensor.dtype));
            self.add(format_args!(
                "<tr><td class=\"name\" dir=\"auto\">{name}</td><td>{dtype}</td>"
            ));
            let Some(values) = &tensor.values else {
                let reason = tensor.error.as_ref().map(ToString::to_string).unwrap_or_default();
                self.add(format_args!("<td colspan=\"8\">{}</td></tr>\n", escaped(&reason)));
                continue;
            };
            let picture = values.histogram.as_ref().map(sparkline).unwrap_or_default();
            self.add(format_args!("<td class=\"spark\">{picture}</td>"));
            let cell = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), number);
            let cells = [
                shape(&tensor.shape),
                cell(values.mean),
                cell(values.deviation),
                cell(values.min.as_ref().map(|min| min.value)),
                cell(values.max.as_ref().map(|max| max.value)),
                percent(values.zeros as f64 / values.elements.max(1) as f64),
                values.outliers.to_string(),
            ];
            cells.iter().for_each(|cell| self.add(format_args!("<td class=\"n\">{cell}</td>")));
            self.0.push_str("</tr>\n");
            if values.nan + values.infinite > 0 {
                let (nan, infinite) = (values.nan, values.infinite);
                self.add(format_args!(
                    "<tr><td colspan=\"10\" class=\"fault\">NaN: {nan}, infinite: {infinite}</td></tr>\n"
                ));
            }
        }
        self.0.push_str("</table></div>\n");
        self.rest(model.len());
    }
}

/// A small picture of a histogram.
fn sparkline(histogram: &Histogram) -> String {
    let most = histogram.counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    let mut path = String::from("M0 20");
    for (bin, count) in histogram.counts.iter().enumerate() {
        // Writing to a string never fails.
        let _ = write!(path, "V{:.1}H{}", 20.0 - 19.0 * *count as f64 / most, (bin + 1) * 2);
    }
    let (low, high) = (number(histogram.low), number(histogram.high));
    format!(
        "<svg viewBox=\"0 0 80 20\" role=\"img\" aria-label=\"Histogram from {low} to {high}\">\
         <path d=\"{path}V20Z\"/></svg>"
    )
}

/// The histograms of a tensor in two models, over the same range. The heights are logarithmic, so that few
/// large values are seen.
fn overlay(a: &ValueStatistics, b: &ValueStatistics) -> String {
    let (Some(first), Some(second)) = (&a.histogram, &b.histogram) else { return String::new() };
    let most = first.counts.iter().chain(&second.counts).copied().max().unwrap_or(0).max(2) as f64;
    let path = |histogram: &Histogram| {
        let mut path = String::from("M0 60");
        for (bin, count) in histogram.counts.iter().enumerate() {
            let height = (*count as f64 + 1.0).ln() / (most + 1.0).ln();
            // Writing to a string never fails.
            let _ = write!(path, "V{:.1}H{}", 60.0 - 58.0 * height, (bin + 1) * 5);
        }
        path
    };
    let (low, high) = (number(first.low), number(first.high));
    format!(
        "<svg viewBox=\"0 0 200 60\" role=\"img\" aria-label=\"Histograms of A and B from {low} to {high}\">\
         <path class=\"a\" d=\"{}V60Z\"/><path class=\"b\" d=\"{}V60Z\"/></svg><small>{low} to {high}</small>",
        path(first),
        path(second)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_from_models_are_no_html() {
        let hostile = "<script>alert('x')</script>&\"\u{202e}gpj\n";
        let safe = escaped(hostile);
        assert!(!safe.contains(['<', '>', '"', '\'', '\u{202e}', '\n']), "{safe}");
        assert!(
            safe.starts_with("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;&quot;"),
            "{safe}"
        );
        assert!(escaped(&"a".repeat(100_000)).len() < 1000);
    }

    #[test]
    fn findings_are_reported() {
        let model = crate::findings::tests::planted();
        let go_on = &|_| std::ops::ControlFlow::Continue(());
        let page = report(&model, None, go_on).unwrap();
        let found = findings(&model, go_on).unwrap().findings;
        assert!(found.len() > 5);
        for one in &found {
            let row = format!("{}</td><td>{}</td>", escaped(&one.tensor), escaped(&one.text));
            assert!(page.contains(&row), "{row}");
        }
        let both = report(&model, Some(&model), go_on).unwrap();
        for title in
            ["What is odd in A", "What is odd in B", "Where the bytes are in A", "Tensors in A"]
        {
            assert!(both.contains(&format!("<h2>{title}</h2>")), "{title}");
        }
    }

    #[test]
    fn numbers_are_short() {
        let rows = [
            (0.0, "0"),
            (1.0, "1"),
            (0.054_714, "0.05471"),
            (-123.456, "-123.5"),
            (1e-9, "1.000e-9"),
        ];
        for (value, text) in rows {
            assert_eq!(number(value), text);
        }
        assert_eq!((percent(0.5), bytes(1536)), ("50 %".to_owned(), "1.5 KiB".to_owned()));
    }
}
