//! Prompt templates in Go's template language: their syntax as far as blocks go, and what they
//! reveal about a model (template/template.go and thinking/template.go of Ollama fb307609).

use crate::error::{Error, Result};

/// A parsed template.
#[derive(Debug)]
pub(crate) struct GoTemplate {
    root: Vec<Node>,
}

#[derive(Debug)]
enum Node {
    Text(String),
    /// An action, with the fields and variables that it names: `$.Tools` is `["$", "Tools"]`.
    Action(Vec<Vec<String>>),
    /// `if`, `with`, `range`, `define` or `block`, with the fields of its condition.
    Block {
        is_range: bool,
        condition: Vec<Vec<String>>,
        list: Vec<Self>,
        others: Vec<Self>,
    },
}

/// The end of a list of nodes.
#[derive(Debug, PartialEq)]
enum ListEnd {
    /// The end of the template.
    Template,
    /// `end`.
    Closed,
    /// `else`, with what follows it: an empty text, or `if` and a condition.
    Else(String),
}

impl GoTemplate {
    /// Parses the blocks of a template.
    ///
    /// # Errors
    ///
    /// `Mismatch` for an action that is not closed, a block without `end`, and an `end` or `else`
    /// without a block.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut parser = Parser { rest: text, trims: false };
        let (root, end) = parser.list(0)?;
        match end {
            ListEnd::Template => Ok(Self { root }),
            ListEnd::Closed => Err(fault("an end without a block".to_owned())),
            ListEnd::Else(_) => Err(fault("an else without a block".to_owned())),
        }
    }

    /// Whether the template names a field or variable, in upper or lower case.
    pub(crate) fn names(&self, name: &str) -> bool {
        fn within(nodes: &[Node], name: &str) -> bool {
            let has = |fields: &[Vec<String>]| {
                fields.iter().flatten().any(|part| part.eq_ignore_ascii_case(name))
            };
            nodes.iter().any(|node| match node {
                Node::Text(_) => false,
                Node::Action(fields) => has(fields),
                Node::Block { condition, list, others, .. } => {
                    has(condition) || within(list, name) || within(others, name)
                }
            })
        }
        within(&self.root, name)
    }

    /// Whether the template encloses thoughts in texts (`InferTags`): whether the last list of nodes
    /// that uses `.Thinking`, in a loop over `.Messages`, begins and ends with a text.
    pub(crate) fn thinks(&self) -> bool {
        let mut tags = (false, false);
        infer(&self.root, false, &mut tags);
        tags == (true, true)
    }
}

/// Visits nodes in order. `over_messages` says whether the innermost loop goes over `.Messages`.
fn infer(list: &[Node], over_messages: bool, tags: &mut (bool, bool)) {
    let first = |fields: &[Vec<String>], name: &str| {
        fields.iter().any(|field| field.first().is_some_and(|part| part == name))
    };
    let text = |node: Option<&Node>| match node {
        Some(Node::Text(text)) => Some(!text.trim().is_empty()),
        _ => None,
    };
    let used = |over: bool, fields: &[Vec<String>], tags: &mut (bool, bool)| {
        if over && first(fields, "Thinking") {
            tags.0 = text(list.first()).unwrap_or(tags.0);
            tags.1 = text(list.last()).unwrap_or(tags.1);
        }
    };
    for node in list {
        match node {
            Node::Text(_) => {}
            Node::Action(fields) => used(over_messages, fields, tags),
            Node::Block { is_range, condition, list, others } => {
                let over = if *is_range { first(condition, "Messages") } else { over_messages };
                used(over, condition, tags);
                infer(list, over, tags);
                infer(others, over, tags);
            }
        }
    }
}

fn fault(text: String) -> Error {
    Error::mismatch(format!("the template is not in Go's template language: {text}"))
}

/// The depth of blocks within blocks that is followed.
const DEPTH: usize = 100;

struct Parser<'t> {
    rest: &'t str,
    /// Whether the action before `rest` trims the white space after it.
    trims: bool,
}

impl Parser<'_> {
    fn list(&mut self, depth: usize) -> Result<(Vec<Node>, ListEnd)> {
        if depth > DEPTH {
            return Err(fault(format!("more than {DEPTH} blocks within each other")));
        }
        let mut nodes = Vec::new();
        loop {
            let (text, action) = match self.rest.split_once("{{") {
                Some((text, rest)) => (text, Some(rest)),
                None => (self.rest, None),
            };
            let text = if self.trims { text.trim_start() } else { text };
            // A text after the last action is in no block, so it reveals nothing.
            let Some(rest) = action else {
                self.rest = "";
                return Ok((nodes, ListEnd::Template));
            };
            let trims_before =
                rest.strip_prefix('-').filter(|rest| rest.starts_with(char::is_whitespace));
            let (text, rest) = match trims_before {
                Some(rest) => (text.trim_end(), rest),
                None => (text, rest),
            };
            if !text.is_empty() {
                nodes.push(Node::Text(text.to_owned()));
            }
            let end =
                action_end(rest).ok_or_else(|| fault("an action is not closed".to_owned()))?;
            let (inside, rest) = rest.split_at_checked(end).unwrap_or((rest, ""));
            self.rest = rest.get(2..).unwrap_or_default();
            let trimmed =
                inside.strip_suffix('-').filter(|rest| rest.ends_with(char::is_whitespace));
            self.trims = trimmed.is_some();
            let inside = trimmed.unwrap_or(inside).trim();
            let (word, tail) = match inside.find(|c: char| !c.is_ascii_alphabetic()) {
                Some(at) => inside.split_at_checked(at).unwrap_or((inside, "")),
                None => (inside, ""),
            };
            match word {
                "end" => return Ok((nodes, ListEnd::Closed)),
                "else" => return Ok((nodes, ListEnd::Else(tail.trim().to_owned()))),
                "if" | "with" | "range" | "define" | "block" => {
                    nodes.push(self.block(word == "range", tail, depth)?);
                }
                _ if inside.starts_with("/*") => {}
                _ => nodes.push(Node::Action(fields(inside))),
            }
        }
    }

    fn block(&mut self, is_range: bool, condition: &str, depth: usize) -> Result<Node> {
        let (list, end) = self.list(depth + 1)?;
        let others = match end {
            ListEnd::Closed => Vec::new(),
            ListEnd::Template => return Err(fault("a block has no end".to_owned())),
            ListEnd::Else(other) if other.is_empty() => {
                let (others, end) = self.list(depth + 1)?;
                if end != ListEnd::Closed {
                    return Err(fault("an else has no end".to_owned()));
                }
                others
            }
            // `else if` and `else with` share the end of the first block.
            ListEnd::Else(other) => {
                let tail = other.trim_start_matches(|c: char| c.is_ascii_alphabetic());
                vec![self.block(false, tail, depth + 1)?]
            }
        };
        Ok(Node::Block { is_range, condition: fields(condition), list, others })
    }
}

