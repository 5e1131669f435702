//! Several models merged into one.

use crate::support::{Safetensors, copy_of, f32s, fixture, put, sample};
use weighbridge::adapter::Adapter;
use weighbridge::model::Part;
use weighbridge::ops::{self, ConvertOptions, MergeMethod, MergeRecipe, Setting, merge_models};
use weighbridge::write::Method;
use weighbridge::{DType, ErrorKind, Model, Result, WriteOptions};

const HF: &str = "assets/sample/hf";
const GGUF: &str = "assets/sample/sample-Q8_0.gguf";
const Q: &str = "layers.1.attention.q.weight";

fn open(path: &str) -> Model {
    Model::open(path).expect("a sample")
}

fn values(model: &Model, name: &str) -> Vec<f32> {
    model.tensor(name).expect("a tensor").to_vec().expect("values")
}

/// A recipe with F32 as its dtype, so that nothing is rounded.
fn recipe(text: &str) -> MergeRecipe {
    let open = |name: &str| Model::open(format!("assets/sample/{name}"));
    MergeRecipe::parse(&format!("dtype: float32\n{text}"), &open).expect("a recipe")
}

/// Checks a recipe on two values, for one tensor.
fn check(text: &str, name: &str, expected: impl Fn(f32, f32) -> f32) {
    let merged = merge_models(&recipe(text)).expect("a model");
    let (a, b) = (values(&open(HF), name), values(&open(GGUF), name));
    let found = values(&merged, name);
    assert_eq!(found.len(), a.len());
    for ((a, b), found) in a.iter().zip(&b).zip(&found) {
        let expected = expected(*a, *b);
        assert!((found - expected).abs() <= 1e-6 * (1.0 + expected.abs()), "{found} {expected}");
    }
}

const TWO: &str = "models:\n- model: hf\n  parameters: {weight: 3}\n- model: sample-Q8_0.gguf\n  parameters: {weight: 1}\n";

/// mergekit refuses such a recipe.
#[test]
fn a_missing_weight_is_noted() -> Result<()> {
    let noted = |text: &str| -> Result<bool> {
        let merged = merge_models(&recipe(text))?;
        let to = ConvertOptions::new(&weighbridge::container::SAFETENSORS);
        let notes = ops::convert(&merged, &to)?.notes.join("\n");
        Ok(notes.contains("sample-Q8_0.gguf no weight: it is taken as 1"))
    };
    let one = "models:\n- model: hf\n  parameters: {weight: 3}\n- model: sample-Q8_0.gguf\n";
    assert!(noted(&format!("merge_method: linear\n{one}"))?);
    assert!(!noted(&format!("merge_method: linear\n{TWO}"))?);
    assert!(!noted(&format!("merge_method: linear\n{one}parameters:\n  weight: 1\n"))?);
    // All alike, and a method that takes none.
    let none = "models: [{model: hf}, {model: sample-Q8_0.gguf}]\n";
    assert!(!noted(&format!("merge_method: linear\n{none}"))?);
    // The base has no weight.
    let base = "models: [{model: hf}, {model: sample-Q8_0.gguf, parameters: {weight: 1}}]\nbase_model: hf\n";
    assert!(!noted(&format!("merge_method: task_arithmetic\n{base}"))?);
    Ok(())
}

#[test]
fn methods() {
    let linear = format!("merge_method: linear\n{TWO}");
    check(&linear, Q, |a, b| (3.0 * a + b) / 4.0);
    check(&format!("{linear}parameters:\n  normalize: false\n"), Q, |a, b| 3.0 * a + b);
    let task = "merge_method: task_arithmetic\nbase_model: hf\nmodels:\n- model: hf\n- model: \
        sample-Q8_0.gguf\n  parameters: {weight: 0.5}\nparameters:\n  lambda: 2\n";
    check(task, Q, |a, b| a + 2.0 * (0.5 * (b - a)));
    let ties = "merge_method: ties\nbase_model: hf\nmodels:\n- model: sample-Q8_0.gguf\n  parameters: \
        {weight: 0.5, density: 1.0}\n";
    check(ties, Q, |_, b| b);
    let slerp = "merge_method: slerp\nbase_model: hf\nmodels:\n- model: hf\n- model: sample-Q8_0.gguf\n\
        parameters:\n  t:\n  - filter: self_attn\n    value: [0, 1]\n  - value: 0.5\n";
    // The models are almost the same, so that the arc is a line.
    check(slerp, Q, |_, b| b);
    check(slerp, "layers.0.attention.q.weight", |a, _| a);
    check(slerp, "layers.0.ffn.up.weight", |a, b| 0.5 * (a + b));
}

