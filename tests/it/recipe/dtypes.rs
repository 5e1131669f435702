//! The choice of dtypes against what other quantizers chose: all of their files in
//! the folder that `WEIGHBRIDGE_FIXTURES` names.

use crate::support;
use std::collections::HashMap;
use std::path::Path;

use crate::support::{outside, told};
use insta::assert_snapshot;
use serde_json::Value as Json;
use weighbridge::metadata::KeyValues;
use weighbridge::recipe::FileType;
use weighbridge::recipe::ImportanceMatrix;
use weighbridge::recipe::llama_cpp::{
    Hparams, LlamaOptions, LlamaRecipe, MetadataSetting, Reason, SourceTensor, TensorChoice,
    TensorType, target,
};
use weighbridge::recipe::mlx_lm;
use weighbridge::{DType, Model, OpenOptions, ollama};

/// Tensors of a small model.
const SMALL: &[SourceTensor<'_>] = &[
    SourceTensor { name: "blk.10.ffn_down.weight", shape: &[256, 256], dtype: DType::F16 },
    SourceTensor { name: "blk.9.ffn_down.weight", shape: &[256, 256], dtype: DType::F16 },
    SourceTensor { name: "output_norm.weight", shape: &[256], dtype: DType::F32 },
    SourceTensor { name: "token_embd.weight", shape: &[512, 256], dtype: DType::F16 },
    SourceTensor { name: "blk.9.attn_v.weight", shape: &[1, 256], dtype: DType::F16 },
];

/// One that low file types give their base.
const UP: SourceTensor<'_> = SourceTensor { name: "blk.10.ffn_up.weight", ..SMALL[0] };

fn small() -> Hparams {
    Hparams { architecture: "llama".to_owned(), layers: 11, ..Hparams::default() }
}

