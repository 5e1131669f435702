//! The vocabulary of a merged model: which tokens it has, and where the rows of the embedding and of the
//! output matrix come from.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::recipe::MergeRecipe;
use super::tokens::{TokenEdit, TokenList};
use crate::bytes::Text;
use crate::error::{Error, Result};
use crate::model::Tensor;
use crate::ops::random::draw;

/// The vocabulary of a merged model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MergedVocabulary {
    /// Whose tokens it has.
    pub source: VocabularySource,
    /// Rules for single tokens, by their texts. A token that no tokenizer has is added.
    pub rules: Vec<(String, TokenRule)>,
    /// The texts of tokens that are removed. The tokens after them get lower numbers.
    pub removed: Vec<String>,
    /// The number of rows is rounded up to a multiple of this. The added rows are the mean of the others.
    pub multiple: u64,
}

impl MergedVocabulary {
    /// All tokens of a source, without rules.
    pub fn new(source: VocabularySource) -> Self {
        Self { source, rules: Vec::new(), removed: Vec::new(), multiple: 1 }
    }
}

/// Whose tokens a merged model has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum VocabularySource {
    /// Those of the base or else of the first model, and then those that only other models have.
    Union,
    /// Those of the base, or else of the first model.
    Base,
    /// Those of the model with this number.
    Model(usize),
}

/// Where the row of a token comes from in models that lack the token.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TokenRule {
    /// The row. Without it, the row of the only model that has the token, or of the base, or else the mean
    /// of those that have it; if none has it, the mean of all rows.
    pub row: Option<TokenRow>,
    /// Whether models that have the token get this row, too.
    pub force: bool,
}

/// A row for a token.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TokenRow {
    /// Zeros.
    Zero,
    /// The mean of all rows of the model.
    Mean,
    /// Numbers drawn from normal distributions with the mean and the deviation of each column.
    Random {
        /// The same seed draws the same numbers.
        seed: u64,
    },
    /// The row that the token has in the model with this number.
    Model(usize),
    /// The row of another token.
    Token {
        /// The number of the model.
        model: usize,
        /// The token.
        token: TokenName,
    },
}

/// A token, by its text or its number.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TokenName {
    /// The text in `tokenizer.json`.
    Text(String),
    /// The number.
    Number(u64),
}

/// Where a row comes from.
#[derive(Debug)]
enum Row {
    Of { model: usize, row: u64 },
    MeanOf(Vec<(usize, u64)>),
    Zero,
    Mean,
    Random(u64),
}

/// A planned vocabulary.
#[derive(Debug)]
pub(super) struct Vocabulary {
    /// The number of the model whose tokenizer is edited.
    pub(super) of: usize,
    pub(super) edit: TokenEdit,
    /// The number of rows of each tensor.
    pub(super) count: u64,
    /// The number of rows of each model.
    lists: Vec<u64>,
    /// The rows that each model gets.
    rows: Vec<Arc<Vec<Row>>>,
}

impl Vocabulary {
    pub(super) fn plan(rule: &MergedVocabulary, recipe: &MergeRecipe, main: usize) -> Result<Self> {
        let lists = recipe.sources.iter().map(TokenList::of).collect::<Result<Vec<_>>>()?;
        let of = match rule.source {
            VocabularySource::Model(number) => number,
            VocabularySource::Union | VocabularySource::Base => main,
        };
        let own = lists.get(of).ok_or_else(|| Error::mismatch("no such model in the recipe"))?;
        let mut edit = TokenEdit::new(own, &rule.removed)?;
        let others = lists.iter().enumerate().filter(|(number, _)| *number != of);
        if rule.source == VocabularySource::Union {
            for is_added in [false, true] {
                for token in others.clone().flat_map(|(_, list)| list.in_order()) {
                    if token.added.is_some() == is_added {
                        edit.add(&token.text, token.added.as_ref());
                    }
                }
            }
        }
        for (text, _) in &rule.rules {
            edit.add(text, None);
        }
        let rules: HashMap<&str, &TokenRule> =
            rule.rules.iter().map(|(text, rule)| (text.as_str(), rule)).collect();
        let planner = Planner { lists: &lists, of, base: recipe.base, rules };
        let rows = (0..lists.len()).map(|model| {
            let rows = edit.tokens().map(|(text, before)| planner.row(model, text, before));
            rows.collect::<Result<Vec<_>>>().map(Arc::new)
        });
        let rows = rows.collect::<Result<Vec<_>>>()?;
        let tokens = edit.tokens().count() as u64;
        let count = tokens.checked_next_multiple_of(rule.multiple.max(1)).unwrap_or(tokens);
        let lists = lists.iter().map(|list| list.rows).collect();
        Ok(Self { of, edit, count, lists, rows })
    }