#[test]
fn ties_keeps_the_largest_differences() {
    let text = "merge_method: ties\nbase_model: hf\nmodels:\n- model: sample-Q8_0.gguf\n  parameters: \
        {weight: 1.0, density: 0.25}\n";
    let merged = merge_models(&recipe(text)).expect("a model");
    let (a, b, found) = (values(&open(HF), Q), values(&open(GGUF), Q), values(&merged, Q));
    let changed: Vec<usize> = (0..a.len()).filter(|&n| found[n] != a[n]).collect();
    assert!(changed.len() <= a.len() / 4 && changed.len() > a.len() / 5, "{}", changed.len());
    let least = changed.iter().map(|&n| (b[n] - a[n]).abs()).fold(f32::MAX, f32::min);
    let others = (0..a.len()).filter(|&n| found[n] == a[n]);
    let most = others.map(|n| (b[n] - a[n]).abs()).fold(0.0, f32::max);
    assert!(most <= least, "{most} {least}");
}

#[test]
fn dare_draws_differences() {
    let text = |method: &str, more: &str| {
        format!(
            "merge_method: {method}\nbase_model: hf\nmodels:\n- model: sample-Q8_0.gguf\n  parameters: \
             {{weight: 1.0, density: 0.25}}\n{more}"
        )
    };
    let (a, b) = (values(&open(HF), Q), values(&open(GGUF), Q));
    let sum = |values: &[f32]| values.iter().zip(&a).map(|(v, a)| (v - a).abs()).sum::<f32>();
    for (method, more, is_scaled) in [
        ("dare_linear", "", true),
        ("dare_ties", "", true),
        ("dare_linear", "parameters: {rescale: false}\n", false),
    ] {
        let merged = merge_models(&recipe(&text(method, more))).expect("a model");
        let found = values(&merged, Q);
        // What is drawn has the same factor, about 4, with which magnitudes keep their sum.
        let drawn = || (0..a.len()).filter(|&n| found[n] != a[n]);
        let drawn_before: f32 = drawn().map(|n| (b[n] - a[n]).abs()).sum();
        let factor = if is_scaled { sum(&b) / drawn_before } else { 1.0 };
        assert!(!is_scaled || (3.8..4.2).contains(&factor), "{factor}");
        for n in drawn() {
            let expected = a[n] + factor * (b[n] - a[n]);
            assert!((found[n] - expected).abs() < 1e-5, "{} {} {expected}", found[n], a[n]);
        }
        // Some differences are 0.
        let count = drawn().count();
        assert!(count > a.len() / 6 && count < a.len() / 3, "{method}: {count} of {}", a.len());
        assert_eq!(values(&merged, Q), found, "the same call draws the same");
    }
    let ties = "merge_method: ties\nbase_model: hf\nmodels:\n- model: sample-Q8_0.gguf\n  parameters: \
        {weight: 1.0, density: 0.25}\nparameters: {rescale: true}\n";
    let found = values(&merge_models(&recipe(ties)).expect("a model"), Q);
    assert!((sum(&found) / sum(&b) - 1.0).abs() < 1e-3, "the largest ones are scaled, too");
}

#[test]
fn an_arc_keeps_the_length() {
    let mut recipe = MergeRecipe::new(MergeMethod::Slerp);
    recipe.add_base(open(HF));
    recipe.add(open(GGUF), 1.0);
    recipe.settings.set("t", Setting::Number(0.25));
    let merged = merge_models(&recipe).expect("a model");
    assert_eq!(merged.tensor(Q).unwrap().dtype().unwrap(), DType::BF16, "that of the base");
    assert_eq!(merged.config().unwrap().n_layers.value, 2);
}

#[test]
fn layers_are_repeated() {
    let text = "merge_method: passthrough\nslices:\n- sources:\n  - {model: hf, layer_range: [0, 2]}\n\
        - sources:\n  - model: sample-Q8_0.gguf\n    layer_range: [1, 2]\n    parameters: {scale: 0.5}\n";
    let merged = merge_models(&recipe(text)).expect("a model");
    assert_eq!(merged.config().unwrap().n_layers.value, 3);
    assert!(merged.resolution().unwrap().missing.is_empty());
    assert_eq!(values(&merged, Q), values(&open(HF), Q));
    let halved: Vec<f32> = values(&open(GGUF), Q).iter().map(|value| value * 0.5).collect();
    assert_eq!(values(&merged, "layers.2.attention.q.weight"), halved);
}

