//! `--shard`: what each of several ranks has, and loads.

use std::path::Path;

use crate::support::{json, printed, refused, run, without};
use insta::assert_snapshot;

const HF: &str = "assets/sample/hf";

#[test]
fn inspect_shows_who_has_what() {
    assert_snapshot!(printed(&["inspect", HF, "--shard", "tp=2,pp=2"]), @"
    assets/sample/hf
    RANK  TP  PP  TENSORS       SIZE  OF ALL
       0   0   0       10  705.0 KiB  27.5 %
       1   1   0       10  705.0 KiB  27.5 %
       2   0   1       11  705.5 KiB  27.5 %
       3   1   1       11  705.5 KiB  27.5 %

    NAME                              DTYPE      SHAPE       PART  RANKS  DIVIDED
    layers.0.attention.k.weight       BF16   128 x 256   64 x 256  0-1    outputs by key heads
    layers.0.attention.output.weight  BF16   256 x 256  256 x 128  0-1    inputs by query heads
    layers.0.attention.q.weight       BF16   256 x 256  128 x 256  0-1    outputs by query heads
    layers.0.attention.v.weight       BF16   128 x 256   64 x 256  0-1    outputs by key heads
    layers.0.attention_norm.weight    BF16         256        256  0-1    no
    layers.0.ffn.down.weight          BF16   256 x 512  256 x 256  0-1    inputs by elements
    layers.0.ffn.gate.weight          BF16   512 x 256  256 x 256  0-1    outputs by elements
    layers.0.ffn.up.weight            BF16   512 x 256  256 x 256  0-1    outputs by elements
    layers.0.ffn_norm.weight          BF16         256        256  0-1    no
    layers.1.attention.k.weight       BF16   128 x 256   64 x 256  2-3    outputs by key heads
    layers.1.attention.output.weight  BF16   256 x 256  256 x 128  2-3    inputs by query heads
    layers.1.attention.q.weight       BF16   256 x 256  128 x 256  2-3    outputs by query heads
    layers.1.attention.v.weight       BF16   128 x 256   64 x 256  2-3    outputs by key heads
    layers.1.attention_norm.weight    BF16         256        256  2-3    no
    layers.1.ffn.down.weight          BF16   256 x 512  256 x 256  2-3    inputs by elements
    layers.1.ffn.gate.weight          BF16   512 x 256  256 x 256  2-3    outputs by elements
    layers.1.ffn.up.weight            BF16   512 x 256  256 x 256  2-3    outputs by elements
    layers.1.ffn_norm.weight          BF16         256        256  2-3    no
    output_norm.weight                BF16         256        256  2-3    no
    token_embedding.weight            BF16   512 x 256  256 x 256  all    outputs by tokens, 2 ranks each
    ");
    assert_snapshot!(
        printed(&["inspect", HF, "--shard", "tp=4", "--all", "--filter", "layers.0.attention.*"]),
        @"
    assets/sample/hf
    RANK  TP  TENSORS       SIZE  OF ALL
       0   0       20  706.5 KiB  27.6 %
       1   1       20  706.5 KiB  27.6 %
       2   2       20  706.5 KiB  27.6 %
       3   3       20  706.5 KiB  27.6 %

    NAME                              DTYPE      SHAPE      PART  RANKS  DIVIDED
    layers.0.attention.k.weight       BF16   128 x 256  64 x 256  all    outputs by key heads, 2 ranks each
    layers.0.attention.output.weight  BF16   256 x 256  256 x 64  all    inputs by query heads
    layers.0.attention.q.weight       BF16   256 x 256  64 x 256  all    outputs by query heads
    layers.0.attention.v.weight       BF16   128 x 256  64 x 256  all    outputs by key heads, 2 ranks each
    "
    );
}

#[test]
fn the_parts_as_json() {
    let report =
        json(&["inspect", HF, "--shard", "tp=2", "--filter", "*.0.attention.q.*", "--json"]);
    assert_eq!(report["tensor_parallel"], 2);
    assert_eq!(report["ranks"][1]["tensor_rank"], 1);
    let [tensor] = report["tensors"].as_array().expect("tensors").as_slice() else {
        panic!("{report}")
    };
    assert_eq!(tensor["divided"], "outputs by query heads");
    let part = &tensor["parts"][1];
    assert_eq!(part["shape"], serde_json::json!([128, 256]));
    assert_eq!(part["ranges"], serde_json::json!([{"axis": 0, "start": 128, "end": 256}]));
}

#[test]
fn a_rank_loads_its_share() {
    let whole = json(&["bench", HF, "--json"]);
    let bytes = |report: &serde_json::Value| report["bytes"].as_u64().expect("a number");
    let mut all = 0;
    for rank in ["0", "1"] {
        let words = ["bench", HF, "--shard", "tp=2", "--rank", rank, "--verify", "--json"];
        let part = json(&words);
        assert_eq!(part["sharding"]["tensor"][1], 2);
        assert_eq!(part["verified"], part["buffers"]);
        all += bytes(&part);
    }
    // Norms are there twice.
    assert!(bytes(&whole) < all && all < bytes(&whole) + 10_000);
    assert!(whole.get("sharding").is_none());
    let text = printed(&["bench", HF, "--shard", "tp=2,pp=2", "--rank", "3"]);
    let text = without(&without(&text, " in ", " ("), "peak memory ", "\n");
    assert!(text.contains("\nrank 3 of 4 (tp=2,pp=2)\nloaded 11 tensors ("), "{text}");
}

/// A single shard has another name than was given, and the report has that.
#[test]
fn a_single_shard_is_reported_by_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let gguf = "assets/sample/sample-Q8_0.gguf";
    for words in [
        &["convert", gguf, &path("x.gguf"), "--max-shard-size", "4G"][..],
        &["split", gguf, &path("x"), "--max-shard-size", "4G", "--overwrite"],
    ] {
        let file = path("x-00001-of-00001.gguf");
        let plan = printed(&[words, &["--dry-run"]].concat());
        assert!(plan.starts_with(&format!("{file}\n")), "{plan}");
        let report = printed(words);
        assert!(report.starts_with(&format!("{file}: 20 tensors")), "{report}");
        assert!(Path::new(&file).is_file());
    }
}

