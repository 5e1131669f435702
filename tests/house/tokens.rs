//! Splits Rust sources into tokens, as far as the rules of the house need them.

/// A word, a literal, `::`, or one character of punctuation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'t> {
    pub(crate) text: &'t str,
    /// The line that it begins in, from 1.
    pub(crate) line: usize,
}

impl Token<'_> {
    pub(crate) fn is_word(&self) -> bool {
        self.text.starts_with(is_word)
    }

    /// The text of a string literal.
    pub(crate) fn literal(&self) -> Option<&str> {
        let (_, rest) = self.text.split_once('"')?;
        rest.rsplit_once('"').map(|(text, _)| text)
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The tokens of a source, without comments, attributes and what is compiled for tests only.
pub(crate) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut all = Vec::new();
    let (mut rest, mut line) = (source, 1);
    while !rest.is_empty() {
        let (text, is_token) = first(rest);
        if is_token {
            all.push(Token { text, line });
        }
        line += text.matches('\n').count();
        rest = &rest[text.len()..];
    }
    without_attributes(&all)
}

/// The first token of a text, or what separates tokens: `false`.
fn first(text: &str) -> (&str, bool) {
    let up_to = |end: Option<usize>| &text[..end.unwrap_or(text.len())];
    if text.starts_with("//") {
        return (up_to(text.find('\n')), false);
    }
    if text.starts_with("/*") {
        return (up_to(text.find("*/").map(|end| end + 2)), false);
    }
    if text.starts_with(char::is_whitespace) {
        return (up_to(text.find(|c: char| !c.is_whitespace())), false);
    }
    let raw = text.trim_start_matches(['b', 'c']);
    if let Some(raw) = raw.strip_prefix('r').filter(|_| text.len() - raw.len() <= 2) {
        let quote = raw.trim_start_matches('#');
        if quote.starts_with('"') {
            let close = format!("\"{}", "#".repeat(raw.len() - quote.len()));
            let start = text.len() - quote.len() + 1;
            return (up_to(text[start..].find(&close).map(|end| start + end + close.len())), true);
        }
    }
    if text.starts_with('"') {
        return (up_to(end_of_string(text)), true);
    }
    if let Some(rest) = text.strip_prefix('\'') {
        let mut chars = rest.chars();
        let (first, second) = (chars.next(), chars.next());
        let is_lifetime = first.is_some_and(is_word) && second != Some('\'');
        let end = match (is_lifetime, first) {
            (true, _) => rest.find(|c| !is_word(c)).map(|end| 1 + end),
            (false, Some('\\')) => rest[2..].find('\'').map(|end| 3 + end + 1),
            (false, _) => rest.find('\'').map(|end| 1 + end + 1),
        };
        return (up_to(end), true);
    }
    if text.starts_with(is_word) {
        return (up_to(text.find(|c| !is_word(c))), true);
    }
    let one = text.chars().next().map_or(0, char::len_utf8);
    (up_to(Some(if text.starts_with("::") { 2 } else { one })), true)
}

fn end_of_string(text: &str) -> Option<usize> {
    let mut escaped = false;
    let close = text.char_indices().skip(1).find(|(_, c)| {
        let is_close = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        is_close
    });
    close.map(|(at, _)| at + 1)
}

/// The index after the bracket that closes the one at `open`.
pub(crate) fn after_close(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth <= 1 => return index + 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
    }
    tokens.len()
}

fn without_attributes<'t>(tokens: &[Token<'t>]) -> Vec<Token<'t>> {
    let mut left = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let text = |offset: usize| tokens.get(at + offset).map_or("", |token| token.text);
        let open = if text(1) == "!" { at + 2 } else { at + 1 };
        if token.text != "#" || tokens.get(open).is_none_or(|token| token.text != "[") {
            left.push(*token);
            at += 1;
            continue;
        }
        let after = after_close(tokens, open);
        let is_test = text(2) == "test"
            || text(2) == "cfg" && tokens[open..after].iter().any(|token| token.text == "test");
        at = if is_test && text(1) == "[" { after_item(tokens, after) } else { after };
    }
    left
}

/// The index after the item at `start`: after its braces, or its semicolon.
fn after_item(tokens: &[Token], start: usize) -> usize {
    let mut at = start;
    let mut has_braces = true;
    while let Some(token) = tokens.get(at) {
        match token.text {
            ";" => return at + 1,
            "use" | "static" | "const" => has_braces = false,
            "fn" => has_braces = true,
            "{" if has_braces => return after_close(tokens, at),
            "(" | "[" | "{" => {
                at = after_close(tokens, at);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    at
}

/// The functions of a source that have a body: their names and lines.
pub(crate) fn functions<'t>(tokens: &[Token<'t>]) -> Vec<(&'t str, usize)> {
    let mut all = Vec::new();
    for (start, pair) in tokens.windows(2).enumerate() {
        let [keyword, name] = pair else { continue };
        if keyword.text != "fn" || !name.is_word() {
            continue;
        }
        let mut at = start;
        while let Some(token) = tokens.get(at) {
            match token.text {
                "(" | "[" => at = after_close(tokens, at),
                "{" => {
                    let end = after_close(tokens, at) - 1;
                    all.push((name.text, tokens[end].line + 1 - keyword.line));
                    break;
                }
                ";" => break,
                _ => at += 1,
            }
        }
    }
    all
}
