//! Decoders that rank texts: by the logits of two words instead of a classifier's matrix.

/// A model that answers with one of two words whether a document fits a query.
#[derive(Debug)]
pub(crate) struct Ranker {
    /// The values of `general.architecture` that it may have.
    pub(crate) gguf: &'static [&'static str],
    /// Its names in lower case, as its description and its folder have them.
    pub(crate) names: &'static [&'static str],
    /// The words whose rows of the output matrix llama.cpp reads as `cls.output.weight`, the
    /// positive one first.
    pub(crate) words: [&'static str; 2],
    /// The prompt with `{query}` and `{document}`, as its description states it. llama.cpp reads it
    /// as the chat template `rerank`.
    pub(crate) prompt: &'static str,
}

/// The table, a row for each kind of model.
pub(crate) static RANKERS: &[Ranker] = &[Ranker {
    gguf: &["qwen3", "qwen3vl"],
    names: &["qwen3-reranker", "qwen3-vl-reranker"],
    words: ["yes", "no"],
    prompt: "<|im_start|>system\nJudge whether the Document meets the requirements based on the \
             Query and the Instruct provided. Note that the answer can only be \"yes\" or \
             \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search query, retrieve \
             relevant passages that answer the query\n<Query>: {query}\n<Document>: \
             {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
}];