    /// The rows of a tensor of a model. `tensors` has the tensor of each model that has it.
    pub(super) fn rows(
        &self,
        model: usize,
        tensor: &Tensor,
        tensors: Vec<Option<Tensor>>,
    ) -> Result<TokenRows> {
        let list = self.lists.get(model).zip(self.rows.get(model));
        let (rows, planned) = list.ok_or_else(|| Error::mismatch("no such model in the recipe"))?;
        let found = tensor.shape().first().copied().unwrap_or(0);
        if found != *rows || tensor.values_dtype().is_integer() {
            let fault = format!("{found} rows, but the embedding has {rows}");
            let fault = if found == *rows { "rows of integers".to_owned() } else { fault };
            let fault = format!("the vocabulary cannot be changed: {fault}");
            return Err(Error::unsupported(fault));
        }
        Ok(TokenRows { rows: Arc::clone(planned), count: self.count, model, tensors })
    }
}

/// Chooses the rows.
struct Planner<'p> {
    lists: &'p [TokenList],
    /// The number of the model whose tokenizer is edited.
    of: usize,
    base: Option<usize>,
    rules: HashMap<&'p str, &'p TokenRule>,
}

impl Planner<'_> {
    fn find(&self, model: usize, text: &str) -> Option<u64> {
        self.lists.get(model)?.find(text)
    }

    /// The row of a token in a model. `before` is its number in the edited tokenizer.
    fn row(&self, model: usize, text: Option<&str>, before: Option<u64>) -> Result<Row> {
        let Some(text) = text else {
            // A number without a token.
            return Ok(Row::Of { model: self.of, row: before.unwrap_or_default() });
        };
        let rule = self.rules.get(text);
        let own = self.find(model, text).filter(|_| !rule.is_some_and(|rule| rule.force));
        if let Some(row) = own {
            return Ok(Row::Of { model, row });
        }
        let lacks = |token: &str, model: usize| {
            let fault = format!("model {} has no token {}", model + 1, Text::new(token.as_bytes()));
            Error::not_found(fault).in_key("tokens")
        };
        let of = |model: usize, token: &str| {
            let row = self.find(model, token).ok_or_else(|| lacks(token, model))?;
            Ok(Row::Of { model, row })
        };
        match rule.and_then(|rule| rule.row.as_ref()) {
            Some(TokenRow::Zero) => Ok(Row::Zero),
            Some(TokenRow::Mean) => Ok(Row::Mean),
            Some(TokenRow::Random { seed }) => Ok(Row::Random(seed_of(*seed, text))),
            Some(TokenRow::Model(model)) => of(*model, text),
            Some(TokenRow::Token { model, token: TokenName::Text(token) }) => of(*model, token),
            Some(TokenRow::Token { model, token: TokenName::Number(row) }) => {
                let rows = self.lists.get(*model).map_or(0, |list| list.rows);
                if *row >= rows {
                    let fault = format!("token {row}, but the model has {rows} rows");
                    return Err(Error::mismatch(fault).in_key("token_id"));
                }
                Ok(Row::Of { model: *model, row: *row })
            }
            None => Ok(self.by_default(text)),
        }
    }

    fn by_default(&self, text: &str) -> Row {
        let found = |model: usize| Some((model, self.find(model, text)?));
        let all: Vec<(usize, u64)> = (0..self.lists.len()).filter_map(found).collect();
        let only = all.first().copied().filter(|_| all.len() == 1);
        match only.or_else(|| self.base.and_then(found)) {
            Some((model, row)) => Row::Of { model, row },
            None if all.is_empty() => Row::Mean,
            None => Row::MeanOf(all),
        }
    }
}

/// The rows of one tensor of a model, in the order of the merged vocabulary.
#[derive(Clone, Debug)]
pub(super) struct TokenRows {
    rows: Arc<Vec<Row>>,
    count: u64,
    model: usize,
    tensors: Vec<Option<Tensor>>,
}

impl TokenRows {
    fn read(&self, model: usize, row: u64, len: u64) -> Result<Vec<f32>> {
        let tensor = self.tensors.get(model).and_then(Option::as_ref).ok_or_else(|| {
            let fault =
                format!("model {} lacks the tensor that a token's row comes from", model + 1);
            Error::mismatch(fault)
        })?;
        tensor.clone().slice_axis(0, [row..row.saturating_add(len)])?.to_vec::<f32>()
    }