/// Settings of slices count for the embedding and the output, a slice of one layer is at the end of a
/// gradient, and rules for a model are about its own names.
#[test]
fn settings_of_slices() {
    let text = "merge_method: linear\nslices:\n- sources:\n  - {model: hf, layer_range: [1, 2], parameters: {weight: \
        [0, 1]}}\n  - model: sample-Q8_0.gguf\n    layer_range: [0, 1]\n    parameters:\n      weight:\n      - \
        {filter: layers.0., value: 3}\n      - value: 0.5\nparameters: {normalize: false}\n";
    let merged = merge_models(&recipe(text)).expect("a model");
    let of = |model: &str, name: &str| values(&open(model), name);
    let close = |found: Vec<f32>, a: (f32, Vec<f32>), b: (f32, Vec<f32>)| {
        for ((found, x), y) in found.iter().zip(&a.1).zip(&b.1) {
            let expected = a.0 * x + b.0 * y;
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    };
    let first = "layers.0.attention.q.weight";
    close(values(&merged, first), (1.0, of(HF, Q)), (3.0, of(GGUF, first)));
    for name in ["token_embedding.weight", "output_norm.weight"] {
        close(values(&merged, name), (0.0, of(HF, name)), (0.5, of(GGUF, name)));
    }
}

#[test]
fn the_config_states_the_dtype() {
    for dtype in ["float16", "float32"] {
        let open = |name: &str| Model::open(format!("assets/sample/{name}"));
        let text = format!("dtype: {dtype}\nmerge_method: linear\n{TWO}");
        let merged = merge_models(&MergeRecipe::parse(&text, &open).unwrap()).expect("a model");
        let config = merged.document("config.json").expect("a config");
        let keys = ["dtype", "torch_dtype"];
        let stated: Vec<_> = keys.iter().filter_map(|key| config.get(key)?.as_str()).collect();
        assert!(!stated.is_empty() && stated.iter().all(|stated| *stated == dtype), "{stated:?}");
    }
}

/// Rows of other tokens are merged by number, which a note says.
#[test]
fn other_tokens_are_noted() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let letter = token(&open(HF), 300);
    let section = format!("  remove: ['{letter}']\n  pad_to_multiple_of: 512\n");
    let other = folder.path().join("other");
    let less = with_tokens("hf", &section)?;
    let to = ConvertOptions::new(&weighbridge::container::SAFETENSORS);
    ops::convert(&less, &to)?.run(&other, &WriteOptions::new())?;
    let mut recipe = MergeRecipe::new(MergeMethod::Linear);
    recipe.add(open(HF), 1.0);
    recipe.add(open(GGUF), 1.0);
    let notes = |recipe: &MergeRecipe| -> Result<Vec<String>> {
        let plan = ops::convert(&merge_models(recipe)?, &to)?;
        Ok(plan.notes.iter().filter(|n| n.contains("by number")).cloned().collect())
    };
    assert_eq!(notes(&recipe)?, [""; 0]);
    recipe.add(Model::open(&other)?, 1.0);
    let found = notes(&recipe)?;
    assert!(found.len() == 1 && found[0].contains("other are not those of"), "{found:?}");
    Ok(())
}

/// The config of the first model is kept, which a note says where another one computes otherwise.
#[test]
fn other_configs_are_noted() -> Result<()> {
    let files = copy_of(sample("hf"));
    let path = files.path().join("config.json");
    let text = std::fs::read_to_string(&path).expect("a config");
    let mut config: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    config["rope_theta"] = 5e5.into();
    config["rope_parameters"]["rope_theta"] = 5e5.into();
    config["sliding_window"] = 8.into();
    put(files.path(), "config.json", config.to_string());
    let mut recipe = MergeRecipe::new(MergeMethod::Linear);
    recipe.add(open(HF), 1.0);
    recipe.add(open(GGUF), 1.0);
    let to = ConvertOptions::new(&weighbridge::container::SAFETENSORS);
    let notes = |recipe: &MergeRecipe| -> Result<String> {
        let plan = ops::convert(&merge_models(recipe)?, &to)?;
        Ok(plan.notes.iter().filter(|n| n.contains("is kept")).cloned().collect())
    };
    assert_eq!(notes(&recipe)?, "");
    recipe.add(Model::open(files.path())?, 1.0);
    let found = notes(&recipe)?;
    for part in ["rope_theta 500000", "not 10000", "sliding_window 8, not absent"] {
        assert!(found.contains(part), "{found}");
    }
    Ok(())
}

#[test]
fn a_merged_model_is_converted_and_quantized() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let merged = merge_models(&recipe(&format!("merge_method: linear\n{TWO}")))?;
    for (name, container) in [
        ("a.gguf", &weighbridge::container::GGUF),
        ("b", &weighbridge::container::SAFETENSORS),
        ("c", &weighbridge::container::MLX),
    ] {
        let path = folder.path().join(name);
        ops::convert(&merged, &ConvertOptions::new(container))?.run(&path, &WriteOptions::new())?;
        let written = Model::open(&path)?;
        assert_eq!(values(&written, Q), values(&merged, Q), "{name}");
        assert!(written.tokenizer()?.is_some() && written.resolution()?.missing.is_empty());
    }
    Ok(())
}

/// The sample as sentence-transformers has a model, whose dense layer has this value everywhere.
fn with_modules(value: f32) -> tempfile::TempDir {
    let files = copy_of(sample("hf"));
    let module =
        |path: &str, kind: &str| format!("{{\"path\": \"{path}\", \"type\": \"a.{kind}\"}}");
    let listed =
        [module("", "Transformer"), module("1_Pooling", "Pooling"), module("2_Dense", "Dense")];
    put(files.path(), "modules.json", format!("[{}]", listed.join(",")));
    put(files.path(), "sentence_bert_config.json", "{}");
    put(files.path(), "1_Pooling/config.json", "{\"pooling_mode_mean_tokens\": true}");
    let dense = Safetensors::new().tensor("linear.weight", "F32", &[2, 2], f32s(&[value; 4]));
    put(files.path(), "2_Dense/model.safetensors", dense.build());
    put(files.path(), "2_Dense/config.json", "{\"in_features\": 2, \"out_features\": 2}");
    files
}

