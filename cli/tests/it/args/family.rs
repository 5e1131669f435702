//! `--family`: families that a file describes.

use std::path::Path;

use crate::support;
use crate::support::{json, printed, refused, run};
use weighbridge::{DType, Model};

/// A family that nobody has, written by `families/README.md` alone: names of its own, a gate that is stored
/// with the matrix next to it, norms with 1 added, and two tensors and a config key that no other family has.
const TERN: &str = r#"
[canonical layers]
layers.{n}.attention.tide.weight  matrix  queries,head_dim  required

[canonical output]
output.warmth  vector  scalar  required

[tensors tern]
output.warmth                       output.warmth               trunk.warmth
layers.{n}.attention.tide.weight    blk.{n}.attn_tide.weight    trunk.stage.{n}.tide.weight
token_embedding.weight              token_embd.weight           trunk.words.weight
output_norm.weight                  output_norm.weight          trunk.calm.weight                hf:plus_one
layers.{n}.attention_norm.weight    blk.{n}.attn_norm.weight    trunk.stage.{n}.calm.weight      hf:plus_one
layers.{n}.attention.q.weight       blk.{n}.attn_q.weight       trunk.stage.{n}.ask.weight
layers.{n}.attention.k.weight       blk.{n}.attn_k.weight       trunk.stage.{n}.key.weight
layers.{n}.attention.v.weight       blk.{n}.attn_v.weight       trunk.stage.{n}.say.weight
layers.{n}.attention.output.weight  blk.{n}.attn_output.weight  trunk.stage.{n}.sum.weight
layers.{n}.ffn_norm.weight          blk.{n}.ffn_norm.weight     trunk.stage.{n}.calm_net.weight  hf:plus_one
layers.{n}.ffn.gate.weight          blk.{n}.ffn_gate.weight     trunk.stage.{n}.wide.weight      hf:half.first
layers.{n}.ffn.up.weight            blk.{n}.ffn_up.weight       trunk.stage.{n}.wide.weight      hf:half.second
layers.{n}.ffn.down.weight          blk.{n}.ffn_down.weight     trunk.stage.{n}.narrow.weight

[family tern]
summary  Tern
rope     half_split
tensors  tern
reads    dim trunk_width

[decoder]
logits   gained output.warmth

[gguf tern]
hf            tern
gguf-default  activation "silu"
keys          base heads llama/llama

[class tern TernForCausalLM]
config  body dense grouped rms heads silu
field   dim trunk_width
"#;

/// The names of Tern, and the canonical names of what is stored under them.
const NAMES: &[(&str, &[&str])] = &[
    ("trunk.words", &["token_embedding"]),
    ("trunk.calm", &["output_norm"]),
    ("trunk.stage.{n}.calm", &["layers.{n}.attention_norm"]),
    ("trunk.stage.{n}.ask", &["layers.{n}.attention.q"]),
    ("trunk.stage.{n}.key", &["layers.{n}.attention.k"]),
    ("trunk.stage.{n}.say", &["layers.{n}.attention.v"]),
    ("trunk.stage.{n}.sum", &["layers.{n}.attention.output"]),
    ("trunk.stage.{n}.calm_net", &["layers.{n}.ffn_norm"]),
    ("trunk.stage.{n}.wide", &["layers.{n}.ffn.gate", "layers.{n}.ffn.up"]),
    ("trunk.stage.{n}.narrow", &["layers.{n}.ffn.down"]),
];

/// The tensors that only Tern has, with their shapes. The factor of the output is 1.
const OWN: &[(&str, &[usize])] = &[
    ("trunk.warmth", &[]),
    ("trunk.stage.0.tide.weight", &[256, 64]),
    ("trunk.stage.1.tide.weight", &[256, 64]),
];

/// The sample under the names of Tern, with its values in F32. `own` are the shapes of the tensors that only Tern has, by
/// name.
fn tern(folder: &Path, own: &[(&str, &[usize])]) {
    std::fs::create_dir(folder).expect("a folder");
    let sample = support::root().join("assets/sample/hf");
    let model = Model::open(&sample).expect("the sample");
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    let mut put = |name: String, canonical: Vec<String>| {
        let (start, mut rows, mut columns) = (data.len(), 0, None);
        for canonical in canonical {
            let tensor = model.tensor(&format!("{canonical}.weight")).expect("a tensor");
            let added = f32::from(u8::from(tensor.shape().len() == 1));
            let values = tensor.to_vec::<f32>().expect("values");
            data.extend(values.iter().flat_map(|value| (value + added).to_le_bytes()));
            rows += tensor.shape()[0];
            columns = tensor.shape().get(1).copied();
        }
        let shape: Vec<u64> = [Some(rows), columns].into_iter().flatten().collect();
        let offsets = [start, data.len()];
        let entry = serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": offsets});
        header.insert(format!("{name}.weight"), entry);
    };
    for (name, canonical) in NAMES {
        let layers = if name.contains("{n}") { 0..2 } else { 0..1 };
        for layer in layers {
            let of_layer = |name: &str| name.replace("{n}", &layer.to_string());
            put(of_layer(name), canonical.iter().map(|name| of_layer(name)).collect());
        }
    }
    for (name, shape) in own {
        let start = data.len();
        let count = shape.iter().product();
        let values = [1f32, 2.0, 3.0, 4.0, 5.0].into_iter().cycle();
        data.extend(values.take(count).flat_map(f32::to_le_bytes));
        let offsets = [start, data.len()];
        let entry = serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": offsets});
        header.insert((*name).to_owned(), entry);
    }
    header.insert("__metadata__".to_owned(), serde_json::json!({"format": "pt"}));
    let header = serde_json::Value::Object(header).to_string();
    for (name, bytes) in support::contents(&sample) {
        let bytes = match name.as_str() {
            "model.safetensors" => support::safetensors(&header, &data),
            "config.json" => {
                let text = String::from_utf8(bytes).expect("UTF-8");
                let text = text.replace("\"llama\"", "\"tern\"");
                text.replace("\"hidden_size\"", "\"trunk_width\"").into_bytes()
            }
            _ => bytes,
        };
        std::fs::write(folder.join(name), bytes).expect("a file");
    }
}

