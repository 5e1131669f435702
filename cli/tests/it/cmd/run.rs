//! `logits` and `generate`: the sample runs, from each of its containers.

use crate::support;
use crate::support::{printed, refused, run};

const FORMS: [&str; 2] = ["assets/sample/hf", "assets/sample/sample-Q8_0.gguf"];

#[test]
fn the_sample_tells_a_tale_from_each_container() {
    for form in FORMS {
        let text = |words: &[&str]| {
            let ran = run(&[&["run", "generate", form], words].concat());
            assert_eq!(ran.status, Some(0), "{}", ran.err);
            assert!(ran.err.starts_with("note: 6 prompt tokens, the first token after "));
            assert!(ran.err.contains(" a second"), "{}", ran.err);
            ran.out
        };
        let tale = text(&["--ids", "0,422,419,260,423,13"]);
        assert_eq!(text(&["--prompt", "<s>Once upon a time,"]), tale, "{form}");
        assert!(tale.starts_with(" Milo had a tall truck full of bells."), "{form}: {tale}");
        assert!(tale.ends_with("Milo was calm and nodded. The end.\n"), "{form}: {tale}");
    }
}

#[test]
fn ids_are_printed_alone() {
    for form in FORMS {
        let ids = ["run", "generate", form, "--ids", "0,422,419,260,423,13", "--print-ids"];
        let few = printed(&[&ids[..], &["--max-tokens", "4"]].concat());
        assert_eq!(few, "222,486,421,260\n");
        // The text ends by itself, unless it may not.
        let end = printed(&[&ids[..], &["--max-tokens", "200"]].concat());
        let on = printed(&[&ids[..], &["--max-tokens", "200", "--ignore-eos"]].concat());
        let count = |list: &str| list.split(',').count();
        assert!(count(&end) < 120 && count(&on) == 200, "{end}\n{on}");
        assert!(on.starts_with(end.trim_end()), "{end}\n{on}");
    }
}

/// A tokenizer.json of blocks and byte tokens says how tokens become text, not its kind.
#[test]
fn blocks_become_spaces_from_each_container() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = folder.path().join("model");
    std::fs::create_dir(&model).expect("a folder");
    for name in ["config.json", "model.safetensors"] {
        let from = support::root().join(FORMS[0]).join(name);
        std::fs::copy(from, model.join(name)).expect("a copy");
    }
    let words = ["<unk>".to_owned(), "<s>".to_owned(), "</s>".to_owned()].into_iter();
    let words = words.chain((0..256).map(|byte| format!("<0x{byte:02X}>")));
    let words = words.chain((259..512).map(|n| format!("{}w{n}", ["\u{2581}", ""][n % 2])));
    let vocabulary: serde_json::Map<String, serde_json::Value> =
        (0..).zip(words).map(|(id, word)| (word, serde_json::json!(id))).collect();
    let added = |id: u32, content: &str| {
        serde_json::json!({
            "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true,
        })
    };
    let block = serde_json::json!({"String": "\u{2581}"});
    let tokenizer = serde_json::json!({
        "version": "1.0", "pre_tokenizer": null, "post_processor": null,
        "added_tokens": [added(0, "<unk>"), added(1, "<s>"), added(2, "</s>")],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u{2581}"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"},
        ]},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": block, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]},
        "model": {
            "type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
            "vocab": vocabulary, "merges": [],
        },
    });
    std::fs::write(model.join("tokenizer.json"), tokenizer.to_string()).expect("written");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    for words in [&["model.gguf"][..], &["mlx", "--to", "mlx"]] {
        let ran = run(&[&["convert", &path("model"), &path(words[0])], &words[1..]].concat());
        assert_eq!(ran.status, Some(0), "{}", ran.err);
    }
    let written = |name: &str| {
        let path = path(name);
        let words = ["--ids", "1,422,419", "--max-tokens", "60", "--ignore-eos"];
        let ran = run(&[&["run", "generate", &path], &words[..]].concat());
        assert_eq!(ran.status, Some(0), "{}", ran.err);
        ran.out
    };
    let text = written("model");
    assert!(text.contains(" w") && !text.contains('\u{2581}') && !text.contains("<0x"), "{text}");
    assert!(!text.starts_with(' '), "{text}");
    assert_eq!(written("model.gguf"), text);
    assert_eq!(written("mlx"), text);
    let (a, b) = (path("model"), path("model.gguf"));
    let ran = run(&["quality", &a, &b, "--ids", "1,422,419,260,423,13,300,301", "--json"]);
    assert!(ran.out.contains(" w") && !ran.out.contains('\u{2581}'), "{}", ran.out);
}