/// Their weights are merged, their files those of the first model. A model without them leaves them as they are.
#[test]
fn modules_of_sentence_transformers_are_merged() -> Result<()> {
    let (a, b) = (with_modules(1.0), with_modules(2.0));
    let dense_of = |second: &std::path::Path| {
        let mut recipe = MergeRecipe::new(MergeMethod::Linear);
        recipe.add(Model::open(a.path())?, 0.25);
        recipe.add(Model::open(second)?, 0.75);
        let merged = merge_models(&recipe)?;
        let out = tempfile::tempdir().expect("a folder");
        let path = out.path().join("out");
        let options = ConvertOptions::new(&weighbridge::container::SAFETENSORS);
        let plan = ops::convert(&merged, &options)?;
        let is_noted = plan.notes.iter().any(|note| note.contains("2_Dense"));
        plan.run(&path, &WriteOptions::new())?;
        for file in ["1_Pooling/config.json", "2_Dense/config.json", "sentence_bert_config.json"] {
            assert!(path.join(file).is_file(), "{file}");
        }
        let dense = Model::open(path.join("2_Dense"))?;
        Ok::<_, weighbridge::Error>((values(&dense, "linear.weight"), is_noted))
    };
    assert_eq!(dense_of(b.path())?, (vec![1.75; 4], false));
    assert_eq!(dense_of(&sample("hf"))?, (vec![1.0; 4], true));
    Ok(())
}

/// Plans and reports say which tensors are computed, whoever asks for them.
#[test]
fn plans_name_what_is_merged() -> Result<()> {
    let methods = |text: &str| -> Result<Vec<Method>> {
        let open = |name: &str| Model::open(format!("assets/sample/{name}"));
        let merged = merge_models(&MergeRecipe::parse(text, &open)?)?;
        let to = ConvertOptions::new(&weighbridge::container::SAFETENSORS);
        Ok(ops::convert(&merged, &to)?.tensors.iter().map(|tensor| tensor.method).collect())
    };
    let all = |text: &str, method| -> Result<()> {
        let found = methods(text)?;
        assert!(!found.is_empty() && found.iter().all(|own| *own == method), "{text} {found:?}");
        Ok(())
    };
    all(&format!("merge_method: linear\n{TWO}"), Method::Merged)?;
    all("merge_method: passthrough\nmodels: [{model: hf}]", Method::Copied)?;
    all("merge_method: passthrough\nmodels: [{model: hf}]\ndtype: float16", Method::Merged)?;
    let found = methods("merge_method: passthrough\nmodels: [{model: sample-Q8_0.gguf}]")?;
    let decoded = found.iter().filter(|method| **method == Method::Merged).count();
    assert_eq!((decoded, found.len()), (15, 20), "matrices are decoded, norms are copied");
    let text = "merge_method: passthrough\nmodels: [{model: hf}]\ntokenizer: {tokens: {<new>: }}";
    let changed = methods(text)?.into_iter().filter(|method| *method == Method::Merged).count();
    assert_eq!(changed, 1, "the rows of tokens");
    Ok(())
}

/// Bytes that are read in pieces of any length are those that are read at once.
#[test]
fn pieces_are_those_of_the_whole() -> Result<()> {
    let tokens = "tokenizer: {tokens: {<new>: }, pad_to_multiple_of: 64}";
    let two = "models:\n- model: sample-Q8_0.gguf\n  parameters: {weight: 0.5, density: 0.3}\n- model: \
        mlx-4bit\n  parameters: {weight: 0.25, density: 0.6}\nbase_model: hf\n";
    for text in [
        format!("merge_method: ties\n{two}{tokens}"),
        format!("merge_method: dare_ties\n{two}"),
        format!("merge_method: task_arithmetic\n{two}{tokens}"),
        format!("merge_method: linear\n{TWO}{tokens}"),
        "merge_method: slerp\nbase_model: hf\nmodels: [{model: sample-Q8_0.gguf}]".to_owned(),
    ] {
        let open = |name: &str| Model::open(format!("assets/sample/{name}"));
        let merged = merge_models(&MergeRecipe::parse(&text, &open)?)?;
        for name in [EMBEDDING, Q, "output_norm.weight"] {
            let tensor = merged.tensor(name)?;
            let whole = tensor.bytes(Part::Weight)?;
            let (mut pieces, length) = (Vec::new(), whole.len() as u64);
            for start in (0..length).step_by(70_001) {
                let within = start..length.min(start + 70_001);
                tensor.for_each_piece_in(Part::Weight, within, |piece| {
                    pieces.extend_from_slice(piece);
                    Ok::<(), weighbridge::Error>(())
                })?;
            }
            assert!(pieces == *whole, "{text}: {name}");
        }
    }
    Ok(())
}

