//! Branches of source text, and a switch in each.

/// A branch: its file, line and condition.
#[derive(Clone)]
pub(super) struct Branch {
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) condition: String,
}

impl Branch {
    pub(super) fn place(&self) -> String {
        format!("{}:{}: {}", self.file, self.line, self.condition)
    }
}

/// A token that matters here, with its range of bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Token {
    Word,
    Punctuation(u8),
}

/// Splits source text into words and punctuation. Comments, strings and characters are left out.
fn tokens(text: &str) -> Vec<(Token, usize, usize)> {
    let bytes = text.as_bytes();
    let at = |place: usize| bytes.get(place).copied().unwrap_or(0);
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    let mut found = Vec::new();
    let mut place = 0;
    while place < bytes.len() {
        let start = place;
        match at(place) {
            b'/' if at(place + 1) == b'/' => {
                place += text[place..].find('\n').unwrap_or(text.len() - place);
            }
            b'/' if at(place + 1) == b'*' => {
                place += text[place..].find("*/").map_or(text.len() - place, |end| end + 2);
            }
            b'"' => place = end_of_string(bytes, place + 1),
            b'\'' => {
                let long = at(place + 1) == b'\\';
                let one = text[place + 1..].chars().next().map_or(1, char::len_utf8);
                if long {
                    place += 3 + text[place + 3..].find('\'').unwrap_or(0) + 1;
                } else if at(place + 1 + one) == b'\'' {
                    place += one + 2;
                } else {
                    // A lifetime.
                    place += 1;
                    while is_word(at(place)) {
                        place += 1;
                    }
                }
            }
            byte if is_word(byte) => {
                while is_word(at(place)) {
                    place += 1;
                }
                let word = &text[start..place];
                let raw = matches!(word, "r" | "br" | "b" | "c" | "cr");
                if raw && (at(place) == b'"' || (word != "b" && at(place) == b'#')) {
                    let hashes = bytes[place..].iter().take_while(|byte| **byte == b'#').count();
                    if at(place + hashes) == b'"' {
                        place = match word.contains('r') {
                            false => end_of_string(bytes, place + 1),
                            true => {
                                let close = format!("\"{}", "#".repeat(hashes));
                                let from = place + hashes + 1;
                                text[from..]
                                    .find(&close)
                                    .map_or(text.len(), |end| from + end + close.len())
                            }
                        };
                        continue;
                    }
                }
                found.push((Token::Word, start, place));
            }
            byte => {
                place += 1;
                if !byte.is_ascii_whitespace() {
                    found.push((Token::Punctuation(byte), start, place));
                }
            }
        }
    }
    found
}

fn end_of_string(bytes: &[u8], mut place: usize) -> usize {
    while place < bytes.len() && bytes[place] != b'"' {
        place += if bytes[place] == b'\\' { 2 } else { 1 };
    }
    place + 1
}

/// Numbers the branches of a file, and returns its text with a switch in each.
pub(super) fn plant(name: &str, text: &str, branches: &mut Vec<Branch>) -> String {
    let tokens = tokens(text);
    let word = |place: usize| match tokens.get(place) {
        Some((Token::Word, start, end)) => &text[*start..*end],
        _ => "",
    };
    let is = |place: usize, byte: u8| {
        tokens.get(place).is_some_and(|(token, ..)| *token == Token::Punctuation(byte))
    };
    let mut inserted: Vec<(usize, String)> = Vec::new();
    let mut place = 0;
    while place < tokens.len() {
        let next = match word(place) {
            // The bodies of constant functions and of macros cannot call switches.
            "const" if word(place + 1) == "fn" || word(place + 2) == "fn" => {
                block_end(&tokens, place)
            }
            "const" | "static"
                if !is(place.wrapping_sub(1), b'<')
                    && !is(place.wrapping_sub(1), b',')
                    && !is(place + 1, b'{')
                    && !is(place.wrapping_sub(1), b'*')
                    && !is(place.wrapping_sub(1), b'\'') =>
            {
                statement_end(&tokens, place)
            }
            "macro_rules" => block_end(&tokens, place),
            // The arguments of a macro may be anything.
            "" if is(place, b'!')
                && !word(place.wrapping_sub(1)).is_empty()
                && [b'(', b'[', b'{'].iter().any(|open| is(place + 1, *open)) =>
            {
                group_end(&tokens, place + 1)
            }
            "" if is(place, b'#') && (is(place + 1, b'[') || is(place + 2, b'[')) => {
                let open = if is(place + 1, b'[') { place + 1 } else { place + 2 };
                let end = group_end(&tokens, open);
                let attribute =
                    &text[tokens[place].1..tokens.get(end - 1).map_or(text.len(), |t| t.2)];
                match attribute.contains("cfg(test)") {
                    true => block_end(&tokens, end),
                    false => end,
                }
            }
            "if" => {
                if let Some((end, chained)) = condition_end(text, &tokens, place + 1) {
                    let (start, until) = (tokens[place].2, tokens[end].1);
                    let number = branches.len();
                    let condition =
                        text[start..until].split_whitespace().collect::<Vec<_>>().join(" ");
                    let line = text[..start].bytes().filter(|byte| *byte == b'\n').count() + 1;
                    branches.push(Branch { file: name.to_owned(), line, condition });
                    let switch = format!("crate::planted_faults::taken({number}) ");
                    match chained {
                        true => inserted.push((until, format!("&& {switch}"))),
                        false => {
                            inserted.push((start, " (".to_owned()));
                            inserted.push((until, format!(") && {switch}")));
                        }
                    }
                }
                place + 1
            }
            _ => place + 1,
        };
        place = next.max(place + 1);
    }
    inserted.sort_by_key(|(at, _)| *at);
    let mut planted = String::with_capacity(text.len() * 2);
    let mut from = 0;
    for (at, insertion) in inserted {
        planted.push_str(&text[from..at]);
        planted.push_str(&insertion);
        from = at;
    }
    planted.push_str(&text[from..]);
    planted
}

