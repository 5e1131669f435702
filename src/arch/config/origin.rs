//! The sources of config values, for reports and for decisions.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, Range};

/// The source of a config value. Its text is for reports.
#[derive(Clone, PartialEq, Eq)]
pub struct FieldSource {
    kind: SourceKind,
    text: Cow<'static, str>,
    /// The key, or the path in a document, within the text.
    path: Range<usize>,
}

/// The kinds of sources of config values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceKind {
    /// A metadata key.
    Key,
    /// A path in a JSON document beside the weights, or a file there.
    Document,
    /// A path in the config that a GGUF file keeps.
    Kept,
    /// A path in a config that metadata keys give.
    Given,
    /// Transformers' class, which takes this value if `config.json` has none.
    Class,
    /// The family, whose file in `families/` has the value.
    Family,
    /// The stored tensors.
    Tensors,
    /// The value of most models.
    Usual,
    /// A rule, which takes other values.
    Rule,
}

impl FieldSource {
    fn new(kind: SourceKind, text: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, text: text.into(), path: 0..0 }
    }

    /// A metadata key.
    pub(crate) fn key(key: impl Into<Cow<'static, str>>) -> Self {
        let text = key.into();
        Self { kind: SourceKind::Key, path: 0..text.len(), text }
    }

    /// A path in a JSON document.
    pub(crate) fn document(name: &str, path: &str) -> Self {
        Self::within(SourceKind::Document, name, path)
    }

    /// A file as a whole.
    pub(crate) fn file(name: impl Into<Cow<'static, str>>) -> Self {
        let text = name.into();
        Self { kind: SourceKind::Document, path: text.len()..text.len(), text }
    }

    /// A path in the config that a GGUF file keeps under this key.
    pub(super) fn kept(key: &str, path: &str) -> Self {
        Self::within(SourceKind::Kept, key, path)
    }

    fn within(kind: SourceKind, name: &str, path: &str) -> Self {
        let text = format!("{name} {path}");
        Self { kind, path: name.len().saturating_add(1)..text.len(), text: text.into() }
    }

    /// A path in a config that metadata keys give.
    pub(super) fn given(key: Option<&str>, path: &str) -> Self {
        let key = key.unwrap_or("the GGUF keys");
        let start = key.len().saturating_add(" (".len());
        let path_in_text = start..start.saturating_add(path.len());
        Self { kind: SourceKind::Given, text: format!("{key} ({path})").into(), path: path_in_text }
    }

    /// The value of transformers' class.
    pub(super) fn class(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(SourceKind::Class, text)
    }

    /// The value of the family.
    pub(super) fn family(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(SourceKind::Family, text)
    }

    /// The stored tensors.
    pub(super) fn tensors(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(SourceKind::Tensors, text)
    }

    /// The value of most models.
    pub(super) fn usual() -> Self {
        Self::new(SourceKind::Usual, "default")
    }

    /// The same source, with a remark on how the value follows from it.
    pub(super) fn remarked(self, remark: impl fmt::Display) -> Self {
        Self { text: format!("{}{remark}", self.text).into(), ..self }
    }

    /// The text that reports show.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The kind of this source.
    pub fn kind(&self) -> SourceKind {
        self.kind
    }

    /// The key, or the path in the document. Empty if no file states the value.
    pub fn path(&self) -> &str {
        self.text.get(self.path.clone()).unwrap_or_default()
    }

    /// Whether the path, or the key after the architecture's name, is or ends with this one.
    pub fn ends_with(&self, path: &str) -> bool {
        let before = self.path().strip_suffix(path);
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    }

    /// Whether an object on the path has this name.
    pub fn is_within(&self, object: &str) -> bool {
        let objects = self.path().rsplit_once('.').map_or("", |(objects, _)| objects);
        objects.split('.').any(|name| name == object)
    }

    /// The document of the path.
    pub fn document_name(&self) -> Option<&str> {
        let name = self.text.get(..self.path.start).map(str::trim_end);
        name.filter(|_| self.kind == SourceKind::Document)
    }

    /// The metadata key.
    pub fn metadata_key(&self) -> Option<&str> {
        match self.kind {
            SourceKind::Key => Some(self.path()),
            SourceKind::Kept | SourceKind::Given => {
                self.text.get(..self.path.start).map(|text| text.trim_end_matches([' ', '(']))
            }
            _ => None,
        }
    }
}

impl Deref for FieldSource {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for FieldSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for FieldSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text, f)
    }
}

impl From<&'static str> for FieldSource {
    fn from(rule: &'static str) -> Self {
        Self::new(SourceKind::Rule, rule)
    }
}

impl From<String> for FieldSource {
    fn from(rule: String) -> Self {
        Self::new(SourceKind::Rule, rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_texts() {
        let key = FieldSource::key("llama.rope.scaling.attn_factor");
        assert!(key.ends_with("rope.scaling.attn_factor") && !key.ends_with("factor_of"));
        assert!(!key.ends_with("n_factor") && key.is_within("scaling"));
        assert_eq!(key.metadata_key(), Some("llama.rope.scaling.attn_factor"));
        let document = FieldSource::document("config.json", "text_config.head_dim");
        assert_eq!(document.document_name(), Some("config.json"));
        assert_eq!((document.path(), document.metadata_key()), ("text_config.head_dim", None));
        let given = FieldSource::given(Some("llama.block_count"), "num_hidden_layers");
        assert_eq!(&*given, "llama.block_count (num_hidden_layers)");
        assert_eq!(
            (given.path(), given.metadata_key()),
            ("num_hidden_layers", Some("llama.block_count"))
        );
        let largest = document.remarked(" (the largest of all layers)");
        assert!(largest.ends_with("head_dim") && largest.document_name() == Some("config.json"));
        assert_eq!(FieldSource::file("tokenizer.json").document_name(), Some("tokenizer.json"));
        assert_eq!(FieldSource::from("dim / n_heads").path(), "");
    }
}
