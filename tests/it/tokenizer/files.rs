//! Tokenizers and settings for generating, from every file that may hold them.

use std::path::Path;

use crate::support::{Gguf, Kv, Safetensors, f32s, fixture, folder, put, told, without_path};
use insta::assert_snapshot;
use proptest::prelude::*;
use tempfile::TempDir;
use weighbridge::bytes::Text;
use weighbridge::json::json;
use weighbridge::{DType, Model, OpenOptions, Strictness, ops, translate};

/// A model without a meaning, and files beside it.
fn beside<B: AsRef<[u8]>>(files: &[(&str, B)]) -> (TempDir, Model) {
    let weights = Safetensors::new().tensor("t", "F32", &[1], f32s(&[1.0])).build();
    let folder = folder(&[("model.safetensors", weights)]);
    for (name, bytes) in files {
        put(folder.path(), name, bytes);
    }
    let store = Model::open(folder.path()).expect("a model");
    (folder, store)
}

fn gguf(keys: &[(&str, Kv)]) -> Model {
    let file = Gguf::new().tensor("t", DType::F32, &[1], f32s(&[1.0]));
    let file = keys.iter().fold(file, |file, (key, value)| file.key(key, value.clone()));
    OpenOptions::new().open_memory("file", file.build()).expect("a model")
}

/// All that a tokenizer says, some lines each.
fn said(store: &Model) -> String {
    let tokenizer = store.tokenizer().expect("a sound tokenizer").expect("a tokenizer");
    let text = |bytes: &[u8]| Text::new(bytes).to_string();
    let mut lines = vec![format!("{} ({})", tokenizer.kind.value.name(), tokenizer.kind.source)];
    for token in tokenizer.tokens() {
        let score = token.score.map(|score| format!(" {score}")).unwrap_or_default();
        let kind = token.kind.map(|kind| format!(" {kind:?}")).unwrap_or_default();
        lines.push(format!("{}: {}{score}{kind}", token.id, text(&token.text)));
    }
    let merges = tokenizer.merges().map(|(a, b)| format!("{}+{}", text(&a), text(&b)));
    lines.extend(merges);
    let special = tokenizer.special.iter();
    lines.extend(special.map(|(name, id)| format!("{name} = {} ({})", id.value, id.source)));
    let flags = [("bos", &tokenizer.add_bos), ("eos", &tokenizer.add_eos)];
    lines.extend(flags.iter().filter_map(|(name, flag)| {
        let flag = flag.as_ref()?;
        Some(format!("adds {name}: {} ({})", flag.value, flag.source))
    }));
    lines.extend(tokenizer.chat_templates.iter().map(|template| {
        let name = template.name.as_deref().unwrap_or("-");
        format!("template {name}: {} ({})", template.text.value, template.text.source)
    }));
    lines.join("\n")
}

fn refused(store: &Model, folder: &Path) -> String {
    without_path(&told(&store.tokenizer().expect_err("a fault")), folder)
}

fn model(path: &str) -> Option<Model> {
    Some(Model::open(fixture(path)?).expect(path))
}

const BPE: &str = r#"{
    "version": "1.0",
    "added_tokens": [
        {"id": 0, "content": "<s>", "special": true},
        {"id": 6, "content": "<extra \"1\">", "special": false, "lstrip": true}
    ],
    "normalizer": {"type": "Sequence", "normalizers": [{}, []]},
    "model": {
        "type": "BPE", "unk_token": null, "byte_fallback": false,
        "vocab": {"<s>": 0, "t": 2, "h": 3, "th": 5, "\u0120t": 4, "\"": 1},
        "merges": ["t h", ["\u0120", "t"]]
    }
}"#;