#[test]
fn a_chat_needs_a_template_and_uses_it() {
    let words = ["run", "generate", FORMS[0], "--prompt", "Once upon a time,", "--print-ids"];
    let refuse = refused(&[&words[..], &["--system", "Be brief."]].concat());
    assert!(refuse.starts_with("4\n") && refuse.contains("has no chat template"), "{refuse}");
    let ran = run(&[&words[..], &["--chat"]].concat());
    assert_eq!(ran.out, printed(&words));
    assert!(ran.err.contains("the prompt is continued as it is"), "{}", ran.err);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = folder.path().join("model");
    std::fs::create_dir(&model).expect("a folder");
    for entry in std::fs::read_dir(support::root().join(FORMS[0])).expect("the sample") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), model.join(entry.file_name())).expect("a copy");
    }
    let template = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}";
    std::fs::write(model.join("chat_template.jinja"), template).expect("written");
    let model = model.to_str().expect("a path");
    let ids = ["--print-ids", "--max-tokens", "4"];
    let chat =
        ["run", "generate", model, "--chat", "--system", "Once upon ", "--prompt", "a time,"];
    let plain = |model| ["run", "generate", model, "--prompt", "<s>Once upon a time,"];
    let expected = printed(&[&plain(FORMS[0])[..], &ids].concat());
    assert_eq!(printed(&[&chat[..], &ids].concat()), expected);
    // As `ollama run` and llama-cli do; -no-cnv continues the prompt.
    let short = ["run", model, "--system", "Once upon ", "a time,"];
    assert_eq!(printed(&[&short[..], &ids].concat()), expected);
    let raw = ["llama-cli", "-m", model, "-p", "<s>Once upon a time,", "-no-cnv"];
    assert_eq!(run(&[&raw[..], &ids].concat()).out, expected);
    let ran = run(&[&plain(model)[..], &ids].concat());
    assert_eq!((ran.status, ran.out), (Some(0), expected));
    assert!(ran.err.contains("--chat puts it into the model's chat template"), "{}", ran.err);
}

/// A prompt `-` is standard input; a text stops before a stop word, and at a number of tokens.
#[test]
fn prompts_are_read_and_texts_stop() {
    let tale = |words: &[&str], prompt: &str| {
        let mut program = support::program(&[&["run", "generate", FORMS[1]], words].concat());
        let ran = support::fed(&mut program, prompt);
        assert_eq!(ran.status, Some(0), "{}", ran.err);
        ran.out
    };
    let all = tale(&["--prompt", "Once upon a time,"], "");
    assert_eq!(tale(&["--prompt", "-"], "Once upon a time,\n"), all);
    assert_eq!(tale(&["--prompt=-", "-n", "-1"], "Once upon a time,\n"), all);
    let stopped =
        tale(&["--prompt", "-", "--stop", "bells", "--stop", "zebra"], "Once upon a time,");
    assert_eq!(stopped, " Milo had a tall truck full of \n");
    let drawn = ["--prompt", "Once upon a time,", "--temp", "2", "--top-k", "1"];
    assert_eq!(tale(&drawn, ""), all);
    let mut program = support::program(&["run", "tokens", FORMS[1], "--text", "-", "--print-ids"]);
    assert_eq!(support::fed(&mut program, "Once upon a time,\n").out, "422,419,260,423,13\n");
    let words = ["run", "tokens", FORMS[1], "--text=Once upon a time,", "--print-ids"];
    assert_eq!(support::run(&words).out, "422,419,260,423,13\n");
    // A list begins with a dash.
    let list = tale(&["--prompt", "- one", "-n", "2"], "");
    for words in [
        &["run", FORMS[1], "-n", "2", "--", "- one"][..],
        &["run", FORMS[1], "- one", "-n", "2"],
        &["run", FORMS[1], "--prompt=- one", "-n", "2"],
        &["llama-completion", "-m", FORMS[1], "-p", "- one", "-n", "2"],
    ] {
        assert_eq!(support::run(words).out, list, "{words:?}");
    }
    let mut program = support::program(&["run", "generate", FORMS[1], "--prompt", "-"]);
    let ran = support::fed(&mut program, "");
    assert!(ran.err.contains("standard input is empty"), "{}", ran.err);
}

