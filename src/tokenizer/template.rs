//! Chat templates.

use crate::arch::Field;

/// A template that formats a conversation as text (Jinja).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChatTemplate {
    /// The template's purpose, if there are several: `tool_use`, `rag`.
    pub name: Option<String>,
    /// The template's text.
    pub text: Field<String>,
}

impl ChatTemplate {
    /// The text of a template without the tags `generation` and `endgeneration`. They mark what the
    /// assistant said, for training; nothing is rendered for them, and only transformers knows them.
    pub fn without_training_tags(text: &str) -> String {
        let mut kept = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("{%") {
            let (before, tag) = rest.split_at(start);
            kept.push_str(before);
            let end = tag.find("%}").map_or(tag.len(), |end| end + 2);
            let (tag, after) = tag.split_at(end);
            let word = tag.trim_matches(['{', '%', '}', '-', '+', ' ', '\n', '\t', '\r']);
            if !matches!(word, "generation" | "endgeneration") {
                kept.push_str(tag);
            }
            rest = after;
        }
        kept + rest
    }
}
