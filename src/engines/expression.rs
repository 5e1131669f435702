//! Expressions over the numbers of a file, in which lengths of axes and conditions are stated.

use std::collections::HashMap;
use std::sync::Arc;

use crate::json::{Json, Map};

/// An expression. Conditions are numbers: 0 is false.
#[derive(Debug)]
pub(crate) enum Expression {
    Number(u64),
    Term(Term),
    Not(Arc<Self>),
    /// Two operands, and the operator between them.
    Both(&'static str, Arc<Self>, Arc<Self>),
    /// A condition, the value if it holds, and the value if it does not.
    Choice(Arc<Self>, Arc<Self>, Arc<Self>),
}

/// A value that the file decides. Keys follow the name of the architecture, except in `HasGeneral`.
#[derive(Debug)]
pub(crate) enum Term {
    /// The number of the layer.
    Layer,
    /// The number of tokens.
    Vocab,
    /// The number of layers without those that predict further tokens.
    Layers,
    /// The number of labels of a classifier.
    Labels,
    /// The number of token types.
    TokenTypes,
    /// A number.
    Key(&'static str),
    /// An element of a list, by its position or that of the layer; or the number itself where the key is no list.
    Element(&'static str, Option<u32>),
    /// The flag of the layer in a list.
    Flag(&'static str),
    /// The length of a list.
    Elements(&'static str),
    /// The number of layers for which a list has a number above 0, or true.
    LayersWith(&'static str),
    /// Whether a key exists.
    Has(&'static str),
    /// Whether a key of any architecture exists.
    HasGeneral(&'static str),
    /// Whether the value of a key is this text, or the number that it spells.
    Is(&'static str, &'static str),
}

/// Expressions by name.
pub(crate) type Names = HashMap<&'static str, Arc<Expression>>;

/// A condition that must hold.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    pub(crate) holds: Arc<Expression>,
    /// The fault otherwise; expressions in braces stand for their values.
    pub(crate) fault: &'static str,
}

impl Check {
    /// Parses `CONDITION else FAULT`.
    pub(crate) fn parse(text: &'static str, names: &Names) -> Option<Self> {
        let (holds, fault) = text.split_once(" else ")?;
        Some(Self { holds: Expression::parse(holds, names)?, fault })
    }

    /// The fault of a `config.json` that does not meet the condition. A key may be a path; a text is also equal to a list
    /// that has it. `rope` is looked up by paths that begin with it.
    pub(crate) fn fault_of(
        &self,
        config: &Map<String, Json>,
        rope: Option<&Map<String, Json>>,
    ) -> Option<&'static str> {
        let holds = self.holds.value(&|term| stated(config, rope, term)).unwrap_or(0) != 0;
        (!holds).then_some(self.fault)
    }
}

/// A number that has no fraction: JSON may write it with a point.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
pub(crate) fn whole(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && (0.0..9e15).contains(&number)).then_some(number as u64)
}

/// The value of a term in a `config.json`.
fn stated(
    config: &Map<String, Json>,
    rope: Option<&Map<String, Json>>,
    term: &Term,
) -> Option<u64> {
    let value = |key: &str| {
        let (map, path) = match key.strip_prefix("rope.") {
            Some(path) => (rope?, path),
            None => (config, key),
        };
        let mut names = path.split('.');
        let first = map.get(names.next()?)?;
        names.try_fold(first, |json, name| json.get(name)).filter(|json| !json.is_null())
    };
    match term {
        Term::Key(key) => {
            let json = value(key)?;
            json.as_bool().map(u64::from).or_else(|| whole(json.as_f64()?))
        }
        Term::Has(key) => Some(value(key).is_some().into()),
        Term::Elements(key) => Some(value(key)?.as_array()?.len() as u64),
        Term::Is(key, text) => {
            let is = |json: &Json| json.as_str() == Some(text);
            let json = value(key);
            let list = json.and_then(Json::as_array).into_iter().flatten();
            Some(json.into_iter().chain(list).any(is).into())
        }
        _ => None,
    }
}

/// Operators between two operands, those that bind loosest first.
const OPERATORS: &[&[&str]] = &[
    &["or"],
    &["and"],
    &["||", "|"],
    &["==", "!=", "<=", ">=", "<", ">"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl Expression {
    /// Parses an expression, in which `names` are defined. `None` for text that is none.
    pub(crate) fn parse(text: &'static str, names: &Names) -> Option<Arc<Self>> {
        let mut parser = Parser { tokens: tokens(text)?, next: 0, names };
        let expression = parser.expression()?;
        (parser.next == parser.tokens.len()).then_some(expression)
    }

    /// Computes the value, with the values of its terms. `None` if a term is missing that has no
    /// substitute; an operand that is missing is 0.
    pub(crate) fn value(&self, term: &dyn Fn(&Term) -> Option<u64>) -> Option<u64> {
        let number = |expression: &Self| expression.value(term).unwrap_or(0);
        Some(match self {
            Self::Number(number) => *number,
            Self::Term(wanted) => return term(wanted),
            Self::Not(condition) => u64::from(number(condition) == 0),
            Self::Choice(condition, yes, no) => {
                return if number(condition) == 0 { no } else { yes }.value(term);
            }
            Self::Both("|", a, b) => return a.value(term).or_else(|| b.value(term)),
            Self::Both("||", a, b) => {
                return a.value(term).filter(|number| *number != 0).or_else(|| b.value(term));
            }
            Self::Both(operator, a, b) => compute(operator, number(a), number(b)),
        })
    }
}

/// Computes with two numbers. The remainder by 0 equals no number that an expression compares it with.
fn compute(operator: &str, a: u64, b: u64) -> u64 {
    match operator {
        "or" => u64::from(a != 0 || b != 0),
        "and" => u64::from(a != 0 && b != 0),
        "==" => u64::from(a == b),
        "!=" => u64::from(a != b),
        "<=" => u64::from(a <= b),
        ">=" => u64::from(a >= b),
        "<" => u64::from(a < b),
        ">" => u64::from(a > b),
        "+" => a.saturating_add(b),
        "-" => a.saturating_sub(b),
        "*" => a.saturating_mul(b),
        "/" => a.checked_div(b).unwrap_or(0),
        _ => a.checked_rem(b).unwrap_or(u64::MAX),
    }
}

/// Splits an expression into words, texts in quotes, and operators.
fn tokens(text: &'static str) -> Option<Vec<&'static str>> {
    const SYMBOLS: &[&str] = &["||", "==", "!=", "<=", ">="];
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let len = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if first == '"' {
            rest.match_indices('"').nth(1)?.0 + 1
        } else {
            SYMBOLS
                .iter()
                .find(|symbol| rest.starts_with(**symbol))
                .map_or(1, |symbol| symbol.len())
        };
        let (token, after) = rest.split_at_checked(len)?;
        tokens.push(token);
        rest = after.trim_start();
    }
    Some(tokens)
}

struct Parser<'a> {
    tokens: Vec<&'static str>,
    next: usize,
    names: &'a Names,
}

impl Parser<'_> {
    fn token(&mut self) -> Option<&'static str> {
        let token = self.tokens.get(self.next).copied();
        self.next += 1;
        token
    }

    /// Takes the next token if it is one of these.
    fn take(&mut self, expected: &[&str]) -> Option<&'static str> {
        let token = self.tokens.get(self.next).copied().filter(|token| expected.contains(token))?;
        self.next += 1;
        Some(token)
    }

    fn expression(&mut self) -> Option<Arc<Expression>> {
        let first = self.operands(OPERATORS)?;
        if self.take(&["?"]).is_none() {
            return Some(first);
        }
        let yes = self.expression()?;
        self.take(&[":"])?;
        Some(Arc::new(Expression::Choice(first, yes, self.expression()?)))
    }

    /// Operands with the first operators of a list between them.
    fn operands(&mut self, operators: &[&[&str]]) -> Option<Arc<Expression>> {
        let Some((here, tighter)) = operators.split_first() else { return self.operand() };
        let mut left = self.operands(tighter)?;
        while let Some(operator) = self.take(here) {
            left = Arc::new(Expression::Both(operator, left, self.operands(tighter)?));
        }
        Some(left)
    }

    fn operand(&mut self) -> Option<Arc<Expression>> {
        let word = self.token()?;
        let term = match word {
            "(" => {
                let inner = self.expression()?;
                self.take(&[")"])?;
                return Some(inner);
            }
            "not" => {
                let inner = self.operand()?;
                // It binds closer than operators, which would compare the negation.
                let next = self.tokens.get(self.next).copied().unwrap_or_default();
                let compares = OPERATORS.iter().skip(3).any(|level| level.contains(&next));
                return (!compares).then(|| Arc::new(Expression::Not(inner)));
            }
            "n" => Term::Layer,
            "vocab" => Term::Vocab,
            "layers" => Term::Layers,
            "labels" => Term::Labels,
            "token_types" => Term::TokenTypes,
            "has" | "general" | "flag" | "elements" | "layers_with" => {
                self.take(&["("])?;
                let key = self.token()?;
                self.take(&[")"])?;
                match word {
                    "has" => Term::Has(key),
                    "general" => Term::HasGeneral(key),
                    "flag" => Term::Flag(key),
                    "layers_with" => Term::LayersWith(key),
                    _ => Term::Elements(key),
                }
            }
            _ => match (self.names.get(word), word.parse()) {
                (Some(named), _) => return Some(Arc::clone(named)),
                (None, Ok(number)) => return Some(Arc::new(Expression::Number(number))),
                (None, Err(_)) => self.key(word)?,
            },
        };
        Some(Arc::new(Expression::Term(term)))
    }

    /// A key, with the position of an element or the text that it is compared with.
    fn key(&mut self, key: &'static str) -> Option<Term> {
        if self.take(&["["]).is_some() {
            let position = self.token()?;
            self.take(&["]"])?;
            return Some(Term::Element(key, position.parse().ok()));
        }
        let text = self.tokens.get(self.next + 1).and_then(|token| token.strip_prefix('"'));
        match text.and_then(|text| text.strip_suffix('"')) {
            Some(text) => {
                self.take(&["=="])?;
                self.next += 1;
                Some(Term::Is(key, text))
            }
            None => Some(Term::Key(key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value where the key `one` is 1, `nil` is 0, `five.six` is 56, others are missing, and the
    /// layer is 3.
    fn value(text: &'static str) -> Option<u64> {
        let names =
            Names::from([("twice", Expression::parse("2 * one", &Names::new()).expect("valid"))]);
        let term = |term: &Term| match term {
            Term::Layer => Some(3),
            Term::Key("one") | Term::Has("one") | Term::Is("word", "a b") => Some(1),
            Term::Key("nil") | Term::Element("list", Some(2)) => Some(0),
            Term::Key("five.six") | Term::Element("list", None) => Some(56),
            _ => None,
        };
        Expression::parse(text, &names).expect("an expression").value(&term)
    }

    #[test]
    fn expressions_are_computed() {
        for (text, expected) in [
            ("1 + 2 * 3 - 4", Some(3)),
            ("(1 + 2) * 3", Some(9)),
            ("1 - 2", Some(0)),
            ("five.six / nil", Some(0)),
            ("five.six % nil == 0", Some(0)),
            ("missing", None),
            ("missing + 1", Some(1)),
            ("missing | nil", Some(0)),
            ("missing || nil || 7", Some(7)),
            ("nil | 7", Some(0)),
            ("twice * twice", Some(4)),
            ("list[n] + list[2]", Some(56)),
            ("(n + 1) % 4 == 0 and not nil", Some(1)),
            ("nil or has(one)", Some(1)),
            ("nil ? 1 : one ? 2 : 3", Some(2)),
            ("word == \"a b\"", Some(1)),
            ("word == \"b\" or 0", Some(0)),
            ("flag(missing) | n < 3", Some(0)),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
    }

    #[test]
    fn configs_are_checked() {
        let config = crate::json::json!({
            "on": true, "none": null, "base": 1e4, "half": 0.5, "kinds": ["a", "b"], "inner": {"type": "linear"},
        });
        let config = config.as_object().expect("an object");
        let rope = config["inner"].as_object();
        for (text, expected) in [
            ("on and not none", true),
            ("base == 10000", true),
            ("half | 7 == 7", true),
            ("kinds == \"b\" and elements(kinds) == 2", true),
            ("kinds == \"c\"", false),
            ("inner.type == \"linear\" and has(inner)", true),
            ("rope.type == \"linear\"", true),
            ("has(none) or has(inner.factor) or has(rope.factor)", false),
        ] {
            let text = format!("{text} else it differs").leak();
            let check = Check::parse(text, &Names::new()).expect("a condition");
            assert_eq!(check.fault_of(config, rope).is_none(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_expression_is_not_parsed() {
        for text in ["", "not a > 1", "1 +", "(1", "1 2", "has one", "a ? b", "a == \"b", "list[0"]
        {
            assert!(Expression::parse(text, &Names::new()).is_none(), "{text}");
        }
    }
}
