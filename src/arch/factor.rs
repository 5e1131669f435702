//! Factors of the config, by which programs without such factors multiply the weights.

use super::resolution::Resolution;
use super::resolve::source_model;
use super::rule::{self, FactorRule};
use super::size::Size;
use super::source::SourceModel;
use super::tensor::CanonicalTensor;
use crate::dialect::Dialect;
use crate::error::{Error, Result};
use crate::json::{Json, Map};
use crate::rounding::f32_of;
use crate::store::Store;

/// The factors of a tensor.
#[derive(Debug)]
pub(crate) struct Factors {
    rule: &'static FactorRule,
    /// The numbers of rows, and their factors. One factor is that of all rows.
    pub(crate) parts: Vec<(u64, f32)>,
}

impl Factors {
    /// Whether they are those of the tensor with this canonical name.
    pub(crate) fn are_of(&self, canonical: &str) -> bool {
        rule::pattern(canonical).layers == self.rule.canonical
    }
}

/// The rules of a model's family.
pub(crate) fn rules(resolution: &Resolution) -> &'static [FactorRule] {
    resolution.architecture.map_or(&[], |row| row.factors)
}

/// The factors of a model, for programs that have none; empty if they are all 1.
///
/// # Errors
///
/// `Malformed` if the config is invalid.
pub(crate) fn factors(store: &Store, resolution: &Resolution) -> Result<Vec<Factors>> {
    let rules = rules(resolution);
    if rules.is_empty() || resolution.dialect == Dialect::Gguf {
        return Ok(Vec::new());
    }
    let model = source_model(store, resolution)?;
    let factors = rules.iter().map(|rule| Ok(Factors { rule, parts: parts(&model, rule)? }));
    let mut factors = factors.collect::<Result<Vec<_>>>()?;
    factors.retain(|factors| factors.parts.iter().any(|(_, factor)| *factor != 1.0));
    Ok(factors)
}

/// `config.json` without factors, for a class whose defaults are others.
pub(crate) fn neutral(
    model: &SourceModel<'_>,
    rules: &[FactorRule],
    config: &mut Map<String, Json>,
) {
    for rule in rules {
        for path in rule.keys {
            let (key, element) = path.split_once('/').unwrap_or((path, ""));
            let listed = config.get(key).and_then(Json::as_array).map_or(0, Vec::len);
            let several = match element {
                "" => None,
                "*" => Some(sizes(rule.canonical, model).len()),
                number => {
                    number.parse::<usize>().ok().map(|number| number.saturating_add(1).max(listed))
                }
            };
            let one = || Json::from(1.0);
            let value =
                several.map_or_else(one, |count| std::iter::repeat_with(one).take(count).collect());
            config.insert(key.to_owned(), value);
        }
    }
}

/// The keys of factors, without positions in lists.
pub(crate) fn keys(rules: &'static [FactorRule]) -> impl Iterator<Item = &'static str> {
    let paths = rules.iter().flat_map(|rule| rule.keys);
    paths.map(|path| path.split_once('/').map_or(*path, |(key, _)| key))
}

fn parts(model: &SourceModel<'_>, rule: &FactorRule) -> Result<Vec<(u64, f32)>> {
    let mut whole = 1.0;
    let mut each = Vec::new();
    for path in rule.keys {
        match path.split_once('/') {
            None => whole *= model.real(path)?.map_or(1.0, f64::from),
            Some((key, "*")) => each = model.reals(key)?,
            Some((key, number)) => {
                let list = model.reals(key)?;
                whole *=
                    number.parse().ok().and_then(|number: usize| list.get(number)).unwrap_or(&1.0);
            }
        }
    }
    let factor = |part: f64| f32_of(whole * part);
    if each.is_empty() {
        return Ok(vec![(0, factor(1.0))]);
    }
    let sizes = sizes(rule.canonical, model);
    if sizes.len() != each.len() {
        let fault = format!("{} factors, but its rows have {} parts", each.len(), sizes.len());
        return Err(Error::mismatch(fault).in_tensor(rule.canonical).in_file(model.path()));
    }
    let rows = sizes.iter().map(|size| size.of(&model.config, 0).unwrap_or(0));
    Ok(rows.zip(each).map(|(rows, part)| (rows, factor(part))).collect())
}

/// The parts that the rows of a tensor consist of.
fn sizes(canonical: &str, model: &SourceModel<'_>) -> &'static [Size] {
    let tensor = CanonicalTensor::of(canonical, &[]);
    let shape = tensor.and_then(|tensor| tensor.shapes(Some(&model.config)).next());
    match shape.and_then(|shape| shape.first()) {
        Some(Size::Sum(sizes)) => sizes,
        _ => &[],
    }
}