/// Any shard stands for the model, whose copy in one file states no place in a set.
#[test]
fn shards_become_one_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let gguf = "assets/sample/sample-Q8_0.gguf";
    printed(&["split", gguf, &path("x"), "--max-tensors", "8"]);
    printed(&["split", HF, &path("y"), "--max-tensors", "8"]);
    let shard = |of: &str, number: usize| {
        path(&format!(
            "{of}-{number:05}-of-00003.{}",
            match of {
                "x" => "gguf",
                _ => "safetensors",
            }
        ))
    };
    let x = [1, 2, 3].map(|number| shard("x", number));
    let y = [1, 2, 3].map(|number| shard("y/model", number));
    let all = |verb: &'static str, shards: &[String], dst: &[&str]| -> Vec<String> {
        let words = std::iter::once(verb).chain(shards.iter().map(String::as_str));
        words.chain(dst.iter().copied()).map(str::to_owned).collect()
    };
    let (a, b, c, d) = (path("a.gguf"), path("b.gguf"), path("c.safetensors"), path("d"));
    for (words, dst, source) in [
        (all("convert", &x[..1], &[&a]), &a, gguf),
        (all("convert", &x[1..2], &[&b, "--dtype", "f16"]), &b, ""),
        (all("merge", &y, &[&c]), &c, HF),
        (all("join", &y[2..], &["-o", &d]), &d, HF),
    ] {
        printed(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let verified = json(&["verify", "--strict", dst, "--json"]);
        assert_eq!(verified["faults"], serde_json::json!([]), "{words:?}");
        assert!(!printed(&["inspect", dst, "--metadata"]).contains("split."), "{words:?}");
        if !source.is_empty() {
            // A file of weights alone has a note.
            assert_eq!(run(&["diff", source, dst]).status, Some(0), "{words:?}");
        }
    }
}

#[test]
fn what_cannot_be_shared_is_refused() {
    assert_snapshot!(refused(&["bench", HF, "--shard", "tp=2", "--rank", "2"]), @"
    2
    error: rank 2 of 2: ranks count from 0
    ");
    assert_snapshot!(refused(&["inspect", HF, "--shard", "pp=3"]), @"
    2
    error: assets/sample/hf: 2 layers cannot be divided into 3 stages
    ");
    assert_snapshot!(refused(&["inspect", HF, "--shard", "tp=3", "--filter", "*.q.*"]), @r#"
    2
    error: assets/sample/hf: tensor "layers.0.ffn.down.weight": 512 elements cannot be divided equally among 3 ranks
     help: choose a number of ranks that divides them
    "#);
    assert_snapshot!(refused(&["inspect", HF, "--shard", "dp=2"]), @r#"
    2
    error: invalid value 'dp=2' for '--shard <COUNTS>': "dp=2" is no list of ranks: expected tp=N, pp=N and ep=N, as in tp=4,pp=2
    "#);
}