    /// The values.
    pub(super) fn values(&self, tensor: &Tensor) -> Result<Vec<f32>> {
        let width = tensor.shape().iter().skip(1).product::<u64>().max(1);
        let too_large = || Error::mismatch("the tensor is too large").in_tensor(tensor.name());
        let len = self.count.checked_mul(width).and_then(|len| usize::try_from(len).ok());
        let mut out = crate::bytes::try_vec::<f32>(len.ok_or_else(too_large)?)?;
        let width = usize::try_from(width).map_err(|_| too_large())?;
        let (mut next, mut unset) = (0, Vec::new());
        while let Some(row) = self.rows.get(next) {
            let mut run = 1;
            match row {
                Row::Of { model, row } => {
                    let follows = |place: usize, after: u64| {
                        matches!(self.rows.get(place), Some(Row::Of { model: m, row: r })
                            if m == model && *r == row.saturating_add(after))
                    };
                    while follows(next.saturating_add(run), run as u64) {
                        run = run.saturating_add(1);
                    }
                    out.extend(self.read(*model, *row, run as u64)?);
                }
                Row::MeanOf(all) => {
                    let mut sum = vec![0.0; width];
                    for (model, row) in all {
                        let values = self.read(*model, *row, 1)?;
                        sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
                    }
                    #[expect(clippy::cast_precision_loss, reason = "a number of models")]
                    let count = all.len().max(1) as f32;
                    out.extend(sum.into_iter().map(|sum| sum / count));
                }
                Row::Zero => out.resize(out.len().saturating_add(width), 0.0),
                Row::Mean | Row::Random(_) => {
                    out.resize(out.len().saturating_add(width), 0.0);
                    unset.push(next);
                }
            }
            next = next.saturating_add(run);
        }
        self.fill(tensor.name(), &mut out, width, &unset);
        Ok(out)
    }

    /// Computes the rows that depend on others, and adds those that round the number up.
    fn fill(&self, name: &str, out: &mut Vec<f32>, width: usize, unset: &[usize]) {
        if !unset.is_empty() {
            let mut seen = HashSet::new();
            let own = |row: &Row| match row {
                // Other tokens may have the same row.
                Row::Of { model, row } => *model == self.model && seen.insert(*row),
                _ => false,
            };
            let rows = self.rows.iter().zip(out.chunks(width));
            let rows = rows.scan(own, |own, (row, values)| Some((own(row), values)));
            let rows = rows.filter(|(is_own, _)| *is_own);
            let columns = Columns::of(rows.map(|(_, values)| values), width);
            for &place in unset {
                let start = place.saturating_mul(width);
                let row = out.get_mut(start..start.saturating_add(width)).unwrap_or_default();
                match self.rows.get(place) {
                    Some(Row::Random(seed)) => columns.draw(seed_of(*seed, name), row),
                    _ => row.copy_from_slice(&columns.means()),
                }
            }
        }
        let rest = self.count.saturating_sub(self.rows.len() as u64);
        if rest > 0 {
            let mean = Columns::of(out.chunks(width), width).means();
            (0..rest).for_each(|_| out.extend_from_slice(&mean));
        }
    }
}

/// The sums of columns.
struct Columns {
    count: f64,
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl Columns {
    fn of<'v>(rows: impl Iterator<Item = &'v [f32]>, width: usize) -> Self {
        let mut all = Self { count: 0.0, sums: vec![0.0; width], squares: vec![0.0; width] };
        for row in rows {
            all.count += 1.0;
            for ((sum, square), value) in all.sums.iter_mut().zip(&mut all.squares).zip(row) {
                *sum += f64::from(*value);
                *square += f64::from(*value) * f64::from(*value);
            }
        }
        all.count = all.count.max(1.0);
        all
    }

    #[expect(clippy::cast_possible_truncation, reason = "values are f32")]
    fn means(&self) -> Vec<f32> {
        self.sums.iter().map(|sum| (sum / self.count) as f32).collect()
    }

    /// Fills a row with numbers from the normal distribution of each column.
    #[expect(clippy::cast_possible_truncation, reason = "values are f32")]
    fn draw(&self, mut seed: u64, out: &mut [f32]) {
        for ((sum, square), value) in self.sums.iter().zip(&self.squares).zip(out) {
            let mean = sum / self.count;
            let deviation = (square / self.count - mean * mean).max(0.0).sqrt();
            // The transform of Box and Muller; a logarithm of 0 is avoided.
            let (length, angle) = (1.0 - draw(&mut seed), draw(&mut seed) * std::f64::consts::TAU);
            *value = (mean + deviation * (-2.0 * length.ln()).sqrt() * angle.cos()) as f32;
        }
    }
}

/// A seed that depends on a text, too (FNV-1a).
fn seed_of(seed: u64, text: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.bytes().chain(seed.to_le_bytes()).fold(0xcbf2_9ce4_8422_2325, mix)
}