#[test]
fn recipes_that_are_refused() {
    let fault = |text: &str| {
        let open = |name: &str| Model::open(format!("assets/sample/{name}"));
        let found = MergeRecipe::parse(text, &open).and_then(|recipe| merge_models(&recipe));
        let error = found.expect_err(text);
        (error.kind(), error.to_string())
    };
    for (text, kind, part) in [
        ("merge_method: della", ErrorKind::Unsupported, "not one of linear"),
        ("merge_method: linear", ErrorKind::Mismatch, "no models"),
        ("merge_method: ties\nmodels:\n- model: hf", ErrorKind::Mismatch, "requires a base"),
        ("merge_method: linear\nallow_crimes: true", ErrorKind::Unsupported, "allow_crimes"),
        ("base_model: a\ngate_mode: hidden\nexperts: []", ErrorKind::Unsupported, "mergekit-moe"),
        (
            "merge_method: linear\nmodels:\n- model: hf\nparameters:\n  density: 1",
            ErrorKind::Unsupported,
            "density",
        ),
        ("merge_method: slerp\nbase_model: hf", ErrorKind::Mismatch, "one other model"),
        (
            "merge_method: linear\nbase_model: hf\nmodels:\n- model: sample-Q8_0.gguf",
            ErrorKind::Mismatch,
            "linear merges the models of the list, which lacks hf",
        ),
        (
            "merge_method: passthrough\nslices:\n- sources:\n  - {model: hf, layer_range: [0, 9]}",
            ErrorKind::Mismatch,
            "the model has 2",
        ),
        ("merge_method: [1, 2", ErrorKind::Malformed, "line 1"),
        ("merge_method: linear\nmodels:\n- model: absent", ErrorKind::NotFound, "absent"),
    ] {
        let (found, said) = fault(text);
        assert!(found == kind && said.contains(part), "{text}: {found:?}: {said}");
    }
}

/// mergekit's names of a model with an adapter.
#[test]
fn adapters_of_models_are_merged_first() -> Result<()> {
    let [base, adapter] = ["lora/llama/base", "lora/llama/adapter"]
        .map(|path| fixture(path).expect("the repository has it").display().to_string());
    let read = |path: &str| Adapter::open(path).expect("an adapter");
    let expected = Adapter::merged(&Model::open(&base)?, &[read(&adapter).into()])?;
    let parse = |text: &str| {
        let text = format!("merge_method: linear\ndtype: float32\nmodels:\n- model: {text}");
        MergeRecipe::parse(&text, &|name: &str| Model::open(name))
            .and_then(|recipe| merge_models(&recipe))
    };
    for text in [
        format!("{base}+{adapter}"),
        format!("{{model: {base}, lora: {adapter}}}"),
        format!("{{model: {{path: {base}}}, lora: {{path: {adapter}}}}}"),
    ] {
        let merged = parse(&text)?;
        let name = "layers.0.attention.q.weight";
        assert_eq!(values(&merged, name), values(&expected, name), "{text}");
        assert_ne!(values(&merged, name), values(&Model::open(&base)?, name));
    }
    let said = parse(&adapter).expect_err("no model").to_string();
    assert!(said.contains("an adapter, and not a model"), "{said}");
    let slice = format!(
        "merge_method: passthrough\nslices:\n- sources:\n  - {{model: {base}, layer_range: [0, -1]}}"
    );
    let said = MergeRecipe::parse(&slice, &|name: &str| Model::open(name))
        .expect_err("no range")
        .to_string();
    assert!(said.contains("[0,-1], but two numbers are needed"), "{said}");
    Ok(())
}

const EMBEDDING: &str = "token_embedding.weight";

/// The text of a token.
fn token(model: &Model, id: usize) -> String {
    let tokenizer = model.tokenizer().expect("a tokenizer").expect("a tokenizer");
    let text = tokenizer.tokens().nth(id).expect("a token").text.into_owned();
    String::from_utf8(text).expect("text")
}

/// The number of tokens and of merges.
fn counts(model: &Model) -> (u64, usize) {
    let tokenizer = model.tokenizer().expect("a tokenizer").expect("a tokenizer");
    (tokenizer.len(), tokenizer.merges().count())
}

/// The rows of the embedding.
fn rows(model: &Model) -> Vec<Vec<f32>> {
    values(model, EMBEDDING).chunks(256).map(<[f32]>::to_vec).collect()
}

fn mean(rows: &[Vec<f32>]) -> Vec<f32> {
    let count = rows.len() as f32;
    (0..256).map(|column| rows.iter().map(|row| row[column]).sum::<f32>() / count).collect()
}

fn close(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5), "{a:?} {b:?}");
}

/// A recipe of one model, with this section for its tokenizer.
fn with_tokens(model: &str, section: &str) -> Result<Model> {
    let text = format!("merge_method: linear\nmodels: [{{model: {model}}}]\ntokenizer:\n{section}");
    merge_models(&recipe(&text))
}

