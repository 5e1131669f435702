//! Limits on what opening a file may cost.

/// Upper bounds on what opening a file may cost, whatever the file claims.
///
/// The defaults accept every published model and keep memory within a small multiple of the bytes
/// actually present. A file over a limit gives
/// [`ErrorKind::LimitExceeded`](crate::ErrorKind::LimitExceeded), and the message names the field.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one file's header. GGUF does not state the length of its header, so this bounds the
    /// parser. A vocabulary of 152,000 tokens takes 9 MB. At most 4 GiB, because entries hold
    /// 32-bit offsets.
    pub header_bytes: u64,
    /// Bytes of a safetensors header. The reference crate refuses more than 100,000,000.
    pub json_header_bytes: u64,
    /// Bytes of one string in GGUF metadata. Chat templates take some tens of kilobytes,
    /// `tokenizer.huggingface.json` some tens of megabytes.
    pub string_bytes: u64,
    /// Elements of one metadata array. `gguf.cpp` allows 2^30.
    pub array_elements: u64,
    /// Nesting levels of arrays in GGUF metadata. `gguf.cpp` allows one, its specification more.
    pub array_depth: u32,
    /// Metadata keys. Published files have a few dozen; torchao stores one for each tensor.
    pub metadata_items: u64,
    /// Dimensions of a tensor in GGUF. ggml allows four.
    pub gguf_dims: u32,
    /// Dimensions of a tensor in other containers. Published models have at most six.
    pub dims: u32,
    /// The largest `general.alignment`, in bytes.
    pub alignment: u64,
    /// Tensors in one file.
    pub tensors: u64,
    /// Files of one model (its shards).
    pub shards: u32,
    /// Bytes of a shard index (`model.safetensors.index.json`).
    pub index_bytes: u64,
    /// Bytes of a JSON document: `config.json`, `params.json`, a manifest.
    pub document_bytes: u64,
    /// Bytes of a file with a vocabulary: `tokenizer.json`, `tokenizer.model`. One with 262,000
    /// tokens takes 33 MB.
    pub vocabulary_bytes: u64,
    /// Tokens, and merges, of a vocabulary in a separate file. Published vocabularies have up to
    /// 262,000 tokens and 514,000 merges.
    pub vocabulary_items: u64,
    /// Values in a JSON document, weighted by their size once parsed: a number counts 1, a list 4
    /// more, a key 3 and an object 8. One unit is about 32 bytes.
    pub document_values: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_bytes: 1 << 30,
            json_header_bytes: 100_000_000,
            string_bytes: 256 << 20,
            array_elements: 1 << 30,
            array_depth: 4,
            metadata_items: 1 << 18,
            gguf_dims: 4,
            dims: 8,
            alignment: 1 << 20,
            tensors: 1 << 24,
            shards: 100_000,
            index_bytes: 256 << 20,
            document_bytes: 12 << 20,
            vocabulary_bytes: 256 << 20,
            vocabulary_items: 1 << 22,
            document_values: 1 << 19,
        }
    }
}