#[test]
fn tokenizer_json() {
    let config = json!({
        "bos_token": {"content": "<s>", "lstrip": false}, "add_bos_token": true,
        "chat_template": [
            {"name": "default", "template": "{{ a }}"}, {"name": "tool_use", "template": "{{ b }}"},
        ],
    });
    let (_folder, store) = beside(&[
        ("tokenizer.json", BPE.to_owned()),
        ("tokenizer_config.json", config.to_string()),
        ("special_tokens_map.json", json!({"bos_token": "t", "eos_token": "th"}).to_string()),
        (
            "config.json",
            json!({"pad_token_id": 3, "eos_token_id": [4, 5], "sep_token_id": 99}).to_string(),
        ),
    ]);
    assert_snapshot!(said(&store), @r#"
    bpe (tokenizer.json)
    0: <s> Control
    1: "
    2: t
    3: h
    4: Ġt
    5: th
    6: <extra "1"> UserDefined
    t+h
    Ġ+t
    bos = 0 (tokenizer_config.json bos_token)
    eos = 5 (special_tokens_map.json eos_token)
    pad = 3 (config.json pad_token_id)
    adds bos: true (tokenizer_config.json add_bos_token)
    template -: {{ a }} (tokenizer_config.json chat_template)
    template tool_use: {{ b }} (tokenizer_config.json chat_template)
    "#);
    let tokenizer = store.tokenizer().expect("a tokenizer").expect("one");
    assert_eq!((tokenizer.len(), tokenizer.chat_template()), (7, Some("{{ a }}")));
    assert_eq!((tokenizer.special("bos"), tokenizer.special("mask")), (Some(0), None));

    let unigram = json!({
        "added_tokens": null,
        "model": {"type": "Unigram", "unk_id": 1, "vocab": [["\u{2581}the", -3.5], ["<unk>", 0]]},
    });
    let (_folder, store) = beside(&[
        ("tokenizer.json", unigram.to_string()),
        ("chat_template.jinja", "{{ messages }}".to_owned()),
        ("tokenizer_config.json", json!({"chat_template": "older"}).to_string()),
    ]);
    assert_snapshot!(said(&store), @"
    unigram (tokenizer.json)
    0: ▁the -3.5
    1: <unk> 0
    unk = 1 (tokenizer.json)
    template -: {{ messages }} (chat_template.jinja)
    ");
}

#[test]
fn older_files() {
    let (_folder, store) = beside(&[
        ("vocab.json", "{\"t\": 0, \"h\": 1, \"th\": 2}"),
        ("merges.txt", "#version: 0.2\nt h\r\n# t\n"),
    ]);
    assert_snapshot!(said(&store), @"
    bpe (vocab.json)
    0: t
    1: h
    2: th
    t+h
    #+t
    ");
    let (_folder, store) = beside(&[("vocab.txt", "[PAD]\n[UNK]\r\nthe")]);
    assert_snapshot!(said(&store), @"
    wordpiece (vocab.txt)
    0: [PAD]
    1: [UNK]
    2: the
    pad = 0 (vocab.txt)
    unk = 1 (vocab.txt)
    ");
    let (_folder, store) = beside::<&str>(&[]);
    assert!(store.tokenizer().expect("no fault").is_none());
}

/// A field of a protocol buffer that has a length.
pub(crate) fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let len = u8::try_from(bytes.len()).expect("a short field");
    [&[number << 3 | 2, len], bytes].concat()
}

pub(crate) fn piece(text: &str, score: f32, kind: Option<u8>) -> Vec<u8> {
    let kind = kind.map(|kind| vec![3 << 3, kind]).unwrap_or_default();
    let score = [&[2 << 3 | 5], &score.to_le_bytes()[..]].concat();
    field(1, &[field(1, text.as_bytes()), score, kind].concat())
}

fn sentencepiece() -> Vec<u8> {
    // model_type 2, and pad_id -1 in ten bytes; a field of 8 bytes that is skipped.
    let pad = [&[0xd8, 0x02][..], &[0xff; 9], &[0x01]].concat();
    let trainer = [vec![3 << 3, 2], pad, vec![10 << 3 | 1], vec![0; 8]].concat();
    [
        piece("<unk>", 0.0, Some(2)),
        piece("<s>", 0.0, Some(3)),
        piece("</s>", 0.0, Some(3)),
        field(2, &trainer),
        piece("<0x0A>", 0.0, Some(6)),
        piece("\u{2581}the", -3.5, None),
        field(3, &field(1, b"nmt_nfkc")),
    ]
    .concat()
}

#[test]
fn tokenizer_model() {
    let (_folder, store) = beside(&[("tokenizer.model", sentencepiece())]);
    assert_snapshot!(said(&store), @"
    sentencepiece (tokenizer.model)
    0: <unk> 0 Unknown
    1: <s> 0 Control
    2: </s> 0 Control
    3: <0x0A> 0 Byte
    4: ▁the -3.5 Normal
    unk = 0 (tokenizer.model)
    bos = 1 (tokenizer.model)
    eos = 2 (tokenizer.model)
    ");
}

/// Programs of transformers that train further tokens save them next to the model of SentencePiece.
#[test]
fn added_tokens_of_a_tokenizer_model() {
    let added = br#"{"<|im_start|>": 6, "<|im_end|>": 5, "of a piece": 4}"#.to_vec();
    let (_folder, store) =
        beside(&[("tokenizer.model", sentencepiece()), ("added_tokens.json", added)]);
    let said = said(&store);
    for line in [
        "4: \u{2581}the -3.5 Normal",
        "5: <|im_end|> 0 UserDefined",
        "6: <|im_start|> 0 UserDefined",
    ] {
        assert!(said.contains(line), "{said}");
    }
}

/// `tokenizer_config.json` lists them too, also in the places of pieces.
#[test]
fn added_tokens_of_a_tokenizer_config() {
    let config = br#"{"added_tokens_decoder": {
        "1": {"content": "<s>", "special": true},
        "4": {"content": "<|end|>", "special": true},
        "5": {"content": "<|start|>", "special": false}
    }}"#;
    let files = [("tokenizer.model", sentencepiece()), ("tokenizer_config.json", config.to_vec())];
    let (_folder, store) = beside(&files);
    let said = said(&store);
    for line in ["1: <s> 0 Control", "4: <|end|> 0 Control", "5: <|start|> 0 UserDefined"] {
        assert!(said.contains(line), "{said}");
    }
}

/// SentencePiece finds runs of spaces after spaces became blocks; other user-defined pieces are matched in the text.
#[test]
fn runs_of_spaces_are_merged() {
    let runs =
        [sentencepiece(), piece("\u{2581}\u{2581}", 0.0, Some(4)), piece("\n\n", 0.0, Some(4))]
            .concat();
    let (_folder, store) = beside(&[("tokenizer.model", runs)]);
    let said = said(&store);
    for line in ["5: \u{2581}\u{2581} 0 Normal", "6: \\n\\n 0 UserDefined"] {
        assert!(said.contains(line), "{said}");
    }
}

/// The pieces of an XLM-RoBERTa, a trainer that states Unigram, and a normalizer with flags.
pub(crate) fn fairseq(normalizer: &[u8]) -> Vec<u8> {
    [
        piece("<unk>", 0.0, Some(2)),
        piece("<s>", 0.0, Some(3)),
        piece("</s>", 0.0, Some(3)),
        piece(",", -3.5, None),
        piece("\u{2581}the", -4.25, None),
        field(2, &[3 << 3, 1]),
        field(3, normalizer),
    ]
    .concat()
}

/// transformers' XLMRobertaTokenizer numbers `<s>`, `<pad>`, `</s>` and `<unk>` first, all other
/// pieces one higher than SentencePiece, and `<mask>` after the last.
#[test]
fn pieces_in_the_order_of_fairseq() {
    let file = fairseq(&[]);
    let config = |text: &'static str| ("config.json", text.as_bytes().to_vec());
    let name = "sentencepiece.bpe.model";
    let (_folder, store) = beside(&[(name, file.clone()), config(r#"{"vocab_size": 7}"#)]);
    assert_snapshot!(said(&store), @"
    unigram (sentencepiece.bpe.model)
    0: <s> 0 Control
    1: <pad> 0 Control
    2: </s> 0 Control
    3: <unk> 0 Unknown
    4: , -3.5 Normal
    5: ▁the -4.25 Normal
    6: <mask> 0 Control
    bos = 0 (sentencepiece.bpe.model)
    eos = 2 (sentencepiece.bpe.model)
    unk = 3 (sentencepiece.bpe.model)
    sep = 2 (sentencepiece.bpe.model)
    pad = 1 (sentencepiece.bpe.model)
    cls = 0 (sentencepiece.bpe.model)
    mask = 6 (sentencepiece.bpe.model)
    ");
    // mBART's rows after the pieces are languages, which its file does not name.
    for text in [r#"{"vocab_size": 8, "bos_token_id": 0}"#, "{}"] {
        let (_folder, store) = beside(&[(name, file.clone()), config(text)]);
        let tokenizer = store.tokenizer().expect("a sound tokenizer").expect("a tokenizer");
        assert_eq!((tokenizer.len(), tokenizer.special("mask")), (6, None), "{text}");
    }
    // CamemBERT's order has four more numbers before the pieces.
    let (folder, store) = beside(&[(name, file.clone()), config(r#"{"bos_token_id": 5}"#)]);
    assert_snapshot!(refused(&store, folder.path()), @"
    Unsupported: ./sentencepiece.bpe.model: config.json numbers the first token 5, but in fairseq's order it is 0
    help: save the tokenizer as tokenizer.json with transformers
    ");
    // A tokenizer.json beside it is the more complete one.
    let (_folder, store) = beside(&[(name, file), ("vocab.txt", b"a\nb\n".to_vec())]);
    assert_eq!(store.tokenizer().expect("sound").expect("a tokenizer").len(), 6);
}

#[test]
fn metadata() {
    let keys = [
        ("tokenizer.ggml.model", Kv::text("llama")),
        ("tokenizer.ggml.pre", Kv::text("default")),
        (
            "tokenizer.ggml.tokens",
            Kv::Array(8, vec![Kv::text("<s>"), Kv::String(vec![0xff, b'a'])]),
        ),
        ("tokenizer.ggml.scores", Kv::Array(6, vec![Kv::F32(0.0), Kv::F32(-1.5)])),
        ("tokenizer.ggml.token_type", Kv::Array(5, vec![Kv::I32(3), Kv::I32(77)])),
        ("tokenizer.ggml.merges", Kv::texts(&["a b", " a c", "x"])),
        ("tokenizer.ggml.bos_token_id", Kv::U32(0)),
        ("tokenizer.ggml.eos_token_id", Kv::U64(2)),
        ("tokenizer.ggml.padding_token_id", Kv::I32(-1)),
        ("tokenizer.ggml.seperator_token_id", Kv::U8(1)),
        ("tokenizer.ggml.add_bos_token", Kv::Bool(true)),
        ("tokenizer.chat_template.rag", Kv::text("{{ r }}")),
        ("tokenizer.chat_template", Kv::text("{{ m }}")),
        ("tokenizer.chat_templates", Kv::texts(&["rag"])),
    ];
    let store = gguf(&keys);
    assert_snapshot!(said(&store), @r"
    sentencepiece (tokenizer.ggml.model)
    0: <s> 0 Control
    1: \xffa -1.5
    a+b
     a+c
    x+
    bos = 0 (tokenizer.ggml.bos_token_id)
    sep = 1 (tokenizer.ggml.seperator_token_id)
    adds bos: true (tokenizer.ggml.add_bos_token)
    template rag: {{ r }} (tokenizer.chat_template.rag)
    template -: {{ m }} (tokenizer.chat_template)
    ");
    let tokenizer = store.tokenizer().expect("a tokenizer").expect("one");
    assert_eq!(tokenizer.chat_template(), Some("{{ m }}"));
    assert_eq!(tokenizer.pre.as_ref().map(|pre| pre.value.as_str()), Some("default"));

    let fault = |key: &str, value: Kv| {
        let mut keys = keys.to_vec();
        keys.retain(|(other, _)| *other != key);
        keys.push((key, value));
        refused(&gguf(&keys), Path::new("nowhere"))
    };
    assert_snapshot!(fault("tokenizer.ggml.tokens", Kv::U32(5)), @r#"Malformed: file: key "tokenizer.ggml.tokens": 5, but an array of strings is needed"#);
    assert_snapshot!(fault("tokenizer.ggml.tokens", Kv::Array(4, vec![Kv::U32(5)])), @r#"Malformed: file: key "tokenizer.ggml.tokens": [1 elements], but an array of strings is needed"#);
    assert_snapshot!(fault("tokenizer.ggml.scores", Kv::Array(6, vec![Kv::F32(0.0)])), @r#"Malformed: file: key "tokenizer.ggml.scores": 1 elements, but there are 2 tokens"#);
    assert_snapshot!(fault("tokenizer.ggml.token_type", Kv::texts(&["a", "b"])), @r#"Malformed: file: key "tokenizer.ggml.token_type": [2 elements], but an array of integers is needed"#);
    assert_snapshot!(fault("tokenizer.ggml.bos_token_id", Kv::text("<s>")), @r#"Malformed: file: key "tokenizer.ggml.bos_token_id": "<s>", but a token number is needed"#);
    assert_snapshot!(fault("tokenizer.ggml.add_eos_token", Kv::U8(1)), @r#"Malformed: file: key "tokenizer.ggml.add_eos_token": 1, but true or false is needed"#);
    assert_snapshot!(fault("tokenizer.chat_template", Kv::U8(1)), @r#"Malformed: file: key "tokenizer.chat_template": 1, but text is needed"#);

    // The text of a tokenizer.json, where there is nothing else.
    let store = gguf(&[("tokenizer.huggingface.json", Kv::text(BPE))]);
    assert_eq!(store.tokenizer().expect("a tokenizer").map(|found| found.len()), Some(7));
}

#[test]
fn faults_of_files() {
    let fault = |name: &str, bytes: &[u8]| {
        let (folder, store) = beside(&[(name, bytes)]);
        refused(&store, folder.path())
    };
    assert_snapshot!(fault("tokenizer.json", b""), @"Malformed: ./tokenizer.json: not valid JSON: the text ends where '{' is expected (at byte 0)");
    assert_snapshot!(fault("tokenizer.json", b"{\"model\": {\"vocab\": {\"a\": -1}}}"), @"Malformed: ./tokenizer.json: not valid JSON: a non-negative integer expected here, found '-' (at byte 26)");
    assert_snapshot!(fault("tokenizer.json", b"{\"model\": {\"vocab\": {\"a\": 4294967296}}}"), @"Malformed: ./tokenizer.json: token number 4294967296, but it must fit in 32 bits (at byte 36)");
    assert_snapshot!(fault("tokenizer.json", b"{\"model\": {\"vocab\": {\"a\": 1, \"b\": 1}}}"), @r#"Malformed: ./tokenizer.json: two tokens have the number 1: "a" and "b""#);
    assert_snapshot!(fault("tokenizer.json", b"{\"model\": {\"vocab\": {\"\\x\": 1}}}"), @"Malformed: ./tokenizer.json: not valid JSON: a string with an invalid escape (at byte 22)");
    assert_snapshot!(fault("tokenizer.json", b"{\"model\": {\"vocab\": [[\"a\", \"b\"]]}}"), @"Malformed: ./tokenizer.json: not valid JSON: a number expected here, found ']' (at byte 30)");
    assert_snapshot!(fault("tokenizer.json", b"{\"model\": {\"merges\": [[\"a\"]]}}"), @"Malformed: ./tokenizer.json: not valid JSON: ',' expected here, found ']' (at byte 26)");
    assert_snapshot!(fault("tokenizer.json", b"{\"added_tokens\": [{\"id\": 1}]}"), @"Malformed: ./tokenizer.json: this added token has no id or no content (at byte 27)");
    assert_snapshot!(fault("tokenizer.json", b"{}"), @"Malformed: ./tokenizer.json: the tokenizer has no model (at byte 2)");
    assert_snapshot!(fault("tokenizer.json", b"{\"model\": {}} x"), @"Malformed: ./tokenizer.json: not valid JSON: its end expected here, found 'x' (at byte 14)");
    assert_snapshot!(fault("tokenizer.json", b"{\"model\": \"\xff\"}"), @"Malformed: ./tokenizer.json: not valid JSON: not UTF-8 (at byte 11)");
    assert_snapshot!(fault("tokenizer.model", b""), @"Malformed: ./tokenizer.model: no pieces: this is not a SentencePiece model (at byte 0)");
    assert_snapshot!(fault("tokenizer.model", b"\x0a\xff\xff\xff\xff\x0f"), @"
    Malformed: ./tokenizer.model: 4294967295 bytes, but the message ends after 0 (at byte 6)
    help: the file is incomplete or not a SentencePiece model: download it again
    ");
    assert_snapshot!(fault("tokenizer.model", b"\x0a\x02\x0a\x7f"), @"
    Malformed: ./tokenizer.model: 127 bytes, but the message ends after 0 (at byte 4)
    help: the file is incomplete or not a SentencePiece model: download it again
    ");
    assert_snapshot!(fault("tokenizer.model", b"\x0b"), @"Malformed: ./tokenizer.model: unsupported protocol buffer wire type: 3 (at byte 1)");
    assert_snapshot!(fault("tokenizer.model", b"\x0a\x02\x08\x01"), @"Malformed: ./tokenizer.model: field 1 has the wrong wire type (at byte 4)");
    assert_snapshot!(fault("tokenizer.model", &[0xff; 12]), @"Malformed: ./tokenizer.model: the number does not fit in 64 bits (at byte 10)");
}

/// Opening reads none of these files, so a broken one costs nothing but itself.
#[test]
fn files_are_read_when_asked_for() {
    let (folder, store) =
        beside(&[("tokenizer.json", BPE), ("generation_config.json", "{\"top_k\"")]);
    assert!(store.notes().is_empty());
    assert!(store.tokenizer().expect("a tokenizer").is_some());
    let error = store.generation_config().expect_err("half a file");
    assert_snapshot!(without_path(&told(&error), folder.path()), @"
    Malformed: ./generation_config.json: not valid JSON: the text ends where ':' is expected at line 1 column 9
    help: correct the file or fetch it again
    ");
    std::fs::remove_file(folder.path().join("tokenizer.json")).expect("it was there");
    assert!(store.tokenizer().expect("no fault").is_none());
}

#[test]
fn settings_for_generating() {
    let said = |store: &Model| {
        let found = store.generation_config().expect("sound settings").expect("settings");
        format!("{found:#?}").replace("    ", " ")
    };
    let text = json!({
        "temperature": 0.6, "top_k": 20, "eos_token_id": [5, 6], "pad_token_id": null,
        "do_sample": true, "transformers_version": "5.0",
    });
    let (_folder, store) = beside(&[("generation_config.json", text.to_string())]);
    let found = store.generation_config().expect("sound settings").expect("settings");
    assert_eq!(found.eos.as_ref().map(|eos| eos.value.clone()), Some(vec![5, 6]));
    assert_snapshot!(said(&store), @r#"
    GenerationConfig {
     do_sample: Some(
      Field {
       value: true,
       source: "generation_config.json do_sample",
      },
     ),
     temperature: Some(
      Field {
       value: 0.6,
       source: "generation_config.json temperature",
      },
     ),
     top_k: Some(
      Field {
       value: 20,
       source: "generation_config.json top_k",
      },
     ),
     top_p: None,
     min_p: None,
     repetition_penalty: None,
     max_new_tokens: None,
     bos: None,
     eos: Some(
      Field {
       value: [
        5,
        6,
       ],
       source: "generation_config.json eos_token_id",
      },
     ),
     pad: None,
     stop: None,
     other: {
      "transformers_version": String("5.0"),
     },
    }
    "#);
    let store =
        gguf(&[("general.sampling.temp", Kv::F32(0.5)), ("general.sampling.mirostat", Kv::I32(2))]);
    let found = store.generation_config().expect("sound settings").expect("settings");
    assert_eq!(
        found.temperature.map(|field| (field.value, field.source.to_string())),
        Some((0.5, "general.sampling.temp".to_owned()))
    );
    assert_eq!(found.other.get("mirostat"), Some(&json!(2)));
    let (folder, store) = beside(&[("generation_config.json", "{\"top_k\": 1.5}")]);
    let error = store.generation_config().expect_err("no count");
    assert_snapshot!(without_path(&told(&error), folder.path()), @r#"Malformed: .: key "generation_config.json top_k": 1.5, but a count is needed"#);
    assert!(gguf(&[]).generation_config().expect("no fault").is_none());
}

/// The same tokenizer in GGUF and beside safetensors.
#[test]
fn containers_agree() {
    let (Some(hf), Some(gguf)) = (model("sample/hf"), model("sample/sample-Q8_0.gguf")) else {
        return;
    };
    let (hf, gguf) = (hf.tokenizer().expect("a tokenizer"), gguf.tokenizer().expect("a tokenizer"));
    let (hf, gguf) = (hf.expect("one"), gguf.expect("one"));
    assert_eq!(hf.kind.value, gguf.kind.value);
    assert_eq!(hf.len(), 512);
    assert!(hf.tokens().map(|token| token.text).eq(gguf.tokens().map(|token| token.text)));
    assert!(hf.merges().eq(gguf.merges()));
    for name in ["bos", "eos"] {
        assert_eq!(hf.special(name), gguf.special(name), "{name}");
    }
}

#[test]
fn real_vocabularies() {
    let Some(bpe) = model("gguf/vocab/ggml-vocab-deepseek-coder.gguf") else { return };
    let tokenizer = bpe.tokenizer().expect("a tokenizer").expect("one");
    assert_eq!((tokenizer.tokens().count(), tokenizer.merges().count()), (32256, 31757));
    assert!(tokenizer.merges().all(|(first, second)| !first.is_empty() && !second.is_empty()));
    let Some(spm) = model("gguf/vocab/ggml-vocab-llama-spm.gguf") else { return };
    let tokenizer = spm.tokenizer().expect("a tokenizer").expect("one");
    let bytes =
        tokenizer.tokens().filter(|t| t.kind == Some(weighbridge::tokenizer::TokenKind::Byte));
    assert_eq!((bytes.count(), tokenizer.merges().count()), (256, 0));
}

/// Walks over all that a tokenizer has, or looks at the error.
fn walk(name: &str, bytes: &[u8]) {
    let (_folder, store) = beside(&[(name, bytes)]);
    match store.tokenizer() {
        Ok(Some(tokenizer)) => {
            assert_eq!(tokenizer.tokens().count() as u64, tokenizer.len());
            assert!(tokenizer.merges().count() as u64 <= bytes.len() as u64);
        }
        Ok(None) => {}
        Err(error) => assert!(error.path().is_some(), "{error}"),
    }
}

#[test]
fn cut_anywhere() {
    for (name, bytes) in [("tokenizer.json", BPE.as_bytes()), ("tokenizer.model", &sentencepiece())]
    {
        for end in 0..bytes.len() {
            walk(name, &bytes[..end]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn changed_anywhere(place in any::<prop::sample::Index>(), byte in any::<u8>(), json in any::<bool>()) {
        let (name, mut bytes) = match json {
            true => ("tokenizer.json", BPE.as_bytes().to_vec()),
            false => ("tokenizer.model", sentencepiece()),
        };
        let place = place.index(bytes.len());
        bytes[place] = byte;
        walk(name, &bytes);
    }
}

/// A tokenizer.json beside the weights is given as it is; beside a GGUF file it belongs to another model.
#[test]
fn the_file_beside_the_weights_is_the_tokenizer() {
    let (folder, model) = beside(&[("tokenizer.json", BPE)]);
    let expected = weighbridge::json::Json::parse(BPE.as_bytes()).expect("JSON");
    assert_eq!(translate::tokenizer_json(&model).expect("JSON"), Some(expected));
    put(folder.path(), "tokenizer.json", "{\"model\":");
    let model = Model::open(folder.path()).expect("a model");
    let fault = told(&translate::tokenizer_json(&model).expect_err("a fault"));
    assert!(fault.contains("tokenizer.json: not valid JSON: the text ends"), "{fault}");

    let file = Gguf::new()
        .key("tokenizer.ggml.model", Kv::text("gpt2"))
        .key("tokenizer.ggml.tokens", Kv::texts(&["a", "b"]))
        .tensor("t", DType::F32, &[1], f32s(&[1.0]));
    put(folder.path(), "model.gguf", file.build());
    let model = Model::open(folder.path().join("model.gguf")).expect("a model");
    let made = translate::tokenizer_json(&model).expect("JSON").expect("a tokenizer");
    assert_eq!(made["model"]["vocab"], json!({"a": 0, "b": 1}));
}

/// A number of ten bytes has one bit in the last.
#[test]
fn numbers_beyond_64_bits() {
    let file = |last: u8| {
        let number = [&[0x18][..], &[0xff; 9], &[last]].concat();
        [piece("<unk>", 0.0, Some(2)), field(2, &number)].concat()
    };
    let (folder, store) = beside(&[("tokenizer.model", file(2))]);
    let fault = refused(&store, folder.path());
    assert!(fault.contains("the number does not fit in 64 bits"), "{fault}");
    let (_folder, store) = beside(&[("tokenizer.model", file(1))]);
    let largest = store.tokenizer().expect("a number").expect("a tokenizer");
    assert_eq!(largest.kind.value.name(), u64::MAX.to_string());
}

/// llama.cpp takes tokens 1 and 2 around a text where a file with SentencePiece's tokens names none.
#[test]
fn tokens_around_a_text_that_no_key_names() {
    let texts = ["<unk>", "<s>", "</s>", "a"];
    let model = |name: &str, kinds: [i32; 4]| {
        gguf(&[
            ("tokenizer.ggml.model", Kv::text(name)),
            ("tokenizer.ggml.tokens", Kv::texts(&texts)),
            ("tokenizer.ggml.scores", Kv::Array(6, vec![Kv::F32(0.0); 4])),
            ("tokenizer.ggml.token_type", Kv::Array(5, kinds.map(Kv::I32).to_vec())),
        ])
    };
    let around = |model: &Model| {
        let tokenizer = model.tokenizer().expect("read").expect("a tokenizer");
        ["bos", "eos"].map(|name| tokenizer.special(name))
    };
    assert_eq!(around(&model("llama", [2, 3, 3, 1])), [Some(1), Some(2)]);
    assert_eq!(around(&model("llama", [2, 3, 1, 1])), [Some(1), None]);
    assert_eq!(around(&model("gpt2", [2, 3, 3, 1])), [None, None]);
}

/// llama.cpp aborts at the first text.
#[test]
fn tokens_of_bpe_under_the_name_of_sentencepiece() {
    let notes = |name: &str, texts: &[&str]| {
        let model = gguf(&[
            ("tokenizer.ggml.model", Kv::text(name)),
            ("tokenizer.ggml.tokens", Kv::texts(texts)),
            ("tokenizer.ggml.scores", Kv::Array(6, vec![Kv::F32(0.0); texts.len()])),
        ]);
        ops::check_consistency(&model, Strictness::Default).expect("checked").notes.join("; ")
    };
    assert!(notes("llama", &["<s>", "\u{120}a", "b"]).contains("none stands for a byte"));
    for (name, texts) in [
        ("llama", ["<s>", "\u{120}a", "<0x0A>"]),
        ("llama", ["<s>", "\u{2581}a", "b"]),
        ("gpt2", ["<s>", "\u{120}a", "b"]),
    ] {
        assert!(!notes(name, &texts).contains("stands for a byte"), "{name} {texts:?}");
    }
}