#[test]
fn tokens_are_added() {
    let section = "  source: base\n  pad_to_multiple_of: 64\n  tokens:\n    \"<|a: b|>\":\n      source: {kind: \
        mean}\n    <zero>: {source: {kind: zero}}\n    <copy>:\n      source:\n        kind: model_token\n        \
        token: \"</s>\"\n    <third>: {source: {kind: model_token, token_id: 2}}\n    <drawn>: {source: {kind: \
        random, seed: 7}}\n    <default>:\n";
    for source in ["hf", "sample-Q8_0.gguf"] {
        let model = with_tokens(source, section).expect("a model");
        let before = rows(&open(&format!("assets/sample/{source}")));
        let after = rows(&model);
        assert_eq!(after.len(), 576);
        assert_eq!(after[..512], before[..]);
        close(&after[512], &mean(&before));
        assert_eq!(after[513], vec![0.0; 256]);
        assert_eq!((&after[514], &after[515]), (&before[1], &before[2]));
        let drawn = &after[516];
        assert_ne!(drawn, &after[512]);
        assert!(drawn.iter().all(|value| value.abs() < 1.0), "{drawn:?}");
        assert_eq!(*drawn, rows(&with_tokens(source, section).expect("a model"))[516]);
        close(&after[517], &mean(&before));
        close(&after[575], &mean(&after[..518]));
        assert_eq!(model.config().unwrap().vocab_size.as_ref().unwrap().value, 576);
        assert_eq!((token(&model, 0), token(&model, 512)), ("<s>".into(), "<|a: b|>".into()));
        assert_eq!(counts(&model).0, 518);
        // They reach the keys of a GGUF file.
        let plan = ops::convert(&model, &ConvertOptions::new(&weighbridge::container::GGUF));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.gguf");
        plan.expect("a plan").run(&path, &WriteOptions::new()).expect("a file");
        assert_eq!(token(&Model::open(&path).unwrap(), 515), "<third>");
    }
}

#[test]
fn tokens_are_removed() {
    let before = open(HF);
    let (letter, last) = (token(&before, 300), token(&before, 511));
    let section = format!("  remove: ['{letter}', '{last}']\n  tokens: {{<new>: }}\n");
    let model = with_tokens("hf", &section).expect("a model");
    let (old, new) = (rows(&before), rows(&model));
    assert_eq!(new.len(), 511);
    assert_eq!((&new[299], &new[300], &new[509]), (&old[299], &old[301], &old[510]));
    assert_eq!(token(&model, 510), "<new>");
    assert!(counts(&model).1 < counts(&before).1);
    let refused = with_tokens("hf", "  remove: ['</s>']\n").expect_err("the end of a text");
    assert_eq!(refused.kind(), ErrorKind::Mismatch);
    assert!(refused.to_string().contains("eos_token_id"), "{refused}");
    let lower = with_tokens("hf", "  remove: ['<s>']\n").expect_err("the start of a text");
    assert!(lower.to_string().contains("bos"), "{lower}");
    let absent = with_tokens("hf", "  remove: [no such]\n").expect_err("no such token");
    assert_eq!(absent.kind(), ErrorKind::NotFound);
}

/// Two models with other tokens become one with all of them.
#[test]
fn vocabularies_are_united() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other");
    let section = "  remove: ['{x}']\n  tokens: {<new>: {source: {kind: zero}}, <more>: }\n";
    let changed = section.replace("{x}", &token(&open(HF), 300));
    let changed = with_tokens("hf", &changed).expect("a model");
    let options = ConvertOptions::new(&weighbridge::container::SAFETENSORS);
    ops::convert(&changed, &options).unwrap().run(&other, &WriteOptions::new()).unwrap();
    let merged = |more: &str| {
        let open = |name: &str| match name {
            "other" => Model::open(&other),
            name => Model::open(format!("assets/sample/{name}")),
        };
        let text = format!(
            "dtype: float32\nmerge_method: linear\nmodels:\n- model: hf\n  parameters: {{weight: 3}}\n- \
             model: other\n  parameters: {{weight: 1}}\n{more}"
        );
        merge_models(&MergeRecipe::parse(&text, &open)?)
    };
    let error = merged("").expect_err("other tokens are merged as if they were the same");
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert!(error.advice().unwrap().contains("tokenizer_source"), "{error}");
    let model = merged("tokenizer_source: union\n").expect("a model");
    let (a, b, found) = (rows(&open(HF)), rows(&Model::open(&other).unwrap()), rows(&model));
    assert_eq!((a.len(), b.len(), found.len()), (512, 513, 514));
    let mixed = |a: &[f32], b: &[f32]| -> Vec<f32> {
        a.iter().zip(b).map(|(a, b)| (3.0 * a + b) / 4.0).collect()
    };
    close(&found[299], &mixed(&a[299], &b[299]));
    // Only the first model has this one, and only the other one that.
    close(&found[300], &a[300]);
    close(&found[301], &mixed(&a[301], &b[300]));
    close(&found[512], &b[511]);
    let model = merged("tokenizer_source: model:other\n").expect("a recipe of 2023");
    assert_eq!(rows(&model).len(), 513);
    let model = merged(
        "tokenizer: {source: other, tokens: {<new>: {source: {kind: model_token, model: hf, \
        token_id: 5}, force: true}}}\n",
    );
    let found = rows(&model.expect("a model"));
    assert_eq!(found.len(), 513);
    close(&found[511], &a[5]);
    let outside = merged("tokenizer: {source: third}\n").expect_err("not merged");
    assert!(outside.to_string().contains("third"), "{outside}");
}