/// The token after the group that opens at `open`.
fn group_end(tokens: &[(Token, usize, usize)], open: usize) -> usize {
    let mut depth = 0usize;
    for (place, (token, ..)) in tokens.iter().enumerate().skip(open) {
        match token {
            Token::Punctuation(b'(' | b'[' | b'{') => depth += 1,
            Token::Punctuation(b')' | b']' | b'}') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return place + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// The token after the next block in braces, or after the next `;` before one.
fn block_end(tokens: &[(Token, usize, usize)], from: usize) -> usize {
    let mut place = from;
    while let Some((token, ..)) = tokens.get(place) {
        match token {
            Token::Punctuation(b'{') => return group_end(tokens, place),
            Token::Punctuation(b';') => return place + 1,
            Token::Punctuation(b'(' | b'[') => place = group_end(tokens, place),
            _ => place += 1,
        }
    }
    tokens.len()
}

/// The token after the next `;` outside of groups.
fn statement_end(tokens: &[(Token, usize, usize)], from: usize) -> usize {
    let mut place = from;
    while let Some((token, ..)) = tokens.get(place) {
        match token {
            Token::Punctuation(b';') => return place + 1,
            Token::Punctuation(b'(' | b'[' | b'{') => place = group_end(tokens, place),
            Token::Punctuation(b')' | b']' | b'}') => return place,
            _ => place += 1,
        }
    }
    tokens.len()
}

/// The token that ends the condition which begins at `from`: `{`, or `=>` of a match arm. Also
/// returns whether the condition has a `let`. `None` for what is no condition.
fn condition_end(
    text: &str,
    tokens: &[(Token, usize, usize)],
    from: usize,
) -> Option<(usize, bool)> {
    let is = |place: usize, byte: u8| {
        tokens.get(place).is_some_and(|(token, ..)| *token == Token::Punctuation(byte))
    };
    let beside = |place: usize| Some(tokens.get(place)?.2 == tokens.get(place + 1)?.1);
    let (mut place, mut chained) = (from, false);
    loop {
        let (token, start, end) = *tokens.get(place)?;
        match token {
            Token::Punctuation(b'{') => return (place > from).then_some((place, chained)),
            Token::Punctuation(b'=') if is(place + 1, b'>') && beside(place)? => {
                return Some((place, chained));
            }
            Token::Punctuation(b'(' | b'[') => place = group_end(tokens, place),
            Token::Punctuation(b')' | b']' | b'}' | b';' | b',') => return None,
            Token::Word if &text[start..end] == "let" => {
                chained = true;
                // The pattern ends at a single `=`.
                place += 1;
                loop {
                    match tokens.get(place)?.0 {
                        Token::Punctuation(b'(' | b'[' | b'{') => place = group_end(tokens, place),
                        Token::Punctuation(b'=') if !is(place.wrapping_sub(1), b'.') => break,
                        _ => place += 1,
                    }
                }
                place += 1;
            }
            // A block of its own inside of the condition.
            Token::Word if matches!(&text[start..end], "match" | "unsafe" | "if") => return None,
            _ => place += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_get_switches() {
        let mut branches = Vec::new();
        let text = r##"
const fn never(a: bool) -> u8 { if a { 1 } else { 2 } }
fn f(a: Option<u8>, b: &str) -> char {
    // if a comment {
    if b.len() > 1 || b == "if x {" { return 'a' }
    if let Some(x) = a && x == b'{' { return '\'' }
    if let S { one: 1..=5, .. } = s { return 'c' } else if matches!(a, Some(1) if true) { }
    match a {
        Some(n) if n > 1 => r#"if "quoted" {"#,
        _ => vec![if a { 1 }],
        x if x < 2 => { let _: &'static str = if x == 3 { "" }; }
    }
}
#[cfg(test)]
mod tests { fn g() { if true {} } }
"##;
        let planted = plant("x.rs", text, &mut branches);
        let conditions: Vec<&str> =
            branches.iter().map(|branch| branch.condition.as_str()).collect();
        assert_eq!(
            conditions,
            [
                "b.len() > 1 || b == \"if x {\"",
                "let Some(x) = a && x == b'{'",
                "let S { one: 1..=5, .. } = s",
                "matches!(a, Some(1) if true)",
                "n > 1",
                "x < 2",
                "x == 3",
            ]
        );
        assert_eq!(branches[0].line, 5);
        for line in [
            "if ( b.len() > 1 || b == \"if x {\" ) && crate::planted_faults::taken(0) {",
            "if let Some(x) = a && x == b'{' && crate::planted_faults::taken(1) {",
            "Some(n) if ( n > 1 ) && crate::planted_faults::taken(4) =>",
            "if a { 1 } else { 2 }",
        ] {
            assert!(planted.contains(line), "{line}\n{planted}");
        }
    }
}
