//! Plans which tokens a merged model has, and where the rows of the embedding and of the output matrix come
//! from.

use std::collections::HashMap;
use std::sync::Arc;

use super::recipe::MergeRecipe;
use super::rows::{Row, TokenRows};
use super::tokens::{TokenEdit, TokenList};
use super::vocabulary::{MergedVocabulary, TokenName, TokenRow, TokenRule, VocabularySource};
use crate::bytes::Text;
use crate::error::{Error, Result};
use crate::model::Tensor;
use crate::ops::random::seed_of;

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
        Ok(TokenRows::new(Arc::clone(planned), model, tensor, tensors))
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
            Some(TokenRow::Random { seed }) => Ok(Row::Random(seed_of(text, *seed))),
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