/// Every verb works with the family, and the decoder computes what it computes of the sample.
#[test]
fn a_family_that_nobody_has_works_in_every_verb() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    tern(Path::new(&path("tern")), OWN);
    std::fs::write(path("tern.family"), TERN).expect("a file");
    std::fs::write(path("text.txt"), "Once upon a time").expect("a file");
    // A word that begins with `/` is a file in the folder.
    let ran = |line: &str| {
        let word = |word: &str| word.strip_prefix('/').map_or(word.to_owned(), path);
        let line: Vec<String> =
            format!("{line} --family /tern.family").split(' ').map(word).collect();
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let ran = run(&words);
        assert_eq!(ran.status, Some(0), "{words:?}: {}", ran.err);
        ran.out
    };
    for line in [
        "inspect /tern",
        "inspect --config /tern",
        "verify /tern --deep",
        "hash /tern",
        "bench /tern",
        "dump /tern trunk.calm.weight",
        "memory /tern",
        "run embed /tern --ids 1,2",
        "view /tern -o /tern.html",
        "convert /tern /tern.gguf --to gguf",
        "convert /tern /mlx --to mlx --allow-incomplete",
        "convert /tern.gguf /back --to safetensors",
        "meta get /tern.gguf general.name",
        "quantize /tern /q8.gguf --type Q8_0",
        "quantize /tern /mlx4 --mlx 4 --allow-incomplete",
        "quality /tern /q8.gguf --text /text.txt",
        "job plan convert /tern /planned.gguf --to gguf --output /plan.json",
        "split /tern.gguf /parts --max-tensors 9",
        "merge /parts-00001-of-00003.gguf /merged.gguf",
    ] {
        ran(line);
    }
    let sample = "assets/sample/hf";
    let expected = printed(&["run", "logits", sample, "--ids", "1,2,3"]);
    for model in ["/tern", "/tern.gguf", "/mlx", "/back", "/merged.gguf"] {
        ran(&format!("verify {model} --deep"));
        ran(&format!("diff /tern {model}"));
        assert_eq!(ran(&format!("run logits {model} --ids 1,2,3")), expected, "{model}");
    }
    for model in ["/mlx", "/back"] {
        let config = std::fs::read_to_string(path(&model[1..]) + "/config.json").expect("a config");
        assert!(config.contains("\"trunk_width\": 256"), "{config}");
    }
    let words = ["run", "generate", sample, "--prompt", "Once", "--max-tokens", "8"];
    assert_eq!(ran("run generate /tern.gguf --prompt Once --max-tokens 8"), run(&words).out);
    let q8 = Model::open(path("q8.gguf")).expect("a model");
    assert_eq!(
        q8.stored_tensor("blk.0.ffn_up.weight").expect("a tensor").dtype().expect("a dtype"),
        DType::Q8_0
    );
}

/// A family's own rows say which of its own tensors a model needs, and their shapes.
#[test]
fn faults_of_tensors_that_no_other_family_has_are_found() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let family = path("tern.family");
    std::fs::write(&family, TERN).expect("a file");
    let faults = |name: &str, own: &[(&str, &[usize])]| {
        let model = path(name);
        tern(Path::new(&model), own);
        let ran = run(&["verify", &model, "--family", &family]);
        assert_eq!(ran.status, Some(1), "{}{}", ran.out, ran.err);
        ran.out
    };
    let missing = faults("missing", &OWN[1..]);
    assert!(missing.contains("output.warmth"), "{missing}");
    let mut own = OWN.to_vec();
    own[1].1 = &[255, 64];
    let shape = faults("shape", &own);
    let expected = "layers.0.attention.tide.weight: the shape is [255, 64], but n_heads";
    assert!(shape.contains(expected), "{shape}");
}

#[test]
fn a_file_describes_a_family_that_is_not_built_in() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (model, family) = (path("boreal"), path("boreal.family"));
    std::fs::create_dir(&model).expect("a folder");
    for (name, bytes) in support::contents(&support::root().join("assets/sample/hf")) {
        let bytes = match name.as_str() {
            "config.json" => {
                let text = String::from_utf8(bytes).expect("UTF-8");
                text.replace("\"llama\"", "\"boreal\"").into_bytes()
            }
            _ => bytes,
        };
        std::fs::write(path("boreal") + "/" + &name, bytes).expect("a copy");
    }
    let names = "[family boreal]\nhf boreal\nrope half_split\ntensors decoder\n";
    std::fs::write(&family, names).expect("a file");

    assert_eq!(json(&["inspect", &model, "--json"])["architecture"], serde_json::Value::Null);
    assert_eq!(json(&["inspect", &model, "--json", "--family", &family])["architecture"], "boreal");

    // It converts as any other.
    let to = path("mlx");
    let words = ["convert", &model, &to, "--to", "mlx", "--allow-incomplete", "--family", &family];
    assert_eq!(run(&words).status, Some(0));

    std::fs::write(&family, "[family boreal]\ncolour red\n").expect("a file");
    let message = refused(&["inspect", &model, "--family", &family]);
    assert!(
        message.contains("boreal.family: line 2: colour: no such line of a family"),
        "{message}"
    );
}
