//! The vocabulary of a merged model, as recipes state it.

/// The vocabulary of a merged model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MergedVocabulary {
    /// The model whose tokens it has.
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

/// The vocabulary of a merged model.
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

/// The source of a token's row in models that lack the token.
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
