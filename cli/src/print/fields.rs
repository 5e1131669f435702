//! A model's header: labelled values below its path.

use std::fmt::Write as _;
use std::io::{self, Write};

use weighbridge::ops::ModelSummary;

use super::{Screen, bits, bytes, count, grouped, plural};

/// Labelled values. Labels are aligned, and long values wrap beside them.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<(&'static str, String)>);

impl Fields {
    pub(crate) fn add(&mut self, label: &'static str, value: impl Into<String>) {
        self.0.push((label, value.into()));
    }

    /// Writes the title, in bold, and the values below it.
    pub(crate) fn write(&self, title: &str, out: &mut Screen<impl Write>) -> io::Result<()> {
        let bold = anstyle::Style::new().bold();
        writeln!(out, "{bold}{title}{bold:#}")?;
        let width = self.0.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
        for (label, value) in &self.0 {
            let value = weighbridge::bytes::Text::new(value.as_bytes()).brief();
            out.paragraph(&format!("  {label:<width$}  {value}"), width + 4)?;
        }
        Ok(())
    }
}

/// The amount that a model stores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount {
    pub(crate) tensors: usize,
    pub(crate) weights: u64,
    pub(crate) bytes: u64,
}

/// The headline facts, the same for a model that is read and for one that would be written.
pub(crate) fn header(summary: &ModelSummary, format: String, amount: Amount) -> Fields {
    let mut fields = Fields::default();
    if let Some(name) = summary.name.as_deref().filter(|name| !name.is_empty()) {
        fields.add("name", name);
    }
    fields.add("format", format);
    let mut file_type = match (&summary.file_type, &summary.main_dtype) {
        (Some(stated), _) => stated.clone(),
        (None, Some(main)) => main.clone(),
        (None, None) => String::new(),
    };
    if summary.bits_per_weight.is_some() {
        let _ = write!(file_type, ", {} bits per weight", bits(summary.bits_per_weight));
    }
    if !file_type.is_empty() {
        fields.add("type", file_type);
    }
    let Amount { tensors, weights, bytes: stored } = amount;
    let tensors = plural(tensors, "tensor");
    let active = summary
        .active_weights
        .map_or(String::new(), |active| format!(", {} of them active for a token", count(active)));
    let size = format!("{}, {} weights in {tensors}{active}", bytes(stored), count(weights));
    fields.add("size", size);
    if let Some(label) = &summary.size_label {
        fields.add("size label", label);
    }
    if let Some(context) = summary.context_length {
        fields.add("context", format!("{} tokens", grouped(context)));
    }
    fields.add("license", summary.license.as_deref().unwrap_or("not stated"));
    fields.add("chat template", if summary.chat_template { "yes" } else { "no" });
    if !summary.capabilities.is_empty() {
        fields.add("capabilities", summary.capabilities.join(", "));
    }
    if !summary.base_models.is_empty() {
        fields.add("base model", summary.base_models.join(", "));
    }
    fields
}