#[test]
fn the_same_seed_draws_the_same_tokens() {
    let draw = |seed: &str| {
        let words = ["run", "generate", FORMS[0], "--ids", "0,422", "--print-ids", "--temp", "1.5"];
        printed(&[&words[..], &["--max-tokens", "24", "--seed", seed]].concat())
    };
    assert_eq!(draw("7"), draw("7"));
    assert_ne!(draw("7"), draw("8"));
}

#[test]
fn logits_are_shown_and_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("logits.npy");
    let path = file.to_str().expect("a path");
    let words = ["run", "logits", "assets/sample/hf", "--ids", "0,422,419,260,423,13"];
    let shown = printed(&words);
    assert!(shown.starts_with("logits: 6 x 512\nPOSITION  TOKEN  "), "{shown}");
    let heads: Vec<&str> = shown.lines().nth(1).expect("heads").split_whitespace().collect();
    assert_eq!(heads[2..], ["1ST", "2ND", "3RD", "4TH", "5TH"]);
    // As transformers has them.
    assert!(shown.contains("  222: 6.5657  467: 6.0699  488: 6.0125"), "{shown}");
    assert_eq!(printed(&[&words[..], &["-o", path]].concat()), "");
    let bytes = std::fs::read(&file).expect("the file");
    assert!(bytes.starts_with(b"\x93NUMPY"));
    assert_eq!(bytes.len() % 64, 0);
    assert_eq!(bytes.len() - 6 * 512 * 4, 128);
    let again = refused(&[&words[..], &["-o", path]].concat());
    assert!(again.starts_with("2\n") && again.contains("already exists"), "{again}");
    let json = printed(&[&words[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["shape"], serde_json::json!([6, 512]));
    assert_eq!(json["values"][5].as_array().expect("a row").len(), 512);
}

/// One base for each layer, which no plan has.
#[test]
fn listed_bases_of_rotary_embeddings_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("model");
    std::fs::create_dir(&model).expect("a folder");
    for entry in std::fs::read_dir(support::root().join(FORMS[0])).expect("the sample") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), model.join(entry.file_name())).expect("a copy");
    }
    let path = model.join("config.json");
    let text = std::fs::read_to_string(&path).expect("a config");
    let mut config: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    config["rope_parameters"] =
        serde_json::json!({"rope_type": "default", "rope_theta": [1e4, 5e5]});
    config.as_object_mut().expect("an object").remove("rope_theta");
    std::fs::write(&path, config.to_string()).expect("written");
    let refusal = refused(&["run", "logits", model.to_str().expect("a path"), "--ids", "1"]);
    assert!(refusal.starts_with("4\n") && refusal.contains("listed by layer"), "{refusal}");
}

#[test]
fn what_does_not_fit_the_model_is_refused() {
    let refuse = |words: &[&str]| {
        refused(&[&["run", "logits", "assets/sample/hf", "--ids"], words].concat())
    };
    assert_eq!(refuse(&["512"]), "2\nerror: token 512, but there are 512\n");
    assert!(refuse(&["1", "--masked-head"]).contains("are for encoders of text"));
    let empty = refused(&["run", "generate", "assets/sample/hf", "--prompt", ""]);
    assert!(empty.starts_with("2\n") && empty.contains("nothing to continue"), "{empty}");
    let sound = refuse(&["1", "--features", "assets/sample/README.md"]);
    assert!(sound.starts_with("3\n") && sound.contains("no NumPy array file"), "{sound}");
}