/// The sample with other names of its tensors, and one more tensor.
fn named(rename: impl Fn(&str) -> String, more: &[(&str, &[u64])]) -> tempfile::TempDir {
    filled(rename, more, 1.0)
}

/// The same with this value in each added tensor.
fn filled(
    rename: impl Fn(&str) -> String,
    more: &[(&str, &[u64])],
    value: f32,
) -> tempfile::TempDir {
    let files = copy_of(sample("hf"));
    let mut file = Safetensors::new();
    for tensor in open(HF).stored_tensors() {
        let values = tensor.dequantize().expect("values");
        file = file.tensor(&rename(tensor.name()), "F32", tensor.shape(), f32s(&values));
    }
    for (name, shape) in more {
        let count = shape.iter().product::<u64>() as usize;
        file = file.tensor(name, "F32", shape, f32s(&vec![value; count]));
    }
    put(files.path(), "model.safetensors", file.build());
    files
}

/// A model of Qwen 3 has norms in its layers that one of Llama lacks.
#[test]
fn models_of_other_architectures_are_refused() {
    let norms: Vec<String> = (0..open(HF).config().expect("a config").n_layers.value)
        .flat_map(|n| {
            ["q", "k"].map(|part| format!("model.layers.{n}.self_attn.{part}_norm.weight"))
        })
        .collect();
    let more: Vec<(&str, &[u64])> =
        norms.iter().map(|name| (name.as_str(), &[32_u64][..])).collect();
    let other = named(str::to_owned, &more);
    let path = other.path().join("config.json");
    let config = std::fs::read_to_string(&path).expect("a config");
    std::fs::write(&path, config.replace("\"llama\"", "\"qwen3\"").replace("LlamaFor", "Qwen3For"))
        .expect("written");
    let other = Model::open(other.path()).expect("a directory");
    let mut recipe = MergeRecipe::new(MergeMethod::Linear);
    recipe.add(open(HF), 1.0);
    recipe.add(other, 1.0);
    let said = merge_models(&recipe).expect_err("not merged").to_string();
    assert!(said.contains("architecture qwen3, but that of another model is llama"), "{said}");
}

/// Classes with a head and without have other prefixes, and older files have rotary frequencies.
#[test]
fn names_and_computed_tensors_of_other_classes() -> Result<()> {
    let bare = |name: &str| name.strip_prefix("model.").unwrap_or(name).to_owned();
    let other = named(bare, &[("layers.0.self_attn.rotary_emb.inv_freq", &[32])]);
    let (plain, other) = (open(HF), Model::open(other.path())?);
    for models in [[&plain, &other], [&other, &plain]] {
        let mut recipe = MergeRecipe::new(MergeMethod::Linear);
        for model in models {
            recipe.add(model.clone(), 1.0);
        }
        let merged = merge_models(&recipe)?;
        assert_eq!(merged.len(), plain.len());
        assert_eq!(values(&merged, Q), values(&plain, Q));
        let plan =
            ops::convert(&merged, &ConvertOptions::new(&weighbridge::container::SAFETENSORS))?;
        assert!(plan.notes.concat().contains("rotary_emb.inv_freq: not every model has it"));
    }
    Ok(())
}

/// Tensors of a vision model, with numbers of their own.
const TOWER: [(&str, &[u64]); 6] = [
    ("visual.patch_embed.proj.weight", &[4]),
    ("visual.blocks.0.norm1.weight", &[4]),
    ("visual.blocks.1.norm1.weight", &[4]),
    ("visual.blocks.2.norm1.weight", &[4]),
    ("visual.merger.mlp.0.weight", &[4]),
    ("visual.merger.mlp.2.weight", &[4]),
];

/// Slices list layers of the language model: a vision model is taken whole from the first one, as a note says.
#[test]
fn slices_leave_other_parts_whole() -> Result<()> {
    let [one, two] = [1.0, 2.0].map(|value| filled(str::to_owned, &TOWER, value));
    let paths = [one.path().display(), two.path().display()];
    let [one, two] = &paths;
    let tower = |model: &Model| -> Vec<(String, f32)> {
        let tensors = model.stored_tensors();
        let tensors = tensors.filter(|tensor| tensor.name().starts_with("visual."));
        let mut found: Vec<(String, f32)> = tensors
            .map(|tensor| (tensor.name().to_owned(), tensor.dequantize().expect("values")[0]))
            .collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    };
    let mut expected = TOWER.map(|(name, _)| (name.to_owned(), 1.0));
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    for (slices, layers, is_noted) in [
        (format!("- sources: [{{model: {one}, layer_range: [0, 1]}}]"), 1, false),
        (
            format!(
                "- sources: [{{model: {one}, layer_range: [0, 2]}}]\n- sources: [{{model: {two}, layer_range: [1, 2]}}]"
            ),
            3,
            true,
        ),
    ] {
        let text = format!("merge_method: passthrough\nslices:\n{slices}\n");
        let merged = merge_models(&MergeRecipe::parse(&text, &|name: &str| Model::open(name))?)?;
        assert_eq!(tower(&merged), expected, "{text}");
        assert_eq!(merged.config()?.n_layers.value, layers);
        let to = ConvertOptions::new(&weighbridge::container::SAFETENSORS);
        let notes = ops::convert(&merged, &to)?.notes.concat();
        assert_eq!(notes.contains("language model alone"), is_noted, "{notes}");
    }
    let text = format!(
        "merge_method: slerp\nbase_model: {one}\nslices:\n- sources: [{{model: {one}, layer_range: [0, 2]}}, {{model: {two}, layer_range: [0, 2]}}]\nparameters: {{t: 0.5}}\n"
    );
    let merged = merge_models(&MergeRecipe::parse(&text, &|name: &str| Model::open(name))?)?;
    assert_eq!(tower(&merged), expected);
    Ok(())
}

