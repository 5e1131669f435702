//! Formats text reports: tables, sizes, counts.

mod fields;
mod flow;
mod screen;
mod table;

use std::fmt::Display;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use weighbridge::Progress;

pub(crate) use fields::{Amount, Fields, header};
pub(crate) use flow::Flow;
pub(crate) use screen::{
    Screen, help, paragraph, set_wide, stderr, stdout, stdout_columns, verbatim,
};
pub(crate) use table::{Column, Table, left, right};

/// A rate as a whole number, to be shown.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is positive, and its fraction is not shown"
)]
pub(crate) fn whole(rate: f64) -> u64 {
    rate as u64
}

/// Bytes in powers of 1024: `1.3 MiB`. All sizes and rates are shown so, but for those that answer a size
/// that the user gave in another unit.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// A number with its digits in groups: `32,768`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count in powers of 1000: `1.31 M`.
pub(crate) fn count(count: u64) -> String {
    const UNITS: [&str; 5] = ["", " k", " M", " B", " T"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { count.to_string() } else { format!("{value:.2}{}", UNITS[unit]) }
}

/// A number with four significant digits: `0.01234`, `1.234e-7`.
pub(crate) fn number(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        size if (0.001..1e6).contains(&size) => {
            // A whole number has no decimals.
            let digits = (0..4).find(|digit| size < 10f64.powi(*digit)).unwrap_or(4);
            let small = (1..=2).take_while(|zeros| size < 0.1f64.powi(*zeros)).count();
            let decimals = 4usize.saturating_sub(digits.unsigned_abs() as usize) + small;
            let text = format!("{number:.decimals$}");
            match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                false => text,
            }
        }
        _ => format!("{number:.3e}"),
    }
}

/// A number of JSON, with its shortest digits and without an exponent: `10000`, `0.000001`.
pub(crate) fn plain(json: &str) -> String {
    match json.parse::<f64>() {
        Ok(value) if json.contains(['.', 'e', 'E']) => value.to_string(),
        _ => json.to_owned(),
    }
}

/// Dimensions, outermost first: `512 x 256`.
pub(crate) fn shape(shape: &[u64]) -> String {
    if shape.is_empty() {
        return "scalar".to_owned();
    }
    shape.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ")
}

/// A number and its noun: `1 tensor`, `23 tensors`, `30,725 tensors`.
pub(crate) fn plural(number: impl Display, noun: &str) -> String {
    let number = number.to_string();
    let ending = if number == "1" { "" } else { "s" };
    format!("{} {noun}{ending}", number.parse().map_or(number, grouped))
}

/// The numbers of values that were rounded to infinity or to 0: `2 values rounded to infinity and 1 value to 0`.
pub(crate) fn rounded(infinite: u64, zero: u64) -> String {
    let values = |number| plural(count(number), "value");
    match (infinite, zero) {
        (infinite, 0) => format!("{} rounded to infinity", values(infinite)),
        (0, zero) => format!("{} rounded to 0", values(zero)),
        _ => format!("{} rounded to infinity and {} to 0", values(infinite), values(zero)),
    }
}

/// A path that cannot write to the terminal; for a model of Ollama's store, its name.
pub(crate) fn shown(path: &Path) -> String {
    let name = weighbridge::container::ollama::name_of(path);
    name.unwrap_or_else(|| weighbridge::bytes::Text::from_path(path).to_string())
}

/// Bits per weight: `8.50`.
pub(crate) fn bits(bits: Option<f64>) -> String {
    bits.map_or("-".to_owned(), |bits| format!("{bits:.2}"))
}

/// The columns that the text of a progress bar takes at most.
const BAR_TEXT: usize = 52;

/// A bar and a text in one line of the terminal.
fn style(text: &str) -> ProgressStyle {
    let space = screen::stderr_columns().map_or(0, |columns| columns.saturating_sub(BAR_TEXT));
    let bar = match space.min(30) {
        0..6 => String::new(),
        width => format!("{{bar:{width}}} "),
    };
    // The template is valid; the default only avoids a panic.
    let style = ProgressStyle::with_template(&format!("{bar}{text}{{left}}"));
    style.unwrap_or(ProgressStyle::default_bar()).with_key("left", left_of)
}

/// The time that is left, as far as it is known: not before anything is done, nor from the first bytes of a slow server.
fn left_of(state: &ProgressState, out: &mut dyn std::fmt::Write) {
    let eta = state.eta();
    if state.pos() > 0 && (1..86_400).contains(&eta.as_secs()) {
        // It is text in memory.
        let _ = write!(out, ", {:#} left", HumanDuration(eta));
    }
}

/// A bar is drawn this many milliseconds after work began, and then again after as many: short work has none, and the
/// first guess of the time that is left is not from its first moment.
const PACE: u64 = 200;

/// A progress bar on standard error if that is a terminal; otherwise nothing.
#[derive(Debug)]
struct Paced {
    bar: ProgressBar,
    began: Instant,
    /// When it was drawn last, in milliseconds.
    drawn: AtomicU64,
}

impl Paced {
    fn new(text: &str, total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        bar.set_style(style(text));
        Self { bar, began: Instant::now(), drawn: AtomicU64::new(0) }
    }

    fn show(&self, done: u64, total: u64) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let drawn = self.drawn.load(Ordering::Relaxed);
        let is_due = now.saturating_sub(drawn) >= PACE;
        let change =
            || self.drawn.compare_exchange(drawn, now, Ordering::Relaxed, Ordering::Relaxed);
        // Of several threads, one draws it.
        if is_due && change().is_ok() {
            self.bar.update(|state| {
                state.set_len(total);
                state.set_pos(done);
            });
        }
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A progress bar of bytes.
#[derive(Debug)]
pub(crate) struct Bar(Paced);

impl Bar {
    pub(crate) fn new() -> Self {
        Self(Paced::new("{bytes} of {total_bytes}, {bytes_per_sec}", 1))
    }

    /// Updates the bar.
    pub(crate) fn show(&self, progress: Progress) -> ControlFlow<()> {
        self.0.show(progress.done, progress.total);
        ControlFlow::Continue(())
    }
}

/// A progress bar that counts, as [`Bar`] shows bytes.
#[derive(Debug)]
pub(crate) struct Steps {
    bar: Paced,
    done: AtomicU64,
    total: u64,
}

impl Steps {
    /// A bar for this many of something, whose name is plural.
    pub(crate) fn new(of: &'static str, total: u64) -> Self {
        let bar = Paced::new(&format!("{{pos}} of {{len}} {of}"), total);
        // The first step may take long.
        bar.bar.tick();
        Self { bar, done: AtomicU64::new(0), total }
    }

    pub(crate) fn advance(&self, by: u64) {
        let done = self.done.fetch_add(by, Ordering::Relaxed).saturating_add(by);
        self.bar.show(done, self.total);
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_have_four_significant_digits() {
        let rows = [
            (0.0, "0"),
            (1.0, "1"),
            (-0.123_456, "-0.1235"),
            (0.012_345_6, "0.01235"),
            (0.001_234_56, "0.001235"),
            (0.000_123_456, "1.235e-4"),
            (12.345_6, "12.35"),
            (1234.56, "1235"),
            (123_456.0, "123456"),
            (1.5e7, "1.500e7"),
            (0.25, "0.25"),
        ];
        for (value, text) in rows {
            assert_eq!(number(value), text);
        }
    }
}