/// A T5 of one layer each with so many tokens, and with numbers that mean nothing.
fn pair(tokens: usize) -> (tempfile::TempDir, String) {
    let config = serde_json::json!({
        "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 8, "d_ff": 16,
        "d_kv": 4, "num_heads": 2, "num_layers": 1, "num_decoder_layers": 1, "vocab_size": tokens,
        "relative_attention_num_buckets": 4, "decoder_start_token_id": 0, "eos_token_id": 1,
    });
    let mut names = vec![("shared.weight".to_owned(), vec![tokens, 8])];
    for (stack, network) in [("encoder", 1), ("decoder", 2)] {
        let block = format!("{stack}.block.0.layer");
        names.push((format!("{stack}.final_layer_norm.weight"), vec![8]));
        let attends = [("SelfAttention", 0), ("EncDecAttention", 1)].into_iter().take(network);
        for (name, place) in attends {
            names.push((format!("{block}.{place}.layer_norm.weight"), vec![8]));
            names.extend(
                ["q", "k", "v", "o"]
                    .map(|part| (format!("{block}.{place}.{name}.{part}.weight"), vec![8, 8])),
            );
        }
        let biases = format!("{block}.0.SelfAttention.relative_attention_bias.weight");
        names.push((biases, vec![4, 2]));
        names.push((format!("{block}.{network}.layer_norm.weight"), vec![8]));
        let dense = format!("{block}.{network}.DenseReluDense");
        names.push((format!("{dense}.wi.weight"), vec![16, 8]));
        names.push((format!("{dense}.wo.weight"), vec![8, 16]));
    }
    let tensors = names.into_iter().map(|(name, shape)| {
        let values = support::numbers(&name, shape.iter().product());
        (name, shape, values)
    });
    support::directory(&config, &tensors.collect::<Vec<_>>())
}

#[test]
fn a_decoder_answers_what_its_encoder_reads() {
    let (_folder, model) = pair(32);
    let generate = |words: &[&str]| {
        let all = [
            &["run", "generate", &model],
            words,
            &["--max-tokens", "4", "--ignore-eos", "--print-ids"],
        ];
        printed(&all.concat())
    };
    let answer = generate(&["--encoder-ids", "3,4,5"]);
    assert_eq!(answer.split(',').count(), 4, "{answer}");
    // The decoder starts with the token that the config names.
    assert_eq!(answer, generate(&["--encoder-ids", "3,4,5", "--ids", "0"]));
    let scores =
        |read: &str| printed(&["run", "logits", &model, "--encoder-ids", read, "--ids", "0,6"]);
    let logits = scores("3,4,5");
    assert_ne!(logits, scores("5,4,3"));
    assert!(logits.starts_with("logits: 2 x 32\n"), "{logits}");
    let first: Vec<&str> = answer.split(',').collect();
    let row = logits.lines().nth(2).expect("the first position");
    assert!(row.contains(&format!("  {}: ", first[0])), "{row} does not start with {answer}");
    let without = refused(&["run", "logits", &model, "--ids", "0,6"]);
    assert!(without.starts_with("2\n") && without.contains("give --encoder-ids"), "{without}");
    let verified = printed(&["verify", "--run", &model]);
    assert!(verified.contains("ran 64 tokens"), "{verified}");
}

/// The prompt of a model with an encoder is what the encoder reads.
#[test]
fn an_encoder_reads_the_prompt() {
    let (folder, model) = pair(512);
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        let from = support::root().join(FORMS[0]).join(name);
        std::fs::copy(from, folder.path().join(name)).expect("a copy");
    }
    let answer = |words: &[&str]| {
        let more = ["--max-tokens", "5", "--ignore-eos", "--print-ids"];
        printed(&[&["run", "generate", &model], words, &more].concat())
    };
    let read = answer(&["--prompt", "<s>Once upon a time,"]);
    assert_eq!(read, answer(&["--encoder-ids", "0,422,419,260,423,13"]));
    assert_eq!(read.split(',').count(), 5, "{read}");
    assert_ne!(read, answer(&["--prompt", "<s>Milo had a tall truck"]));
}