/// Without slices, a gradient counts the blocks of a vision model by themselves.
#[test]
fn gradients_of_other_parts_end_with_them() -> Result<()> {
    let [one, two] = [1.0, 2.0].map(|value| filled(str::to_owned, &TOWER, value));
    let text = format!(
        "merge_method: slerp\nbase_model: {one}\nmodels: [{{model: {two}}}]\nparameters: {{t: [0, 1]}}\ndtype: float32\n",
        one = one.path().display(),
        two = two.path().display()
    );
    let merged = merge_models(&MergeRecipe::parse(&text, &|name: &str| Model::open(name))?)?;
    for (block, value) in [1.0, 1.5, 2.0].into_iter().enumerate() {
        let name = format!("visual.blocks.{block}.norm1.weight");
        let found = merged.stored_tensors().find(|tensor| tensor.name() == name);
        close(&found.expect("a block").dequantize()?, &[value; 4]);
    }
    Ok(())
}

/// Older and newer versions of transformers store a vision-language model under other prefixes.
#[test]
fn older_and_newer_names_are_joined() -> Result<()> {
    let newer = |name: &str| match name.strip_prefix("model.") {
        Some(rest) => format!("model.language_model.{rest}"),
        None => name.to_owned(),
    };
    let of_newer: Vec<(String, &[u64])> =
        TOWER.iter().map(|(name, shape)| (format!("model.{name}"), *shape)).collect();
    let of_newer: Vec<(&str, &[u64])> =
        of_newer.iter().map(|(name, shape)| (name.as_str(), *shape)).collect();
    let (old, new) = (filled(str::to_owned, &TOWER, 1.0), filled(newer, &of_newer, 3.0));
    // A class without a vision model has the names of the language model alone.
    for files in [&old, &new] {
        let config = std::fs::read_to_string(files.path().join("config.json")).expect("a config");
        put(files.path(), "config.json", config.replacen('{', "{\"vision_config\": {},", 1));
    }
    let (old, new) = (Model::open(old.path())?, Model::open(new.path())?);
    for models in [[&old, &new], [&new, &old]] {
        let mut recipe = MergeRecipe::new(MergeMethod::Linear);
        for model in models {
            recipe.add(model.clone(), 1.0);
        }
        let merged = merge_models(&recipe)?;
        let names = |model: &Model| {
            let mut names: Vec<String> =
                model.stored_tensors().map(|tensor| tensor.name().to_owned()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&merged), names(models[0]));
        assert_eq!(values(&merged, Q), values(&old, Q));
        let mut tensors = merged.stored_tensors();
        let block = tensors.find(|tensor| tensor.name().ends_with("blocks.2.norm1.weight"));
        close(&block.expect("a block").dequantize()?, &[2.0; 4]);
    }
    // What none of the models can lack is refused with a way out.
    let other = named(str::to_owned, &[("model.layers.0.extra.weight", &[4])]);
    let mut recipe = MergeRecipe::new(MergeMethod::Linear);
    recipe.add(open(HF), 1.0);
    recipe.add(Model::open(other.path())?, 1.0);
    let advice = merge_models(&recipe).expect_err("not merged").advice().map(str::to_owned);
    assert!(advice.unwrap().contains("--leave-out 'model.layers.0.extra.weight'"));
    Ok(())
}

/// Tensors that a model needs cannot be left out of the others.
#[test]
fn an_incomplete_model_is_named() {
    let lacks = |name: &str| name.ends_with(".post_attention_layernorm.weight");
    let part = crate::public_reports::rebuilt(|name, shape, bytes| match lacks(name) {
        true => Vec::new(),
        false => vec![(name.to_owned(), "F32", shape.to_vec(), bytes)],
    });
    let part = Model::open(part.path()).unwrap();
    for models in [[open(HF), part.clone()], [part.clone(), open(HF)]] {
        let mut recipe = MergeRecipe::new(MergeMethod::Linear);
        for model in models {
            recipe.add(model, 1.0);
        }
        let error = merge_models(&recipe).expect_err("not merged");
        let (said, advice) = (error.to_string(), error.advice().unwrap_or_default().to_owned());
        let named = "lacks model.layers.*.post_attention_layernorm.weight (2 tensors), but ";
        assert!(said.contains(named), "{said}");
        assert!(said.starts_with(&part.path().display().to_string()), "{said}");
        assert!(advice.contains("incomplete") && !advice.contains("--leave-out"), "{advice}");
    }
}