fn refused(model: &Hparams, tensors: &[SourceTensor<'_>], options: &LlamaOptions) -> String {
    let checked =
        LlamaRecipe::new(model, tensors, options).and_then(|recipe| recipe.check(options));
    told(&checked.expect_err("a refusal"))
}

#[test]
fn order_and_reasons() {
    let mut options = LlamaOptions::new(FileType::Q4_K_M);
    options.tensor_types = vec![TensorType::parse("BLK.9=q5_0").expect("a tensor type")];
    let recipe = LlamaRecipe::new(&small(), SMALL, &options).expect("a recipe");
    recipe.check(&options).expect("no refusal");
    let told: Vec<String> = recipe
        .choices
        .iter()
        .map(|choice| {
            let TensorChoice { source, name, from, to, reason, .. } = choice;
            format!("{source} {name}: {from} -> {to}, {reason:?}, copy {}", choice.is_copy())
        })
        .collect();
    assert_snapshot!(told.join("\n"), @"
    2 output_norm.weight: F32 -> F32, Kept, copy true
    3 token_embd.weight: F16 -> Q6_K, Rule, copy false
    4 blk.9.attn_v.weight: F16 -> F16, Kept, copy true
    1 blk.9.ffn_down.weight: F16 -> Q5_0, Option, copy false
    0 blk.10.ffn_down.weight: F16 -> Q6_K, Rule, copy false
    ");
    options.keep_split = true;
    let recipe = LlamaRecipe::new(&small(), SMALL, &options).expect("a recipe");
    let sources: Vec<usize> = recipe.choices.iter().map(|choice| choice.source).collect();
    assert_eq!(sources, [0, 1, 2, 3, 4]);
}

#[test]
fn copies_keep_their_file_type() {
    let number = |tensors: &[SourceTensor<'_>], file_type| {
        let model = Hparams { file_type, ..small() };
        let recipe = LlamaRecipe::new(&model, tensors, &LlamaOptions::new(FileType::COPY))
            .expect("a recipe");
        assert!(recipe.choices.iter().all(TensorChoice::is_copy));
        let found = recipe.settings.iter().find(|setting| setting.key == "general.file_type");
        found.expect("a file type").value.value().to_u64().expect("a number")
    };
    assert_eq!(number(SMALL, Some(15)), 15);
    assert_eq!(number(SMALL, None), 1024 + 1);
    let of = |dtype| SourceTensor { dtype, ..SMALL[0] };
    assert_eq!(number(&[of(DType::Q4_K)], None), 1024 + 15);
    assert_eq!(number(&[of(DType::IQ2_S)], None), 1024 + 28);
    assert_eq!(number(&[of(DType::NVFP4)], None), 1024 + 39);
    assert_eq!(number(&[of(DType::MXFP4)], None), 1024);
    // The one that gets ahead first.
    assert_eq!(number(&[SMALL[2], of(DType::Q8_0)], None), 1024);
}

#[test]
fn settings() {
    let mut options = LlamaOptions::new(FileType::Q8_0);
    for text in ["general.name=str:a=b:c", "x=int:-7", "x=float:0.5", "y=bool:true"] {
        options.overrides.push(MetadataSetting::parse(text).expect(text));
    }
    options.pruned = [9].into();
    let recipe = LlamaRecipe::new(&small(), SMALL, &options).expect("a recipe");
    let told: Vec<String> =
        recipe.settings.iter().map(|set| format!("{}: {:?}", set.key, set.value)).collect();
    assert_snapshot!(told.join("\n"), @r#"
    general.quantization_version: U32(2)
    general.file_type: U32(7)
    general.name: String("a=b:c")
    x: F32(0.5)
    y: Bool(true)
    llama.block_count: U32(1)
    "#);
    assert_eq!(recipe.removed, ["split.no", "split.count", "split.tensors.count"]);
    let names: Vec<&str> = recipe.choices.iter().map(|choice| &*choice.name).collect();
    // Upstream counts the layers that it meets, and these begin at 10.
    assert_eq!(names, ["output_norm.weight", "token_embd.weight", "blk.0.ffn_down.weight"]);

    for text in ["x", "=int:1", "x=1", "x=long:1", "x=int:a", "x=int:4294967296", "x=bool:1"] {
        assert!(MetadataSetting::parse(text).is_err(), "{text}");
    }
    assert_snapshot!(told_of(MetadataSetting::parse("x=bool:1")), @r#"
    Mismatch: "x=bool:1" is not a setting: "1" is not a value of type bool
    help: write key=type:value, where the type is int, float, bool or str
    "#);
}

/// Layers before the first removed one keep their numbers, even where others are missing.
#[test]
fn layers_before_the_removed_ones_keep_their_numbers() {
    let tensors = ["blk.2.ffn_down.weight", "blk.3.ffn_down.weight", "blk.5.ffn_down.weight"];
    let tensors = tensors.map(|name| SourceTensor { name, ..SMALL[0] });
    let mut options = LlamaOptions::new(FileType::Q8_0);
    options.pruned = [3].into();
    let recipe = LlamaRecipe::new(&small(), &tensors, &options).expect("a recipe");
    let names: Vec<&str> = recipe.choices.iter().map(|choice| &*choice.name).collect();
    assert_eq!(names, ["blk.2.ffn_down.weight", "blk.3.ffn_down.weight"]);
    let sources: Vec<usize> = recipe.choices.iter().map(|choice| choice.source).collect();
    assert_eq!(sources, [0, 2]);
}

/// A tied embedding is the output matrix too, and has the dtype that is asked for that.
#[test]
fn tied_embeddings_have_the_dtype_of_the_output() {
    let mut options = LlamaOptions::new(FileType::Q4_K_M);
    options.output = Some(DType::Q5_0);
    let of = |options: &LlamaOptions, name: &str| {
        let output = SourceTensor { name: "output.weight", ..SMALL[3] };
        let tensors =
            if name == SMALL[3].name { SMALL.to_vec() } else { [SMALL, &[output]].concat() };
        let recipe = LlamaRecipe::new(&small(), &tensors, options).expect("a recipe");
        let found = recipe.choices.iter().find(|choice| choice.name == name).expect("the tensor");
        (found.to, found.reason)
    };
    assert_eq!(of(&options, "token_embd.weight"), (DType::Q5_0, Reason::Option));
    assert_eq!(of(&options, "output.weight"), (DType::Q5_0, Reason::Option));
    options.token_embedding = Some(DType::Q8_0);
    assert_eq!(of(&options, "token_embd.weight"), (DType::Q8_0, Reason::Option));
    options.output = None;
    assert_eq!(of(&options, "output.weight"), (DType::Q6_K, Reason::Rule));
}

/// llama-quantize gives some matrices of GLM 5 eight bits in every file type.
#[test]
fn some_matrices_have_eight_bits_in_every_file_type() {
    let tensors = ["blk.0.attn_q_a.weight", "blk.0.attn_q_b.weight", "blk.0.ffn_up.weight"];
    let tensors = tensors.map(|name| SourceTensor { name, ..SMALL[0] });
    let of = |architecture: &str, file_type| {
        let model = Hparams { architecture: architecture.to_owned(), ..small() };
        let recipe = LlamaRecipe::new(&model, &tensors, &LlamaOptions::new(file_type));
        recipe.expect("a recipe").choices.iter().map(|choice| choice.to).collect::<Vec<_>>()
    };
    for (file_type, base) in [(FileType::Q4_0, DType::Q4_0), (FileType::Q6_K, DType::Q6_K)] {
        assert_eq!(of("glm5-next", file_type), [DType::Q8_0, DType::Q8_0, base]);
        assert_eq!(of("llama", file_type), [base; 3]);
    }
}

fn told_of<T: std::fmt::Debug>(result: weighbridge::Result<T>) -> String {
    told(&result.expect_err("a refusal"))
}

#[test]
fn overrides_count_as_the_file_s_own() {
    let store = Model::open("assets/sample/sample-Q8_0.gguf").expect("a model");
    let model = Hparams::of(&KeyValues::of(store.metadata()), &[]).expect("its numbers");
    assert_eq!((&*model.architecture, model.layers, model.experts), ("llama", 2, 0));
    let overrides = ["llama.expert_count=int:8", "llama.attention.head_count=int:64"];
    let overrides = overrides.map(|text| MetadataSetting::parse(text).expect(text));
    let model = Hparams::of(&KeyValues::of(store.metadata()), &overrides).expect("its numbers");
    assert_eq!((model.heads, model.experts, model.file_type), (64, 8, Some(7)));
    let store = Model::open("assets/sample/hf").expect("a model");
    assert_snapshot!(told_of(Hparams::of(&KeyValues::of(store.metadata()), &[])), @r#"Unsupported: key "general.architecture": the key is missing, but quantizing requires it"#);
}

#[test]
fn refusals() {
    let low = LlamaOptions::new(FileType::IQ2_XXS);
    assert_snapshot!(refused(&small(), &[UP], &low), @r#"
    Mismatch: tensor "blk.10.ffn_up.weight": IQ2_XXS requires an importance matrix
    help: give an importance matrix with LlamaOptions::with_importance, or choose a dtype with more bits
    "#);
    let packed = [SourceTensor { dtype: DType::Q8_0, ..SMALL[0] }];
    let mut options = LlamaOptions::new(FileType::Q4_K_M);
    assert_snapshot!(refused(&small(), &packed, &options), @r#"
    Mismatch: tensor "blk.10.ffn_down.weight": the tensor is already quantized as Q8_0, and Q6_K was requested
    help: quantize the original model, or allow a further loss with LlamaOptions::allow_requantize
    "#);
    options.allow_requantize = true;
    let recipe = LlamaRecipe::new(&small(), &packed, &options).expect("a recipe");
    recipe.check(&options).expect("no refusal");

    let odd = [SourceTensor { shape: &[4, 96], ..SMALL[0] }];
    assert_snapshot!(refused(&small(), &odd, &LlamaOptions::new(FileType::Q1_0)), @r#"
    Unsupported: tensor "blk.10.ffn_down.weight": rows of 96 elements do not divide into blocks of 128 for Q1_0, which has no fallback
    help: choose another dtype for this tensor, with LlamaOptions::tensor_types
    "#);
    options.output = Some(DType::Q6_K);
    let output = [SourceTensor { name: "output.weight", ..odd[0] }];
    assert_snapshot!(refused(&small(), &output, &options), @r#"
    Unsupported: tensor "output.weight": rows of 96 elements do not divide into blocks of 256 for Q6_K
    help: choose another dtype for this tensor, with LlamaOptions::tensor_types
    "#);
    let whole = [SourceTensor { dtype: DType::I32, ..SMALL[0] }];
    assert_snapshot!(refused(&small(), &whole, &options), @r#"Unsupported: tensor "blk.10.ffn_down.weight": I32 cannot be quantized to Q6_K"#);
    options.output = Some(DType::MLX_AFFINE4);
    let output = [SourceTensor { name: "output.weight", ..SMALL[0] }];
    assert_snapshot!(refused(&small(), &output, &options), @r#"Unsupported: tensor "output.weight": F16 cannot be quantized to MLX_AFFINE4"#);
    let experts = Hparams { experts: 4, layers: 9, ..small() };
    assert_snapshot!(refused(&experts, &SMALL[..1], &options), @r#"
    Unsupported: tensor "blk.10.ffn_down.weight": rules for experts depend on the layer, but the name contains no layer number below 9
    help: set the dtype by name, with LlamaOptions::tensor_types
    "#);

    assert_snapshot!(told_of(TensorType::parse("attn_v")), @r#"
    Mismatch: "attn_v" is not a tensor type
    help: write a regular expression for the name, and a dtype: attn_v=q6_k
    "#);
    assert_snapshot!(told_of(TensorType::parse("attn_(?!v)=q8_0")), @r#"
    Mismatch: "attn_(?!v)" is not a valid regular expression: look-around, including look-ahead and look-behind, is not supported
    help: look-around and back references, which std::regex supports, are not supported here
    "#);
    assert_snapshot!(told_of(TensorType::parse("(a=q8_0")), @r#"
    Mismatch: "(a" is not a valid regular expression: unclosed group
    help: look-around and back references, which std::regex supports, are not supported here
    "#);
    assert_snapshot!(told_of(target("Q8_K")), @r#"
    Mismatch: "Q8_K" is not a dtype that llama.cpp quantizes to
    help: one of F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ2_XXS, IQ2_XS, IQ3_XXS, IQ1_S, IQ4_NL, IQ3_S, IQ2_S, IQ4_XS, IQ1_M, TQ1_0, TQ2_0, MXFP4, NVFP4, Q1_0, Q2_0
    "#);
}

#[test]
fn importance_of_a_choice() {
    let bytes = |name: &str| {
        let writer =
            support::Writer::default().u32(1).u32(u32::try_from(name.len()).expect("short"));
        let values = support::f32s(&[2.0; 256]);
        writer.raw(name.as_bytes()).u32(2).u32(256).raw(&values).out
    };
    let open = |name: &str| {
        ImportanceMatrix::open_memory("file", bytes(name), &OpenOptions::new()).expect("a matrix")
    };
    let matrix = open(UP.name);
    let mut options = LlamaOptions::new(FileType::IQ2_XXS).with_importance(&matrix, "some/file");
    // Importance goes by the names that the matrix was measured under.
    options.pruned = [0].into();
    let recipe = LlamaRecipe::new(&small(), &[UP], &options).expect("a recipe");
    recipe.check(&options).expect("no refusal");
    let choice = &recipe.choices[0];
    assert_eq!((&*choice.name, choice.needs_importance), ("blk.0.ffn_up.weight", true));
    let found = choice.importance(&UP, &matrix).expect("importance");
    assert_eq!(found, Some(&[1.0; 256][..]));
    assert_snapshot!(told_of(choice.importance(&UP, &open("other.weight"))), @r#"
    Mismatch: file: tensor "blk.10.ffn_up.weight": IQ2_XXS requires importance, but the importance matrix has none for this tensor
    help: choose a dtype with more bits for this tensor, with LlamaOptions::tensor_types
    "#);
    let wrong = SourceTensor { shape: &[4, 64], ..UP };
    assert_snapshot!(told_of(choice.importance(&wrong, &matrix)), @r#"
    Mismatch: file: tensor "blk.10.ffn_up.weight": importance of 256 columns, but the weight has 1 x 64
    help: the importance matrix was made for another model, or for experts in separate tensors
    "#);
}

#[test]
fn what_mlx_does_not_have() {
    use mlx_lm::{Mix, MlxMode, MlxOptions, MlxRecipe, Module};
    let modules = [Module { path: "model.layers.0.mlp.up_proj", shape: &[64, 96] }];
    let model =
        mlx_lm::MlxModel { model_type: "llama".to_owned(), layers: 1, ..Default::default() };
    let refused = |options: MlxOptions| told_of(MlxRecipe::new(&model, &modules, &options));
    let usual = MlxOptions::default();
    assert_snapshot!(refused(MlxOptions { bits: Some(7), ..usual }), @"Mismatch: affine does not support elements of 7 bits: supported are 1, 2, 3, 4, 5, 6, 8");
    assert_snapshot!(refused(MlxOptions { mode: MlxMode::Nvfp4, group_size: Some(32), ..usual }), @"Mismatch: nvfp4 does not support groups of 32: supported are 16");
    let mix = Mix::from_name("mixed_3_6");
    assert_snapshot!(refused(MlxOptions { mix, ..usual }), @"
    Mismatch: the mix mixed_3_6 requires modules named down_proj, but the model has none
    help: quantize without a mix
    ");
    assert_snapshot!(refused(MlxOptions { mix, mode: MlxMode::Mxfp8, ..usual }), @"Mismatch: the mix mixed_3_6 requires the mode affine, but the mode is mxfp8");
    // 8 bits in groups of 64, or of 32 where rows are whole groups of 32 only.
    let options = MlxOptions { group_size: Some(32), ..usual };
    let qwen = mlx_lm::MlxModel { model_type: "qwen3_moe".to_owned(), ..model.clone() };
    for (columns, group_size) in [(128, 64), (96, 32)] {
        let router = [Module { path: "model.layers.0.mlp.gate", shape: &[64, columns] }];
        let recipe = MlxRecipe::new(&qwen, &router, &options).expect("a recipe");
        let [Some(choice)] = recipe.choices.as_slice() else { panic!("{:?}", recipe.choices) };
        assert_eq!((choice.bits, choice.group_size), (8, group_size));
        assert_eq!(recipe.config["model.layers.0.mlp.gate"]["group_size"], group_size);
    }
    let recipe = MlxRecipe::new(&model, &modules, &usual).expect("a recipe");
    assert_eq!(recipe.choices, [None]);
    assert_eq!(recipe.config.to_string(), r#"{"group_size":64,"bits":4,"mode":"affine"}"#);
}

fn json(path: &Path) -> Json {
    let text = std::fs::read_to_string(path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The options of one run of llama-quantize.
fn options(run: &Json, folder: &Path) -> LlamaOptions {
    let name = run["type"].as_str().expect("a file type");
    let mut options = LlamaOptions::new(FileType::from_name(name).expect("a file type"));
    if let Some(file) = run["imatrix"].as_str() {
        let matrix = ImportanceMatrix::open(folder.join(file)).expect("an importance matrix");
        options = options.with_importance(&matrix, file);
    }
    let mut given = run["options"].as_array().expect("options").iter().map(|x| x.as_str());
    while let Some(option) = given.next() {
        assert_eq!(option, Some("--tensor-type"));
        let value = given.next().flatten().expect("its value");
        options.tensor_types.push(TensorType::parse(value).expect("a tensor type"));
    }
    options
}

#[test]
fn every_run_of_llama_quantize() {
    let Some(folder) = outside("") else { return };
    let runs = json(&folder.join("quantize.json"));
    let runs = runs.as_array().expect("runs");
    assert_eq!(runs.len(), 28);
    for run in runs {
        let path = |key: &str| folder.join(run[key].as_str().expect("a path"));
        let what = run["expected"].as_str().expect("a path");
        let expected = json(&path("expected"));
        let store = Model::open(path("src")).expect("a model");
        let options = options(run, &folder);
        let model =
            Hparams::of(&KeyValues::of(store.metadata()), &options.overrides).expect("its numbers");
        let tensors = SourceTensor::all(&store).expect("its tensors");
        let recipe = LlamaRecipe::new(&model, &tensors, &options).expect("a recipe");
        recipe.check(&options).expect("no refusal");

        let expected_types: Vec<(&str, &str)> = expected["tensors"]
            .as_array()
            .expect("tensors")
            .iter()
            .map(|t| {
                (t["name"].as_str().expect("a name"), t["ggml_type"].as_str().expect("a type"))
            })
            .collect();
        let found: Vec<(&str, &str)> =
            recipe.choices.iter().map(|choice| (&*choice.name, choice.to.name())).collect();
        assert_eq!(found, expected_types, "{what}");
        for choice in &recipe.choices {
            assert_eq!(choice.stored_name, tensors[choice.source].name, "{what}");
        }
        assert_eq!(keys_after(&store, &recipe), keys(&expected), "{what}");
    }
}

/// Keys and numbers of an expected file.
fn keys(expected: &Json) -> Vec<(String, Option<u64>)> {
    let key = |kv: &Json| {
        let key = kv["key"].as_str().expect("a key").to_owned();
        let number = kv["value"].as_u64().filter(|_| is_told(&key));
        (key, number)
    };
    expected["kv"].as_array().expect("keys").iter().map(key).collect()
}

/// Whether a key's number is compared.
fn is_told(key: &str) -> bool {
    key.starts_with("general.") || key.starts_with("quantize.")
}

/// Keys and numbers that the recipe makes of a model's.
fn keys_after(store: &Model, recipe: &LlamaRecipe<'_>) -> Vec<(String, Option<u64>)> {
    let told = |key: &str, number: Option<u64>| number.filter(|_| is_told(key));
    let set = |key: &str| recipe.settings.iter().any(|setting| setting.key == key);
    let old = store.metadata().iter().map(|(key, value)| (key.to_str().expect("a key"), value));
    let kept = old.filter(|(key, _)| !set(key) && !recipe.removed.contains(key));
    let kept = kept.map(|(key, value)| (key.to_owned(), told(key, value.to_u64())));
    let new = recipe
        .settings
        .iter()
        .map(|setting| (setting.key.clone(), told(&setting.key, setting.value.value().to_u64())));
    kept.chain(new).collect()
}

/// Made-up models and options, with what the functions of src/llama-quant.cpp said of them (ggml
/// 0.25.3, compiled by themselves): a line for the case, one for each tensor with its type and its
/// dimensions innermost first, `=`, and its new name and type, `!` where it needs importance, `-`
/// where it was taken out; then the number of layers left, or `error`.
#[test]
fn random_models() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/recipe/llama-quantize.txt");
    let text = std::fs::read_to_string(path).expect("the cases");
    let mut count = 0;
    for case in text.split("\n\n").filter(|case| !case.trim().is_empty()) {
        check_case(case);
        count += 1;
    }
    assert!(count >= 40, "{count}");
}

fn check_case(case: &str) {
    let mut lines = case.trim().lines();
    let head = lines.next().expect("a head");
    let fields: Vec<&str> = head.split(' ').collect();
    let number = |at: usize| fields[at].parse::<u64>().expect("a number");
    let model = Hparams {
        architecture: fields[0].to_owned(),
        layers: number(4),
        nextn_layers: 0,
        heads: number(1),
        kv_heads: number(2),
        experts: number(3),
        file_type: None,
    };
    let mut options = LlamaOptions::new(FileType::from_name(fields[5]).expect("a file type"));
    let dtype = |at: usize| (fields[at] != "none").then(|| target(fields[at]).expect("a dtype"));
    options.importance = fields[6] == "1";
    options.pure = fields[7] == "1";
    options.leave_output = fields[8] == "1";
    (options.output, options.token_embedding) = (dtype(9), dtype(10));
    if fields[11] != "-" {
        options.pruned = fields[11].split(',').map(|n| n.parse().expect("a layer")).collect();
    }
    let types = fields.get(12).into_iter().flat_map(|types| types.split(','));
    options.tensor_types = types.map(|text| TensorType::parse(text).expect(text)).collect();

    let mut tensors: Vec<(&str, DType, Vec<u64>)> = Vec::new();
    let mut expected: Vec<(&str, String)> = Vec::new();
    let mut end = "";
    for line in lines {
        let Some((before, after)) = line.split_once(" = ") else {
            end = line;
            continue;
        };
        let mut before = before.split(' ');
        let name = before.next().expect("a name");
        let dtype = DType::from_name(before.next().expect("a dtype")).expect("a dtype");
        let mut shape: Vec<u64> = before.map(|n| n.parse().expect("a dimension")).collect();
        shape.reverse();
        tensors.push((name, dtype, shape));
        expected.push((name, after.to_owned()));
    }
    let stored: Vec<SourceTensor<'_>> = tensors
        .iter()
        .map(|(name, dtype, shape)| SourceTensor { name, shape, dtype: *dtype })
        .collect();
    let recipe = match LlamaRecipe::new(&model, &stored, &options) {
        Ok(recipe) => recipe,
        Err(error) => {
            assert!(end.starts_with("error"), "{head}\n{error:?}");
            return;
        }
    };
    assert!(!end.starts_with("error"), "{head}\n{end}");
    let mut found: Vec<(&str, String)> = Vec::new();
    for choice in &recipe.choices {
        let mark = if choice.needs_importance { " !" } else { "" };
        found.push((choice.stored_name, format!("{} {}{mark}", choice.name, choice.to)));
    }
    let kept = expected.iter().filter(|(_, after)| after != "-");
    for (found, kept) in found.iter().zip(kept.clone()) {
        assert_eq!(found, kept, "{head}");
    }
    assert_eq!(found.len(), kept.count(), "{head}");
    let layers = format!("{}.block_count", model.architecture);
    let layers = recipe.settings.iter().find(|setting| setting.key == layers);
    let layers = layers.and_then(|setting| setting.value.value().to_u64()).unwrap_or(0);
    assert_eq!(layers.to_string(), end, "{head}");
}

/// llama.cpp's own snapshots (tests/snapshots/*.schema as of ggml 0.25.3), with layers joined: a line
/// for the model (name, architecture, layers, heads, heads of keys, experts); its tensors that some
/// file type treats in a way of its own, as `columns x matrices`, layers and names, where columns
/// stand for all that divide alike; then for each file type the dtypes that are not its base.
#[test]
fn snapshots_of_llama_cpp() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/recipe/llama-snapshots.txt");
    let text = std::fs::read_to_string(path).expect("the snapshots");
    let sections: usize = text.trim().split("\n\n").map(check_snapshot).sum();
    assert!(sections >= 12 * 32, "{sections}");
}

/// Names and what stands before them: `q6_K 0-3,7 *ffn_down.weight *attn_v.weight`.
fn spread(line: &str) -> impl Iterator<Item = (String, &str)> {
    let mut fields = line.split(' ');
    let value = fields.next().expect("a value");
    let layers = fields.next().expect("layers");
    let layers = layers.split(',').filter(|range| *range != "-").flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.parse::<u64>().expect("a layer");
        number(first)..=number(last)
    });
    let layers: Vec<u64> = layers.collect();
    fields.flat_map(move |name| match name.strip_prefix('*') {
        Some(rest) => {
            layers.iter().map(|layer| (format!("blk.{layer}.{rest}"), value)).collect::<Vec<_>>()
        }
        None => vec![(name.to_owned(), value)],
    })
}

fn check_snapshot(text: &str) -> usize {
    let mut sections = text.split("\n[");
    let mut lines = sections.next().expect("a model").lines();
    let head = lines.next().expect("a head");
    let fields: Vec<&str> = head.split(' ').collect();
    let number = |at: usize| fields[at].parse().expect("a number");
    let model = Hparams {
        architecture: fields[1].to_owned(),
        layers: number(2),
        nextn_layers: 0,
        heads: number(3),
        kv_heads: number(4),
        experts: number(5),
        file_type: None,
    };
    let tensors: Vec<(String, [u64; 3])> = lines
        .flat_map(spread)
        .map(|(name, size)| {
            let (columns, matrices) = size.split_once('x').expect("a size");
            let number = |text: &str| text.parse().expect("a dimension");
            (name, [number(matrices), 8, number(columns)])
        })
        .collect();
    assert!(tensors.len() > 100, "{head}");
    let stored: Vec<SourceTensor<'_>> = tensors
        .iter()
        .map(|(name, shape)| SourceTensor { name, shape, dtype: DType::BF16 })
        .collect();
    let mut count = 0;
    for section in sections {
        let (name, lines) = section.split_once(']').expect("a file type");
        let options = LlamaOptions::new(FileType::from_name(name).expect("a file type"));
        let expected: HashMap<String, &str> = lines.trim().lines().flat_map(spread).collect();
        let base = options.file_type.descriptor().base.expect("a base").name();
        let recipe = LlamaRecipe::new(&model, &stored, &options).expect("a recipe");
        assert_eq!(recipe.choices.len(), tensors.len(), "{head}");
        for choice in &recipe.choices {
            let expected = expected.get(&*choice.name).copied().unwrap_or(base);
            assert!(choice.to.name().eq_ignore_ascii_case(expected), "{head} {name}: {choice:?}");
        }
        count += 1;
    }
    count
}

/// Modules with what mlx-lm 0.32.2's own predicates said of them: of small models made by its code,
/// of its mixes over many layers, and of names made up for each predicate. A line for the case (model
/// type, layers, mode, mix, group size, bits), one for each module with its shape, `=`, and `yes`,
/// `-`, or mode, bits and group size, and whether the mode is to be named in the config.
#[test]
fn mlx_lm_predicates() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/recipe/mlx-lm.txt");
    let text = std::fs::read_to_string(path).expect("the cases");
    let mut count = 0;
    for case in text.split("\n\n").filter(|case| !case.trim().is_empty()) {
        check_modules(case);
        count += 1;
    }
    assert!(count >= 60, "{count}");
}

fn check_modules(case: &str) {
    let (head, lines) = case.trim().split_once('\n').expect("a head");
    let fields: Vec<&str> = head.split(' ').collect();
    let model = mlx_lm::MlxModel {
        model_type: fields[0].to_owned(),
        layers: fields[1].parse().expect("layers"),
        layer_group_size: None,
    };
    let options = mlx_lm::MlxOptions {
        mode: mlx_lm::MlxMode::from_name(fields[2]).expect("a mode"),
        mix: mlx_lm::Mix::from_name(fields[3]),
        group_size: fields[4].parse().ok(),
        bits: fields[5].parse().ok(),
    };
    assert_eq!(options.mix.is_some(), fields[3] != "-", "{head}");
    let rows: Vec<(&str, Vec<u64>, &str)> = lines
        .lines()
        .map(|line| {
            let (module, choice) = line.split_once(" = ").expect("a choice");
            let (path, shape) = module.split_once(' ').expect("a shape");
            let shape = shape.split('x').map(|n| n.parse().expect("a dimension")).collect();
            (path, shape, choice)
        })
        .collect();
    let modules: Vec<mlx_lm::Module<'_>> =
        rows.iter().map(|(path, shape, _)| mlx_lm::Module { path, shape }).collect();
    let recipe = mlx_lm::MlxRecipe::new(&model, &modules, &options).expect("a recipe");
    let usual = recipe.config["mode"].as_str().expect("a mode");
    assert_eq!(usual, fields[2]);
    for ((path, _, expected), choice) in rows.iter().zip(&recipe.choices) {
        let named = &recipe.config[*path];
        let found = match choice {
            None => "-".to_owned(),
            Some(_) if named.is_null() => "yes".to_owned(),
            Some(choice) => {
                assert_eq!(named["bits"], choice.bits);
                assert_eq!(named["group_size"], choice.group_size);
                let (mode, short) = match named["mode"].as_str() {
                    Some(mode) => (mode, "named"),
                    None => ("affine", "short"),
                };
                let mode = mlx_lm::MlxMode::from_name(mode).expect("a mode");
                assert_eq!(mode, choice.mode);
                format!("{} {} {} {short}", mode.descriptor().name, choice.bits, choice.group_size)
            }
        };
        assert_eq!(found, *expected, "{head}: {path}");
    }
}

/// Directories that `mlx_lm.convert` wrote: what is quantized in them and how, and what their configs
/// say of it.
#[test]
fn directories_of_mlx_lm() {
    let Some(folder) = outside("") else { return };
    let affine = |bits, group_size| mlx_lm::MlxOptions {
        bits: Some(bits),
        group_size: Some(group_size),
        ..mlx_lm::MlxOptions::default()
    };
    let mode = |name| mlx_lm::MlxOptions {
        mode: mlx_lm::MlxMode::from_name(name).expect("a mode"),
        ..mlx_lm::MlxOptions::default()
    };
    let mix = mlx_lm::Mix::from_name("mixed_3_6");
    for (name, options) in [
        ("llama-q4g64-f16", mlx_lm::MlxOptions::default()),
        ("llama-q4g32-bf16-sharded", affine(4, 32)),
        ("qwen2-q5g32-f16", affine(5, 32)),
        ("qwen3-tied-q3g32-bf16", affine(3, 32)),
        ("llama-mxfp8", mode("mxfp8")),
        ("qwen2-nvfp4", mode("nvfp4")),
        ("mixtral-mxfp4", mode("mxfp4")),
        ("llama-mixed_3_6", mlx_lm::MlxOptions { mix, ..mlx_lm::MlxOptions::default() }),
    ] {
        let store = Model::open(folder.join("mlx").join(name)).expect("a model");
        let config = store.document("config.json").expect("a config");
        let model = mlx_lm::MlxModel {
            model_type: config["model_type"].as_str().expect("a type").to_owned(),
            layers: config["num_hidden_layers"].as_u64().expect("layers"),
            layer_group_size: None,
        };
        let weights: Vec<_> = store
            .stored_tensors()
            .filter_map(|tensor| {
                Some((tensor.raw_name().to_str()?.strip_suffix(".weight")?.to_owned(), tensor))
            })
            .collect();
        let modules: Vec<mlx_lm::Module<'_>> = weights
            .iter()
            .map(|(path, tensor)| mlx_lm::Module { path, shape: tensor.shape() })
            .collect();
        let recipe = mlx_lm::MlxRecipe::new(&model, &modules, &options).expect("a recipe");
        for ((path, tensor), choice) in weights.iter().zip(&recipe.choices) {
            let dtype = tensor.dtype().expect("a dtype");
            let stored = dtype.is_quantized().then_some((dtype, tensor.group_size()));
            let chosen = choice.map(|choice| (choice.dtype, Some(choice.group_size)));
            assert_eq!(chosen, stored, "{name}: {path}");
        }
        assert_eq!(recipe.config, config["quantization"], "{name}");
    }
}

/// Cases of Ollama's own tests (x/create/*_test.go as of fb307609): architecture, layers, experts, the
/// type asked for, shape and name, `=`, and the type it gets, or `-`.
#[test]
fn ollama_policies() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/recipe/ollama.txt");
    let text = std::fs::read_to_string(path).expect("the cases");
    let mut count = 0;
    for line in text.lines() {
        let (before, expected) = line.split_once(" = ").expect("a type");
        let fields: Vec<&str> = before.split(' ').collect();
        let [architecture, layers, experts, requested, shape, name] = fields[..] else {
            panic!("{line}");
        };
        let model = ollama::OllamaModel {
            architecture: architecture.to_owned(),
            layers: layers.parse().expect("layers"),
            experts: experts.parse().expect("experts"),
            ..ollama::OllamaModel::default()
        };
        let shape: Vec<u64> = shape.split('x').map(|n| n.parse().expect("a dimension")).collect();
        let requested = ollama::QuantType::from_name(requested).expect("a type");
        let found = model.choose(name, &shape, requested);
        assert_eq!(found.map_or("-", |found| found.descriptor().name), expected, "{line}");
        count += 1;
    }
    assert!(count > 130, "{count}");
}

#[test]
fn ollama_policies_without_cases_upstream() {
    use ollama::{OllamaModel, QuantType as Q};
    let json = |text: &str| weighbridge::json::Json::parse(text.as_bytes()).expect("JSON");
    let choose = |model: &OllamaModel, name: &str, asked| model.choose(name, &[2048, 2048], asked);

    let qwen = OllamaModel::of(&json(r#"{"architectures": ["Qwen3NextForCausalLM"]}"#));
    let linear = "model.layers.0.linear_attn.in_proj_";
    assert_eq!(choose(&qwen, &format!("{linear}ba.weight"), Q::Int4), None);
    assert_eq!(choose(&qwen, &format!("{linear}qkvz.weight"), Q::Int4), Some(Q::Int4));
    let gate = "model.layers.0.mlp.shared_expert_gate.weight";
    assert_eq!(choose(&qwen, gate, Q::Int8), None);

    let cohere = json(r#"{"architectures": ["Cohere2MoeForCausalLM"], "num_hidden_layers": 32}"#);
    let cohere = OllamaModel::of(&cohere);
    assert_eq!(choose(&cohere, "model.embed_tokens.weight", Q::Nvfp4), Some(Q::Mxfp8));
    let down = |layer: u64| format!("model.layers.{layer}.mlp.experts.down_proj.weight");
    let of_layers = |model: &OllamaModel, asked| -> Vec<u64> {
        let high = |layer: &u64| choose(model, &down(*layer), asked) != Some(asked);
        (0..32).filter(high).collect()
    };
    let more = [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31];
    assert_eq!(of_layers(&cohere, Q::Int4), more);
    assert!(of_layers(&cohere, Q::Mxfp8).is_empty());

    let laguna = json(
        r#"{"architectures": ["LagunaForCausalLM"], "num_hidden_layers": 32,
            "mlp_layer_types": ["dense", "sparse"]}"#,
    );
    let laguna = OllamaModel::of(&laguna);
    assert_eq!(laguna.dense_layers.iter().collect::<Vec<_>>(), [&0]);
    // As above, but every third only before layer 12; those stay as they are.
    let kept: Vec<u64> = (0..32)
        .filter(|layer| laguna.choose(&down(*layer), &[8, 64, 64], Q::Mxfp8).is_none())
        .collect();
    assert_eq!(kept, [0, 1, 2, 3, 6, 9, 28, 29, 30, 31]);

    let glimmer =
        OllamaModel::of(&json(r#"{"architectures": ["MuseGlimmerForConditionalGeneration"]}"#));
    let of_layer = |start: &str| format!("{start}.layers.0.self_attn.q_proj.weight");
    assert_eq!(choose(&glimmer, &of_layer("vision_tower"), Q::Int4), None);
    assert_eq!(choose(&glimmer, &of_layer("language_model"), Q::Int4), Some(Q::Int8));

    // Integers follow the usual rules: tensors on no list are quantized, sensitive ones to more bits.
    let chosen = |name: &str, asked| choose(&laguna, name, asked);
    let other = "model.layers.5.other.weight";
    assert_eq!(
        [Q::Int4, Q::Int8, Q::Mxfp8].map(|asked| chosen(other, asked)),
        [Some(Q::Int4), Some(Q::Int8), None]
    );
    let values = "model.layers.5.self_attn.v_proj.weight";
    assert_eq!(
        [Q::Int4, Q::Nvfp4].map(|asked| chosen(values, asked)),
        [Some(Q::Int8), Some(Q::Nvfp4)]
    );
    // Without the number of layers, there are 40.
    let unstated = OllamaModel::of(&json(r#"{"architectures": ["LagunaForCausalLM"]}"#));
    let kept: Vec<u64> = (0..40)
        .filter(|layer| unstated.choose(&down(*layer), &[8, 64, 64], Q::Mxfp8).is_none())
        .collect();
    assert_eq!(kept, [0, 1, 2, 3, 4, 7, 10, 13, 35, 36, 37, 38, 39]);

    let mut draft = OllamaModel::of(&json(r#"{"text_config": {"model_type": "gemma4_unified"}}"#));
    assert_eq!(draft.architecture, "gemma4_unified");
    assert_eq!(choose(&draft, "model.embed_tokens.weight", Q::Nvfp4), Some(Q::Mxfp8));
    draft.draft = true;
    assert_eq!(choose(&draft, "model.embed_tokens.weight", Q::Nvfp4), Some(Q::Nvfp4));
    assert_eq!(draft.choose("lm_head.weight", &[64, 63], Q::Nvfp4), None);

    assert_eq!(ollama::QuantType::from_name("FP4"), Some(Q::Int4));
    assert_eq!(ollama::QuantType::from_name("int6"), None);
    for (place, row) in ollama::TYPES.iter().enumerate() {
        assert_eq!(row.quant_type as usize, place, "{}", row.name);
    }
}