/// The position of the `}}` that closes an action: not within a string or a comment.
fn action_end(text: &str) -> Option<usize> {
    let inner = text.trim_start();
    if inner.starts_with("/*") {
        let close = text.find("*/")?;
        return Some(close + text.get(close..)?.find("}}")?);
    }
    let mut quote = None;
    let mut escaped = false;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) => {
                if escaped {
                    escaped = false;
                } else if c == '\\' && open != '`' {
                    escaped = true;
                } else if c == open {
                    quote = None;
                }
                before = ' ';
            }
            None => {
                if c == '}' && before == '}' {
                    return at.checked_sub(1);
                }
                if matches!(c, '"' | '`' | '\'') {
                    quote = Some(c);
                }
                before = c;
            }
        }
    }
    None
}

/// The fields and variables that an action names.
fn fields(action: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut chars = action.char_indices().peekable();
    let mut before = ' ';
    while let Some((at, c)) = chars.next() {
        if matches!(c, '"' | '`' | '\'') {
            let mut escaped = false;
            for (_, inner) in chars.by_ref() {
                if !escaped && inner == c {
                    break;
                }
                escaped = !escaped && inner == '\\' && c != '`';
            }
        } else if (c == '.' || c == '$') && !(before.is_alphanumeric() || before == ')') {
            let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '$');
            let rest = action.get(at..).unwrap_or_default();
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            let parts =
                rest.get(..end).unwrap_or_default().split('.').filter(|part| !part.is_empty());
            found.push(parts.map(str::to_owned).collect());
            while chars.next_if(|(_, c)| is_part(*c)).is_some() {}
        }
        before = c;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_templates() {
        let text = "{{- if or .System $.Tools }}{{ .Prompt }}{{ end }}{{ printf \"}} .Suffix\" .Response }}";
        let template = GoTemplate::parse(text).unwrap();
        assert!(template.names("tools") && template.names("Response") && template.names("system"));
        assert!(!template.names("suffix"), "it occurs in a string only");
        assert!(GoTemplate::parse("{{ .Suffix }}").unwrap().names("suffix"));
        assert!(!GoTemplate::parse("{{/* .Tools }} */}}x").unwrap().names("tools"));
    }

    #[test]
    fn thoughts_lie_between_texts() {
        let thinks = |text: &str| GoTemplate::parse(text).unwrap().thinks();
        let inside = "{{ if .Thinking }}<think>{{ .Thinking }}</think>{{ end }}{{ .Content }}";
        assert!(thinks(&format!("{{{{ range .Messages }}}}{inside}{{{{ end }}}}")));
        assert!(thinks(&format!("{{{{ range $i, $_ := .Messages }}}}{inside}{{{{ end }}}}")));
        assert!(!thinks(inside), "not in a loop over messages");
        assert!(!thinks("{{ range .Messages }}{{ .Thinking }}{{ end }}"));
        assert!(!thinks("{{ range .Messages }}<m>{{ .Content }}</m>{{ end }}"));
    }

    #[test]
    fn templates_that_do_not_parse() {
        let told = |text: &str| GoTemplate::parse(text).unwrap_err().to_string();
        insta::assert_snapshot!(told("{{ .Prompt"), @"the template is not in Go's template language: an action is not closed");
        insta::assert_snapshot!(told("{{ if .System }}x"), @"the template is not in Go's template language: a block has no end");
        insta::assert_snapshot!(told("x{{ end }}"), @"the template is not in Go's template language: an end without a block");
        insta::assert_snapshot!(told("{{ if .A }}{{ else }}{{ else }}{{ end }}"), @"the template is not in Go's template language: an else has no end");
        let deep = |depth: usize| "{{ if .A }}".repeat(depth) + &"{{ end }}".repeat(depth);
        assert!(GoTemplate::parse(&deep(DEPTH)).is_ok());
        insta::assert_snapshot!(told(&deep(DEPTH + 1)), @"the template is not in Go's template language: more than 100 blocks within each other");
        assert!(
            GoTemplate::parse("{{ if .A }}a{{ else if .B }}b{{ else }}c{{ end }} {{- \"}}\" -}} ")
                .is_ok()
        );
    }
}
