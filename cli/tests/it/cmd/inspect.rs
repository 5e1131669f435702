//! Reports on the sample models, as text and as JSON.

use crate::support;
use crate::support::{indented, json, printed, refused, run, without};
use insta::assert_snapshot;

const GGUF: &str = "assets/sample/sample-Q8_0.gguf";
const HF: &str = "assets/sample/hf";
const MLX: &str = "assets/sample/mlx-4bit";

/// One tensor, by its stored or its canonical name; two paths are two models.
#[test]
fn inspect_a_tensor() {
    assert_snapshot!(printed(&["inspect", GGUF, "blk.0.attn_q.weight"]), @"
    blk.0.attn_q.weight
      dtype      Q8_0, 8.50 bits per weight
      shape      256 x 256
      values     65,536
      zeros      454 (0.6927 %)
      least      -0.2413 at [153, 121]
      largest    0.2382 at [11, 194]
      mean       -1.818e-4
      deviation  0.05471, RMS 0.05471
      outliers   0 values more than 6 deviations from the mean
      scales     2,048, 0 zeros, magnitudes 4.632e-4 to 0.0019

    QUANTILE     VALUE
       0.1 %   -0.1709
         1 %   -0.1279
        25 %  -0.03678
        50 %         0
        75 %   0.03658
        99 %    0.1284
      99.9 %    0.1711

           -0.2413  ▏                                             4
           -0.2173  ▏                                             13
           -0.1933  ▏                                             60
           -0.1693  ▊                                             212
           -0.1454  ██▍                                           622
           -0.1214  ██████▏                                       1555
          -0.09741  █████████████▋                                3470
          -0.07344  ███████████████████████▊                      6051
          -0.04946  ███████████████████████████████████▋          9042
          -0.02549  ████████████████████████████████████████████  11158
         -0.001514  ███████████████████████████████████████████▊  11123
           0.02246  █████████████████████████████████████▏        9434
           0.04644  █████████████████████████▎                    6425
           0.07041  ██████████████▏                               3612
           0.09439  ██████▊                                       1716
            0.1184  ██▊                                           716
            0.1423  ▉                                             228
            0.1663  ▎                                             71
            0.1903  ▏                                             21
            0.2143  ▏                                             3
    ");
    let norm = printed(&["inspect", MLX, "layers.1.ffn_norm.weight"]);
    assert!(norm.starts_with("layers.1.ffn_norm.weight\n  stored "), "{norm}");
    let json = json(&["inspect", GGUF, "blk.0.attn_q.weight", "--json"]);
    assert_eq!((&json["name"], &json["elements"]), (&"blk.0.attn_q.weight".into(), &65536.into()));
    assert_eq!(json["path"], GGUF);
    let two = printed(&["inspect", HF, GGUF]);
    assert!(
        two.contains("format         safetensors") && two.contains("format         gguf"),
        "{two}"
    );
    assert!(two.starts_with(HF) && two.contains(&format!("\n\n{GGUF}\n")), "{two}");
    let none = run(&["inspect", GGUF, "blk.9.attn_q.weight"]);
    assert_eq!(none.status, Some(5));
    assert!(none.err.contains("neither a model nor a tensor of"), "{}", none.err);
    assert!(none.err.contains("\n help: "), "{}", none.err);
    assert_eq!(none.out, "");
    let other = run(&["inspect", GGUF, "blk.0.attn_q.weight", "--all"]);
    assert_eq!(other.status, Some(0), "{}", other.err);
    assert_eq!(other.out.matches("blk.").count(), 1, "{}", other.out);
}

#[test]
fn inspect_the_values_of_all_tensors() {
    assert_snapshot!(printed(&["inspect", GGUF, "--stats", "--filter", "blk.1.*"]), @"
    assets/sample/sample-Q8_0.gguf

    NAME                      DTYPE      SHAPE      MIN     MAX       MEAN  DEVIATION     ZEROS  OUTLIERS  NAN, INF
    blk.1.attn_k.weight       Q8_0   128 x 256  -0.2129  0.2373  -2.785e-5     0.0519  0.7202 %         0         0
    blk.1.attn_norm.weight    F32          256    0.543   0.918     0.7539    0.05294       0 %         0         0
    blk.1.attn_output.weight  Q8_0   256 x 256  -0.2461  0.2471  -7.938e-5    0.05506  0.7126 %         0         0
    blk.1.attn_q.weight       Q8_0   256 x 256  -0.2793   0.287   1.860e-4    0.05584  0.7721 %         0         0
    blk.1.attn_v.weight       Q8_0   128 x 256  -0.2442  0.2207  -2.080e-4    0.05343   0.769 %         0         0
    blk.1.ffn_down.weight     Q8_0   256 x 512  -0.4825  0.4687  -9.429e-6    0.06416  0.9117 %        26         0
    blk.1.ffn_gate.weight     Q8_0   512 x 256  -0.3241  0.3437   3.323e-4    0.06784  0.7004 %         0         0
    blk.1.ffn_norm.weight     F32          256   0.7539   1.133     0.9749    0.06688       0 %         0         0
    blk.1.ffn_up.weight       Q8_0   512 x 256  -0.3457   0.336  -1.939e-4     0.0662  0.7339 %         0         0

    outliers are more than 6 deviations away from the mean
    ");
    let json = json(&["inspect", GGUF, "--stats", "--json"]);
    let tensors = json["tensors"].as_array().expect("tensors");
    assert_eq!(tensors.len(), 20);
    for tensor in tensors {
        let name = tensor["name"].as_str().expect("a name");
        let alone = support::json(&["inspect", GGUF, name, "--json"]);
        for member in
            ["elements", "zeros", "outliers", "min", "max", "mean", "deviation", "quantiles"]
        {
            assert_eq!(tensor[member], alone[member], "{name}: {member}");
        }
    }
    let none = refused(&["inspect", GGUF, "--stats", "--filter", "nothing"]);
    assert!(none.starts_with("5\n"), "{none}");
}

#[test]
fn inspect_what_is_odd() {
    let header = r#"{"a":{"dtype":"F32","shape":[4,2],"data_offsets":[0,32]},"b":{"dtype":"F32","shape":[4,2],"data_offsets":[32,64]},"c":{"dtype":"F32","shape":[2],"data_offsets":[64,72]}}"#;
    let matrix = [1.0f32, 2.0, 0.0, 0.0, 3.0, 4.0, 5.0, 6.0];
    let data = [&matrix[..], &matrix, &[1.0, f32::NAN]].concat();
    let data: Vec<u8> = data.iter().flat_map(|value| value.to_le_bytes()).collect();
    let (_folder, path) = support::file("odd.safetensors", &support::safetensors(header, &data));
    let text = printed(&["inspect", &path, "--findings"]);
    assert_snapshot!(text.replace(&path, "odd.safetensors"), @"
    odd.safetensors

    NAME  FINDING
    c     1 value is NaN or infinite, the first at 1
    a     row 1 of 4 is 0
    b     row 1 of 4 is 0
    b     has the same values as a

    4 findings in 3 tensors
    ");
    let one = printed(&["inspect", &path, "--findings", "--filter", "b"]);
    assert!(one.ends_with("2 findings in 3 tensors\n") && !one.contains("\nc "), "{one}");
    let found = json(&["inspect", &path, "--findings", "--json"]);
    assert_eq!((&found["total"], &found["tensors"]), (&4.into(), &3.into()));
    let kinds = found["findings"].as_array().expect("a list").iter().map(|one| &one["kind"]);
    assert_eq!(kinds.collect::<Vec<_>>(), ["not-finite", "dead-rows", "dead-rows", "duplicate"]);
    assert_eq!(found["findings"][1]["rows"], serde_json::json!([1, 2]));
    let none = printed(&["inspect", GGUF, "--findings", "--filter", "blk."]);
    assert_eq!(none, format!("{GGUF}\n\n0 findings in 20 tensors\n"));
    let unknown = refused(&["inspect", GGUF, "--findings", "--filter", "nothing"]);
    assert!(unknown.starts_with("5\n"), "{unknown}");
}

/// Tensors that cannot be decoded do not hide the others.
#[test]
fn inspect_values_that_cannot_be_read() {
    let header = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"c":{"dtype":"C64","shape":[1],"data_offsets":[8,16]}}"#;
    let (_folder, path) = support::file("odd.safetensors", &support::safetensors(header, &[0; 16]));
    let all = run(&["inspect", &path, "--stats"]);
    assert_eq!(all.status, Some(4), "{}", all.err);
    assert!(all.out.contains("a     F32") && all.out.contains("c     C64"), "{}", all.out);
    let one = refused(&["inspect", &path, "c"]);
    assert!(one.starts_with("4\nerror: "), "{one}");
}

#[test]
fn inspect() {
    assert_snapshot!(printed(&["inspect", GGUF]), @r#"
    assets/sample/sample-Q8_0.gguf
      name           Weighbridge tales
      format         gguf version 3
      type           Q8_0, 8.52 bits per weight
      size           1.3 MiB, 1.31 M weights in 20 tensors
      size label     1.3M
      context        256 tokens
      license        not stated
      chat template  no
      capabilities   completion
      family         llama (general.architecture is "llama")
      layers         2 of width 256, feed-forward 512
      attention      4 heads of size 64 (2 for k and v), rope layout interleaved
      vocabulary     512 (tied)
      names          20 mapped, 0 unknown, 0 missing

    NAME                          CANONICAL                             DTYPE      SHAPE   BITS       SIZE
    blk.[0-1].attn_k.weight       layers.[0-1].attention.k.weight       Q8_0   128 x 256   8.50   68.0 KiB
    blk.[0-1].attn_norm.weight    layers.[0-1].attention_norm.weight    F32          256  32.00    2.0 KiB
    blk.[0-1].attn_output.weight  layers.[0-1].attention.output.weight  Q8_0   256 x 256   8.50  136.0 KiB
    blk.[0-1].attn_q.weight       layers.[0-1].attention.q.weight       Q8_0   256 x 256   8.50  136.0 KiB
    blk.[0-1].attn_v.weight       layers.[0-1].attention.v.weight       Q8_0   128 x 256   8.50   68.0 KiB
    blk.[0-1].ffn_down.weight     layers.[0-1].ffn.down.weight          Q8_0   256 x 512   8.50  272.0 KiB
    blk.[0-1].ffn_gate.weight     layers.[0-1].ffn.gate.weight          Q8_0   512 x 256   8.50  272.0 KiB
    blk.[0-1].ffn_norm.weight     layers.[0-1].ffn_norm.weight          F32          256  32.00    2.0 KiB
    blk.[0-1].ffn_up.weight       layers.[0-1].ffn.up.weight            Q8_0   512 x 256   8.50  272.0 KiB
    output_norm.weight            output_norm.weight                    F32          256  32.00    1.0 KiB
    token_embd.weight             token_embedding.weight                Q8_0   512 x 256   8.50  136.0 KiB
    "#);
    assert_snapshot!(printed(&["inspect", HF]), @r#"
    assets/sample/hf
      format         safetensors
      type           BF16, 16.00 bits per weight
      size           2.5 MiB, 1.31 M weights in 20 tensors
      size label     1.3M
      context        256 tokens
      license        not stated
      chat template  no
      capabilities   completion
      family         llama (config.json model_type is "llama")
      layers         2 of width 256, feed-forward 512
      attention      4 heads of size 64 (2 for k and v), rope layout half_split
      vocabulary     512 (tied)
      names          20 mapped, 0 unknown, 0 missing

    NAME                                                CANONICAL                             DTYPE      SHAPE   BITS       SIZE
    model.embed_tokens.weight                           token_embedding.weight                BF16   512 x 256  16.00  256.0 KiB
    model.layers.[0-1].input_layernorm.weight           layers.[0-1].attention_norm.weight    BF16         256  16.00    1.0 KiB
    model.layers.[0-1].mlp.down_proj.weight             layers.[0-1].ffn.down.weight          BF16   256 x 512  16.00  512.0 KiB
    model.layers.[0-1].mlp.gate_proj.weight             layers.[0-1].ffn.gate.weight          BF16   512 x 256  16.00  512.0 KiB
    model.layers.[0-1].mlp.up_proj.weight               layers.[0-1].ffn.up.weight            BF16   512 x 256  16.00  512.0 KiB
    model.layers.[0-1].post_attention_layernorm.weight  layers.[0-1].ffn_norm.weight          BF16         256  16.00    1.0 KiB
    model.layers.[0-1].self_attn.k_proj.weight          layers.[0-1].attention.k.weight       BF16   128 x 256  16.00  128.0 KiB
    model.layers.[0-1].self_attn.o_proj.weight          layers.[0-1].attention.output.weight  BF16   256 x 256  16.00  256.0 KiB
    model.layers.[0-1].self_attn.q_proj.weight          layers.[0-1].attention.q.weight       BF16   256 x 256  16.00  256.0 KiB
    model.layers.[0-1].self_attn.v_proj.weight          layers.[0-1].attention.v.weight       BF16   128 x 256  16.00  128.0 KiB
    model.norm.weight                                   output_norm.weight                    BF16         256  16.00      512 B
    "#);
    assert_snapshot!(printed(&["inspect", MLX]), @r#"
    assets/sample/mlx-4bit
      format         mlx
      type           MLX_AFFINE4 g64, 4.51 bits per weight
      size           727.5 KiB, 1.31 M weights in 20 tensors
      size label     1.3M
      context        256 tokens
      license        not stated
      chat template  no
      capabilities   completion
      family         llama (config.json model_type is "llama")
      layers         2 of width 256, feed-forward 512
      attention      4 heads of size 64 (2 for k and v), rope layout half_split
      vocabulary     512 (tied)
      names          20 mapped, 0 unknown, 0 missing

    NAME                                                CANONICAL                             DTYPE            SHAPE   BITS       SIZE
    model.embed_tokens.weight                           token_embedding.weight                MLX_AFFINE4  512 x 256   4.50   72.0 KiB
    model.layers.[0-1].input_layernorm.weight           layers.[0-1].attention_norm.weight    BF16               256  16.00    1.0 KiB
    model.layers.[0-1].mlp.down_proj.weight             layers.[0-1].ffn.down.weight          MLX_AFFINE4  256 x 512   4.50  144.0 KiB
    model.layers.[0-1].mlp.gate_proj.weight             layers.[0-1].ffn.gate.weight          MLX_AFFINE4  512 x 256   4.50  144.0 KiB
    model.layers.[0-1].mlp.up_proj.weight               layers.[0-1].ffn.up.weight            MLX_AFFINE4  512 x 256   4.50  144.0 KiB
    model.layers.[0-1].post_attention_layernorm.weight  layers.[0-1].ffn_norm.weight          BF16               256  16.00    1.0 KiB
    model.layers.[0-1].self_attn.k_proj.weight          layers.[0-1].attention.k.weight       MLX_AFFINE4  128 x 256   4.50   36.0 KiB
    model.layers.[0-1].self_attn.o_proj.weight          layers.[0-1].attention.output.weight  MLX_AFFINE4  256 x 256   4.50   72.0 KiB
    model.layers.[0-1].self_attn.q_proj.weight          layers.[0-1].attention.q.weight       MLX_AFFINE4  256 x 256   4.50   72.0 KiB
    model.layers.[0-1].self_attn.v_proj.weight          layers.[0-1].attention.v.weight       MLX_AFFINE4  128 x 256   4.50   36.0 KiB
    model.norm.weight                                   output_norm.weight                    BF16               256  16.00      512 B
    "#);
}

#[test]
fn inspect_some() {
    assert_snapshot!(printed(&["inspect", GGUF, "--filter", "*.ffn.*", "--all"]), @r#"
    assets/sample/sample-Q8_0.gguf
      name           Weighbridge tales
      format         gguf version 3
      type           Q8_0, 8.52 bits per weight
      size           1.3 MiB, 1.31 M weights in 20 tensors
      size label     1.3M
      context        256 tokens
      license        not stated
      chat template  no
      capabilities   completion
      family         llama (general.architecture is "llama")
      layers         2 of width 256, feed-forward 512
      attention      4 heads of size 64 (2 for k and v), rope layout interleaved
      vocabulary     512 (tied)
      names          20 mapped, 0 unknown, 0 missing

    NAME                   CANONICAL                 DTYPE      SHAPE  BITS       SIZE
    blk.0.ffn_down.weight  layers.0.ffn.down.weight  Q8_0   256 x 512  8.50  136.0 KiB
    blk.0.ffn_gate.weight  layers.0.ffn.gate.weight  Q8_0   512 x 256  8.50  136.0 KiB
    blk.0.ffn_up.weight    layers.0.ffn.up.weight    Q8_0   512 x 256  8.50  136.0 KiB
    blk.1.ffn_down.weight  layers.1.ffn.down.weight  Q8_0   256 x 512  8.50  136.0 KiB
    blk.1.ffn_gate.weight  layers.1.ffn.gate.weight  Q8_0   512 x 256  8.50  136.0 KiB
    blk.1.ffn_up.weight    layers.1.ffn.up.weight    Q8_0   512 x 256  8.50  136.0 KiB
    "#);
    assert_snapshot!(printed(&["inspect", HF, "--filter", "model.norm*"]), @r#"
    assets/sample/hf
      format         safetensors
      type           BF16, 16.00 bits per weight
      size           2.5 MiB, 1.31 M weights in 20 tensors
      size label     1.3M
      context        256 tokens
      license        not stated
      chat template  no
      capabilities   completion
      family         llama (config.json model_type is "llama")
      layers         2 of width 256, feed-forward 512
      attention      4 heads of size 64 (2 for k and v), rope layout half_split
      vocabulary     512 (tied)
      names          20 mapped, 0 unknown, 0 missing

    NAME               CANONICAL           DTYPE  SHAPE   BITS   SIZE
    model.norm.weight  output_norm.weight  BF16     256  16.00  512 B
    "#);
    assert_snapshot!(refused(&["inspect", HF, "--filter", "nothing"]), @r#"
    5
    error: assets/sample/hf: no tensor name matches "nothing"
     help: `weighbridge inspect --all` lists the names
    "#);
    let metadata = printed(&["inspect", GGUF, "--metadata", "--filter", "output_norm.weight"]);
    assert_snapshot!(metadata, @r#"
    assets/sample/sample-Q8_0.gguf
      name           Weighbridge tales
      format         gguf version 3
      type           Q8_0, 8.52 bits per weight
      size           1.3 MiB, 1.31 M weights in 20 tensors
      size label     1.3M
      context        256 tokens
      license        not stated
      chat template  no
      capabilities   completion
      family         llama (general.architecture is "llama")
      layers         2 of width 256, feed-forward 512
      attention      4 heads of size 64 (2 for k and v), rope layout interleaved
      vocabulary     512 (tied)
      names          20 mapped, 0 unknown, 0 missing

    KEY                                     TYPE    VALUE
    general.architecture                    string  "llama"
    general.type                            string  "model"
    general.name                            string  "Weighbridge tales"
    general.size_label                      string  "1.3M"
    llama.block_count                       u32     2
    llama.context_length                    u32     256
    llama.embedding_length                  u32     256
    llama.feed_forward_length               u32     512
    llama.attention.head_count              u32     4
    llama.attention.head_count_kv           u32     2
    llama.rope.freq_base                    f32     10000
    llama.attention.layer_norm_rms_epsilon  f32     0.00001
    llama.attention.key_length              u32     64
    llama.attention.value_length            u32     64
    llama.vocab_size                        u32     512
    llama.rope.dimension_count              u32     64
    tokenizer.ggml.model                    string  "gpt2"
    tokenizer.ggml.pre                      string  "gpt-2"
    tokenizer.ggml.tokens                   array   512 of string: ["<s>", "</s>", "!", "\"", ...]
    tokenizer.ggml.token_type               array   512 of i32: [3, 3, 1, 1, ...]
    tokenizer.ggml.merges                   array   254 of string: ["Ġ t", "h e", "Ġ a", "Ġ s", ...]
    tokenizer.ggml.bos_token_id             u32     0
    tokenizer.ggml.eos_token_id             u32     1
    general.quantization_version            u32     2
    general.file_type                       u32     7

    NAME                CANONICAL           DTYPE  SHAPE   BITS     SIZE
    output_norm.weight  output_norm.weight  F32      256  32.00  1.0 KiB
    "#);
}

/// Name, context, license and template of a directory stand in four of its files.
#[test]
fn what_people_look_for_first() {
    let header = "{\"lm_head.weight\":{\"dtype\":\"BF16\",\"shape\":[1,2],\"data_offsets\":[0,4]}}";
    let (folder, _) = support::file("model.safetensors", &support::safetensors(header, &[0; 4]));
    let path = folder.path().to_str().expect("a path in UTF-8");
    let write =
        |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect(name);
    write("config.json", "{\"model_type\":\"none\",\"_name_or_path\":\"me/Tales-1B\"}");
    write("README.md", "---\nlicense: apache-2.0\n---\n# Tales\n");
    let head = || {
        let text = printed(&["inspect", path]).replace(path, "FOLDER");
        text.split_once("  names").expect("names").0.to_owned()
    };
    assert_snapshot!(head(), @"
    FOLDER
      name           Tales-1B
      format         safetensors
      type           BF16, 16.00 bits per weight
      size           82 B, 2 weights in 1 tensor
      license        apache-2.0
      chat template  no
      capabilities   completion
    ");
    write("chat_template.jinja", "{{ messages }}");
    assert!(head().contains("\n  chat template  yes\n"), "{}", head());
    let summary = json(&["inspect", path, "--json"])["summary"].clone();
    assert_eq!(
        summary,
        serde_json::json!({
            "name": "Tales-1B", "version": null, "file_type": null, "main_dtype": "BF16",
            "bits_per_weight": 16.0, "context_length": null, "license": "apache-2.0",
            "chat_template": true, "size_label": null, "capabilities": ["completion"],
            "base_models": [], "active_weights": null
        })
    );
    let summary = json(&["inspect", GGUF, "--json"])["summary"].clone();
    assert_eq!([&summary["name"], &summary["file_type"]], ["Weighbridge tales", "Q8_0"]);
    assert_eq!([&summary["version"], &summary["context_length"]], [3, 256]);
}

#[test]
fn dry_runs_say_which_tensors_go_into_which_file() {
    let split = ["split", GGUF, "tales", "--max-tensors", "15", "--dry-run"];
    assert_snapshot!(printed(&split), @"
    tales
      name           Weighbridge tales
      format         gguf, 2 files
      type           Q8_0, 8.52 bits per weight
      size           1.3 MiB, 1.31 M weights in 20 tensors
      size label     1.3M
      context        256 tokens
      license        not stated
      chat template  no
      capabilities   completion
      tensors        20 copied; all values unchanged

    FILE  NAME                       TENSORS       SIZE
       1  tales-00001-of-00002.gguf       15  934.6 KiB
       2  tales-00002-of-00002.gguf        5  443.4 KiB

    FILE  NAME                          DTYPE      SHAPE       SIZE
       1  blk.[0-1].attn_k.weight       Q8_0   128 x 256   68.0 KiB
       1  blk.[0-1].attn_norm.weight    F32          256    2.0 KiB
       1  blk.[0-1].attn_output.weight  Q8_0   256 x 256  136.0 KiB
       1  blk.[0-1].attn_q.weight       Q8_0   256 x 256  136.0 KiB
       1  blk.0.attn_v.weight           Q8_0   128 x 256   34.0 KiB
       1  blk.0.ffn_down.weight         Q8_0   256 x 512  136.0 KiB
       1  blk.0.ffn_gate.weight         Q8_0   512 x 256  136.0 KiB
       1  blk.0.ffn_norm.weight         F32          256    1.0 KiB
       1  blk.0.ffn_up.weight           Q8_0   512 x 256  136.0 KiB
       1  output_norm.weight            F32          256    1.0 KiB
       1  token_embd.weight             Q8_0   512 x 256  136.0 KiB
       2  blk.1.attn_v.weight           Q8_0   128 x 256   34.0 KiB
       2  blk.1.ffn_down.weight         Q8_0   256 x 512  136.0 KiB
       2  blk.1.ffn_gate.weight         Q8_0   512 x 256  136.0 KiB
       2  blk.1.ffn_norm.weight         F32          256    1.0 KiB
       2  blk.1.ffn_up.weight           Q8_0   512 x 256  136.0 KiB

    dry run: nothing was written
    ");
    let files = json(&[&split[..], &["--json"]].concat())["files"].clone();
    let names = |file: usize| files[file]["tensors"].as_array().expect("names").len();
    assert_eq!((files[0]["name"].as_str(), names(0)), (Some("tales-00001-of-00002.gguf"), 15));
    assert_eq!((files[1]["name"].as_str(), names(1)), (Some("tales-00002-of-00002.gguf"), 5));
    // Layers are folded, unless each tensor is to be shown.
    let rows = |more: &[&str]| {
        let dry = ["convert", HF, "out.gguf", "--to", "gguf", "--dry-run"];
        printed(&[&dry[..], more].concat()).lines().filter(|line| line.contains(" BF16 ")).count()
    };
    assert_eq!((rows(&[]), rows(&["--all"])), (11, 20));
}

/// Tensors that lose values, with the reason.
#[test]
fn dry_runs_give_reasons() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let quantized = folder.path().join("q.gguf");
    let quantized = quantized.to_str().expect("a path in UTF-8");
    let words = ["quantize", GGUF, quantized, "--type", "Q4_K_M", "--allow-requantize"];
    let said = printed(&words);
    let line = said.lines().find(|line| line.starts_with("requantization error: "));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains(" % relative RMS in ") && line.contains(" (Q8_0), the largest of 15"));
    let dry = printed(&["convert", quantized, "mlx", "--to", "mlx", "--dry-run"]);
    assert_snapshot!(dry.split("\n\n").nth(3).expect("reasons"), @"
    rounded: all floats of an MLX directory have one dtype (model.norm.weight and 4 more)
    requantized: MLX has no lossless equivalent of Q6_K (model.embed_tokens.weight and 2 more)
    rounded: its scales are rounded to BF16 (model.layers.0.self_attn.k_proj.weight and 11 more)
    left out: describes the file of the source (general.type and 3 more)
    left out: no document is written that states it (general.name)
    ");
}

#[test]
fn inspect_by_one_kind_of_name() {
    assert_snapshot!(printed(&["inspect", GGUF, "--canonical"]), @r#"
    assets/sample/sample-Q8_0.gguf
      name           Weighbridge tales
      format         gguf version 3
      type           Q8_0, 8.52 bits per weight
      size           1.3 MiB, 1.31 M weights in 20 tensors
      size label     1.3M
      context        256 tokens
      license        not stated
      chat template  no
      capabilities   completion
      family         llama (general.architecture is "llama")
      layers         2 of width 256, feed-forward 512
      attention      4 heads of size 64 (2 for k and v), rope layout interleaved
      vocabulary     512 (tied)
      names          20 mapped, 0 unknown, 0 missing

    NAME                                  DTYPE      SHAPE  DERIVATION      STORED
    layers.[0-1].attention.k.weight       Q8_0   128 x 256  rows reordered  blk.[0-1].attn_k.weight
    layers.[0-1].attention.output.weight  Q8_0   256 x 256  as stored       blk.[0-1].attn_output.weight
    layers.[0-1].attention.q.weight       Q8_0   256 x 256  rows reordered  blk.[0-1].attn_q.weight
    layers.[0-1].attention.v.weight       Q8_0   128 x 256  as stored       blk.[0-1].attn_v.weight
    layers.[0-1].attention_norm.weight    F32          256  as stored       blk.[0-1].attn_norm.weight
    layers.[0-1].ffn.down.weight          Q8_0   256 x 512  as stored       blk.[0-1].ffn_down.weight
    layers.[0-1].ffn.gate.weight          Q8_0   512 x 256  as stored       blk.[0-1].ffn_gate.weight
    layers.[0-1].ffn.up.weight            Q8_0   512 x 256  as stored       blk.[0-1].ffn_up.weight
    layers.[0-1].ffn_norm.weight          F32          256  as stored       blk.[0-1].ffn_norm.weight
    output_norm.weight                    F32          256  as stored       output_norm.weight
    token_embedding.weight                Q8_0   512 x 256  as stored       token_embd.weight
    "#);
    assert_snapshot!(printed(&["inspect", MLX, "--stored", "--filter", "*layers.0.mlp*"]), @"
    assets/sample/mlx-4bit
      format         mlx
      type           MLX_AFFINE4 g64, 4.51 bits per weight
      size           727.5 KiB, 1.31 M weights in 20 tensors
      size label     1.3M
      context        256 tokens
      license        not stated
      chat template  no
      capabilities   completion

    NAME                                 DTYPE            SHAPE  BITS      SIZE
    model.layers.0.mlp.down_proj.weight  MLX_AFFINE4  256 x 512  4.50  72.0 KiB
    model.layers.0.mlp.gate_proj.weight  MLX_AFFINE4  512 x 256  4.50  72.0 KiB
    model.layers.0.mlp.up_proj.weight    MLX_AFFINE4  512 x 256  4.50  72.0 KiB
    ");
    // Names that are told apart: a tensor of no architecture, and one that the config explains.
    let header = "{\"model.norm.weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\
                   \"model.layers.0.self_attn.rotary_emb.inv_freq\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]},\
                   \"extra\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}";
    let (folder, _) = support::file("model.safetensors", &support::safetensors(header, &[0; 12]));
    let config = folder.path().join("config.json");
    let path = folder.path().to_str().expect("a path in UTF-8");
    std::fs::write(&config, "{\"model_type\":\"llama\"}").expect("a config");
    let table = |arguments: &[&str]| {
        let text = printed(&[&["inspect", path], arguments].concat());
        text.split_once("\n\n").expect("a table").1.to_owned()
    };
    assert_snapshot!(table(&["--canonical"]), @"
    NAME                DTYPE  SHAPE  DERIVATION                                             STORED
    output_norm.weight  F32        1  as stored                                              model.norm.weight
    -                   F32        1  no canonical name                                      extra
    -                   F32        1  rotary frequencies, which are derived from the config  model.layers.0.self_attn.rotary_emb.inv_freq
    ");
    std::fs::write(&config, "{\"model_type\":\"nobody-knows\"}").expect("a config");
    assert_snapshot!(table(&["--canonical"]), @"
    NAME  DTYPE  SHAPE  DERIVATION                                             STORED
    -     F32        1  no canonical name                                      extra
    -     F32        1  rotary frequencies, which are derived from the config  model.layers.0.self_attn.rotary_emb.inv_freq
    -     F32        1  no canonical name                                      model.norm.weight
    ");
    assert_snapshot!(table(&["--stored"]), @"
    NAME                                          DTYPE  SHAPE   BITS  SIZE
    extra                                         F32        1  32.00   4 B
    model.layers.0.self_attn.rotary_emb.inv_freq  F32        1  32.00   4 B
    model.norm.weight                             F32        1  32.00   4 B
    ");
}

#[test]
fn config() {
    assert_snapshot!(printed(&["inspect", "--config", GGUF]), @r#"
    FIELD                       VALUE  SOURCE
    architecture                llama  general.architecture
    family                      llama  general.architecture is "llama"
    dim                           256  llama.embedding_length
    n_layers                        2  llama.block_count
    n_heads                         4  llama.attention.head_count
    n_kv_heads                      2  llama.attention.head_count_kv
    head_dim                       64  llama.attention.key_length
    q_dim                         256  n_heads * head_dim
    kv_dim                        128  n_kv_heads * head_dim
    ffn_dim                       512  llama.feed_forward_length
    vocab_size                    512  rows of token_embd.weight
    max_seq_len                   256  llama.context_length
    norm_kind                     rms  llama.attention.layer_norm_rms_epsilon
    norm_eps                  0.00001  llama.attention.layer_norm_rms_epsilon
    activation                   silu  default of llama
    rope_theta                  10000  llama.rope.freq_base
    tie_embeddings               true  no output matrix is stored
    n_experts                       0  default

    value_head_dim                 64  llama.attention.value_length

    rope_layout           interleaved  rows permuted by the converter to GGUF
    rope_dimension_count           64  llama.rope.dimension_count
    rope_scaling_kind            none  default

    tokenizer                     bpe  tokenizer.ggml.model
    pre_tokenizer               gpt-2  tokenizer.ggml.pre
    n_tokens                      512  tokenizer.ggml.model
    n_merges                      254  tokenizer.ggml.model
    bos_token                       0  tokenizer.ggml.bos_token_id
    eos_token                       1  tokenizer.ggml.eos_token_id

    STORED AS  GROUP  TENSORS  WEIGHTS   BITS     SIZE
    Q8_0           -       15   1.31 M   8.50  1.3 MiB
    F32            -        5   1.28 k  32.00  5.0 KiB
    total                  20   1.31 M   8.52  1.3 MiB
    "#);
    assert_snapshot!(printed(&["inspect", "--config", HF]), @r#"
    FIELD                      VALUE  SOURCE
    architecture               llama  config.json model_type
    family                     llama  config.json model_type is "llama"
    dim                          256  config.json hidden_size
    n_layers                       2  config.json num_hidden_layers
    n_heads                        4  config.json num_attention_heads
    n_kv_heads                     2  config.json num_key_value_heads
    head_dim                      64  config.json head_dim
    q_dim                        256  n_heads * head_dim
    kv_dim                       128  n_kv_heads * head_dim
    ffn_dim                      512  config.json intermediate_size
    vocab_size                   512  rows of model.embed_tokens.weight
    max_seq_len                  256  config.json max_position_embeddings
    norm_kind                    rms  config.json rms_norm_eps
    norm_eps                 0.00001  config.json rms_norm_eps
    activation                  silu  config.json hidden_act
    rope_theta                 10000  config.json rope_parameters.rope_theta
    tie_embeddings              true  no output matrix is stored
    n_experts                      0  default

    value_head_dim                64  same as head_dim

    rope_layout           half_split  hugging_face names
    rope_dimension_count          64  head_dim
    rope_scaling_kind           none  config.json rope_parameters.rope_type

    tokenizer                    bpe  tokenizer.json
    n_tokens                     512  tokenizer.json
    n_merges                     254  tokenizer.json
    bos_token                      0  tokenizer_config.json bos_token
    eos_token                      1  tokenizer_config.json eos_token

    bos_token_id                   0  generation_config.json bos_token_id
    eos_token_id                   1  generation_config.json eos_token_id

    STORED AS  GROUP  TENSORS  WEIGHTS   BITS     SIZE
    BF16           -       20   1.31 M  16.00  2.5 MiB

    13 unused keys (--json lists them)
    "#);
    assert_snapshot!(printed(&["inspect", "--config", MLX]), @r#"
    FIELD                      VALUE  SOURCE
    architecture               llama  config.json model_type
    family                     llama  config.json model_type is "llama"
    dim                          256  config.json hidden_size
    n_layers                       2  config.json num_hidden_layers
    n_heads                        4  config.json num_attention_heads
    n_kv_heads                     2  config.json num_key_value_heads
    head_dim                      64  config.json head_dim
    q_dim                        256  n_heads * head_dim
    kv_dim                       128  n_kv_heads * head_dim
    ffn_dim                      512  config.json intermediate_size
    vocab_size                   512  rows of model.embed_tokens.weight
    max_seq_len                  256  config.json max_position_embeddings
    norm_kind                    rms  config.json rms_norm_eps
    norm_eps                 0.00001  config.json rms_norm_eps
    activation                  silu  config.json hidden_act
    rope_theta                 10000  config.json rope_parameters.rope_theta
    tie_embeddings              true  no output matrix is stored
    n_experts                      0  default

    value_head_dim                64  same as head_dim

    rope_layout           half_split  mlx names
    rope_dimension_count          64  head_dim
    rope_scaling_kind           none  config.json rope_parameters.rope_type

    tokenizer                    bpe  tokenizer.json
    n_tokens                     512  tokenizer.json
    n_merges                     254  tokenizer.json
    bos_token                      0  tokenizer_config.json bos_token
    eos_token                      1  tokenizer_config.json eos_token

    bos_token_id                   0  generation_config.json bos_token_id
    eos_token_id                   1  generation_config.json eos_token_id

    STORED AS    GROUP  TENSORS  WEIGHTS   BITS       SIZE
    MLX_AFFINE4     64       15   1.31 M   4.50  720.0 KiB
    BF16             -        5   1.28 k  16.00    2.5 KiB
    total                    20   1.31 M   4.51  722.5 KiB

    13 unused keys (--json lists them)
    "#);
}

/// The same model in three forms has one config.
#[test]
fn configs_agree() {
    let values = |path: &str| {
        let json = json(&["inspect", "--config", path, "--json"]);
        let config = json["config"].as_object().expect("an object").clone();
        let fields = config.into_iter().filter(|(name, _)| name != "rope_layout");
        fields.map(|(name, field)| format!("{name}: {}\n", field["value"])).collect::<String>()
    };
    assert_snapshot!(values(GGUF), @r#"
    architecture: "llama"
    family: "llama"
    dim: 256
    n_layers: 2
    n_heads: 4
    n_kv_heads: 2
    head_dim: 64
    q_dim: 256
    kv_dim: 128
    ffn_dim: 512
    vocab_size: 512
    max_seq_len: 256
    norm_kind: "rms"
    norm_eps: 0.00001
    activation: "silu"
    rope_theta: 10000.0
    tie_embeddings: true
    n_experts: 0
    value_head_dim: 64
    rope_dimension_count: 64
    rope_scaling_kind: "none"
    "#);
    assert_eq!(values(HF), values(GGUF));
    assert_eq!(values(MLX), values(GGUF));
}

#[test]
fn verify() {
    assert_snapshot!(printed(&["verify", GGUF]), @"assets/sample/sample-Q8_0.gguf: ok: 1 file, 20 tensors; checked headers, names, shapes, byte ranges; content not compared: no checksum is known");
    assert_snapshot!(printed(&["verify", GGUF, "--strict"]), @"assets/sample/sample-Q8_0.gguf: ok: 1 file, 20 tensors; checked headers, names, shapes, byte ranges; content not compared: no checksum is known");
    assert_snapshot!(printed(&["verify", HF, "--strict", "--no-map"]), @"assets/sample/hf: ok: 1 file, 20 tensors; checked headers, names, shapes, byte ranges; content not compared: no checksum is known");
    assert_snapshot!(printed(&["verify", MLX]), @"assets/sample/mlx-4bit: ok: 1 file, 20 tensors; checked headers, names, shapes, byte ranges; content not compared: no checksum is known");
    assert_snapshot!(indented(&printed(&["verify", HF, "--json"])), @r#"
    {
      "schema": 1,
      "path": "assets/sample/hf",
      "ok": true,
      "digests": 0,
      "tensors": 20,
      "faults": [],
      "notes": []
    }
    "#);
}

#[test]
fn list() {
    assert_snapshot!(printed(&["list", "containers"]), @"
    NAME          DESCRIPTION
    gguf          GGUF files of llama.cpp: versions 1 to 3, both byte orders, split
    whisper-ggml  older files of whisper.cpp: whisper, parakeet, silero-vad models
    ollama        models in Ollama's store: GGUF and tensor blobs
    mlx           directories quantized by MLX: packed weights, scales and biases
    safetensors   safetensors files and Hugging Face directories, whole or in shards
    ");
    // A family adds a line, and docs/families.md holds all of them.
    let families = printed(&["list", "architectures"]);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut lines = families.lines().map(words);
    assert_eq!(lines.next().unwrap_or_default(), ["NAME", "GGUF", "CONFIG.JSON", "DESCRIPTION"]);
    assert!(lines.any(|line| line == ["gemma2", "gemma2", "gemma2", "Gemma", "2"]), "{families}");
    let dtypes = printed(&["list", "dtypes"]);
    let some: Vec<&str> = dtypes
        .lines()
        .filter(|line| {
            ["NAME", "F32 ", "Q8_0 ", "MLX_AFFINE4"].iter().any(|name| line.starts_with(name))
        })
        .collect();
    assert_snapshot!(some.join("\n"), @"
    NAME                PACKING  ELEMENTS  BYTES  GGML  SAFETENSORS  VALUES  DESCRIPTION
    F32                 plain           1      4     0  F32          yes     IEEE single precision.
    Q8_0                block          32     34     8  -            yes     32 elements, 8 bits: one scale.
    MLX_AFFINE4         group           2      1     -  -            yes     MLX affine groups: 4-bit elements, a scale and a bias for each group.
    ");
}

#[test]
fn load() {
    let normal = |text: &str| {
        let text = without(text, "to cpu in ", "\n");
        without(&text, "peak memory ", "\n")
    };
    assert_snapshot!(normal(&printed(&["bench"])), @r#"
    sample-Q8_0.gguf (inside the program)
    gguf: llama (general.architecture is "llama"): 20 tensors mapped, 0 unknown, 0 missing
    stored rope layout: interleaved
    loaded 20 tensors (1.31 M weights, 1.3 MiB as stored) to cpu in ..
    peak memory ..
    "#);
    assert_snapshot!(normal(&printed(&["bench", HF])), @r#"
    assets/sample/hf
    safetensors: llama (config.json model_type is "llama"): 20 tensors mapped, 0 unknown, 0 missing
    stored rope layout: half_split
    loaded 20 tensors (1.31 M weights, 2.5 MiB as stored) to cpu in ..
    peak memory ..
    "#);
    assert_snapshot!(normal(&printed(&["bench", MLX, "--filter", "layers.0.*", "--no-map"])), @r#"
    assets/sample/mlx-4bit
    mlx: llama (config.json model_type is "llama"): 20 tensors mapped, 0 unknown, 0 missing
    stored rope layout: half_split
    loaded 9 tensors (590.34 k weights, 325.0 KiB as stored) to cpu in ..
    peak memory ..
    "#);
    let report = json(&["bench", "--json"]);
    let seconds = ["open_seconds", "load_seconds"].map(|key| report[key].as_f64());
    assert!(seconds.iter().all(|seconds| seconds.is_some_and(|seconds| seconds > 0.0)));
    assert_eq!((&report["tensors"], &report["weights"]), (&20.into(), &1_312_000.into()));
}

#[test]
fn load_to_a_device() {
    let text = printed(&["bench", MLX, "--verify", "--dtype", "packed-f16", "--fuse", "qkv"]);
    assert!(text.contains("read back from cpu: 16 buffers are equal"), "{text}");
    assert!(text.contains("as stored codes and F16"), "{text}");
    assert_eq!(json(&["bench", MLX, "--verify", "--json"])["verified"], 20);
    let out = run(&["bench", MLX, "--device", "npu"]);
    assert_eq!(out.status, Some(2));
    let devices = json(&["list", "devices", "--json"]);
    assert_eq!(devices["rows"][0]["name"], "cpu");
    #[cfg(not(feature = "gpu"))]
    {
        let out = run(&["bench", MLX, "--device", "gpu:1"]);
        assert_eq!(out.status, Some(4));
        let text = out.err;
        assert!(text.contains("device gpu:1: this program was built without GPUs"), "{text}");
    }
}

#[test]
fn kernels_and_dispatches() {
    let rows = json(&["list", "kernels", "--json"]);
    let rows = rows["rows"].as_array().expect("rows");
    let find = |dtype: &str, operation: &str| {
        rows.iter().find(|row| row["dtype"] == dtype && row["operation"] == operation)
    };
    assert_eq!(find("Q4_K", "matrix_vector").expect("a row")["values"], "exact");
    assert_eq!(find("GPTQ4", "get_rows").expect("a row")["values"], "exact with half scales");
    assert_eq!(find("NVFP4", "matrix_vector").expect("a row")["values"], "exact unless subnormal");
    for dtype in ["F64", "I64", "U64"] {
        let row = find(dtype, "decoded by the CPU while loading").expect("a row");
        assert_eq!(row["values"], "rounded to F32");
    }
    assert_snapshot!(printed(&["inspect", MLX, "--dispatch", "--filter", "layers.0.*"]), @"
    TENSORS                                                                                  KERNEL            SHAPE       SIZE  WINDOWS   WORKGROUPS   FLOPS
    layers.0.ffn.gate.weight + layers.0.ffn.up.weight                                        MLX_AFFINE4  1024 x 256  144.0 KiB        1  128 x 1 x 1  524288
    layers.0.attention.q.weight + layers.0.attention.k.weight + layers.0.attention.v.weight  MLX_AFFINE4   512 x 256   72.0 KiB        1   64 x 1 x 1  262144
    layers.0.attention_norm.weight                                                           BF16                256      512 B        1    1 x 1 x 1     512
    layers.0.ffn.down.weight                                                                 MLX_AFFINE4   256 x 512   72.0 KiB        1   32 x 1 x 1  262144
    layers.0.ffn_norm.weight                                                                 BF16                256      512 B        1    1 x 1 x 1     512
    layers.0.attention.output.weight                                                         MLX_AFFINE4   256 x 256   36.0 KiB        1   32 x 1 x 1  131072
    workgroups are those of matrix_vector, in the first window of rows
    ");
    let report = json(&["inspect", GGUF, "--dispatch", "--json"]);
    let dispatches = report["dispatches"].as_array().expect("dispatches");
    let qkv = dispatches.iter().find(|one| one["members"].as_array().is_some_and(|m| m.len() == 3));
    let cost = &qkv.expect("qkv")["operations"]["matrix_vector"];
    assert_eq!((&cost["bytes"], &cost["flops"]), (&139_264.into(), &262_144.into()));
}

#[test]
fn hash() {
    let hashes = printed(&["hash", GGUF, "--values"]);
    assert_eq!(hashes.lines().count(), 20);
    let norm = hashes.lines().find(|line| line.ends_with("output_norm.weight"));
    assert_snapshot!(norm.expect("the last norm"), @"08afffbd1ba040de8275890c7b369297f65c0481c75a6ae7100fa1eebc03503a  08afffbd1ba040de8275890c7b369297f65c0481c75a6ae7100fa1eebc03503a  output_norm.weight");
}

/// Every report is one JSON document of schema 1, and says what the text says.
#[test]
fn json_reports() {
    for path in [GGUF, HF, MLX] {
        let inspect = json(&["inspect", path, "--json"]);
        assert_eq!(inspect["tensor_count"], 20);
        assert_eq!(inspect["tensors"].as_array().map(Vec::len), Some(20));
        assert_eq!(inspect["architecture"], "llama");
        let hash = json(&["hash", path, "--values", "--json"]);
        for tensor in hash["tensors"].as_array().expect("a list") {
            for digest in ["raw_sha256", "f32_sha256"] {
                assert_eq!(tensor[digest].as_str().map(str::len), Some(64), "{tensor}");
            }
        }
        let verify = json(&["verify", path, "--json"]);
        assert_eq!((&verify["tensors"], &verify["faults"]), (&20.into(), &serde_json::json!([])));
        json(&["inspect", "--config", path, "--json"]);
        json(&["bench", path, "--json"]);
    }
    for table in ["containers", "dtypes", "architectures"] {
        let list = json(&["list", table, "--json"]);
        assert!(list["rows"].as_array().is_some_and(|rows| rows.len() > 2), "{table}");
    }
}

/// By canonical name JSON says how each tensor is served; by stored name it says nothing of what
/// names mean.
#[test]
fn json_by_one_kind_of_name() {
    let canonical = json(&["inspect", GGUF, "--canonical", "--json"]);
    let tensors = canonical["tensors"].as_array().expect("a list");
    assert_eq!(tensors.len(), 20);
    let q = tensors.iter().find(|tensor| tensor["name"] == "layers.1.attention.q.weight");
    assert_eq!(
        q.expect("a tensor by canonical name"),
        &serde_json::json!({
            "name": "layers.1.attention.q.weight",
            "stored": ["blk.1.attn_q.weight"],
            "dtype": "Q8_0",
            "shape": [256, 256],
            "transform": "permute_qk",
            "served": "reordered",
        })
    );
    for list in ["unknown", "auxiliary"] {
        assert_eq!(canonical[list], serde_json::json!([]));
    }
    let stored = json(&["inspect", GGUF, "--stored", "--json"]);
    assert_eq!(stored["tensors"].as_array().map(Vec::len), Some(20));
    assert!(
        stored.get("architecture").is_none() && stored["tensors"][0].get("canonical").is_none()
    );
}

/// `inspect --json` gives the places of the bytes that `dump --as raw` writes.
#[test]
fn places_are_true() {
    let inspect = json(&["inspect", MLX, "--json"]);
    for tensor in inspect["tensors"].as_array().expect("a list") {
        let part = &tensor["parts"][0];
        let number =
            |key: &str| usize::try_from(part[key].as_u64().expect("a number")).expect("a size");
        let (offset, len) = (number("offset"), number("bytes"));
        let file = part["file"].as_str().expect("a path");
        let whole = std::fs::read(support::root().join(file)).expect("the model's file");
        let bytes = &whole[offset..offset + len];
        let name = tensor["name"].as_str().expect("a name");
        assert_eq!(run(&["dump", MLX, name, "--as", "raw"]).bytes, bytes, "{name}");
    }
}

/// A table has its rows in natural order, JSON in that of the file.
#[test]
fn statistics_are_sorted_for_people() {
    let header = r#"{"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#;
    let (_folder, path) = support::file("x.safetensors", &support::safetensors(header, &[0; 8]));
    let report = json(&["inspect", &path, "--stats", "--json"]);
    let names = report["tensors"].as_array().expect("tensors").iter().map(|t| &t["name"]);
    assert_eq!(names.collect::<Vec<_>>(), ["b", "a"]);
    let text = printed(&["inspect", &path, "--stats"]);
    let line = |name: &str| text.lines().position(|line| line.starts_with(name));
    assert!(line("a  ").is_some() && line("a  ") < line("b  "), "{text}");
}

#[test]
fn inspect_begins_with_what_people_look_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let summary = |path: &std::path::Path| {
        let path = path.to_str().expect("UTF-8");
        (json(&["inspect", path, "--json"])["summary"].clone(), printed(&["inspect", path]))
    };
    let path = folder.path().join("chat.gguf");
    support::gguf(&path, |keys| {
        keys.set_text("general.architecture", "llama");
        keys.set_text("general.size_label", "8B");
        keys.set_text("tokenizer.chat_template", "{% if tools %}<think>{{ t }}</think>{% endif %}");
        keys.set("general.base_model.count", weighbridge::metadata::Value::U32(1));
        keys.set_text("general.base_model.0.name", "Base");
        keys.set_text("general.base_model.0.repo_url", "https://huggingface.co/org/base");
    });
    let (found, said) = summary(&path);
    assert_eq!(found["chat_template"], true);
    assert_eq!(found["capabilities"], serde_json::json!(["tools", "thinking", "completion"]));
    assert_eq!(
        (&found["size_label"], &found["base_models"]),
        (&serde_json::json!("8B"), &serde_json::json!(["org/base"]))
    );
    for line in [
        "size label     8B",
        "capabilities   tools, thinking, completion",
        "base model     org/base",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let path = folder.path().join("embed.gguf");
    support::gguf(&path, |keys| {
        keys.set_text("general.architecture", "nomic-bert");
        keys.set("nomic-bert.pooling_type", weighbridge::metadata::Value::U32(1));
    });
    assert_eq!(summary(&path).0["capabilities"], serde_json::json!(["embedding"]));
    // A directory: its card, its config, its size.
    let copy = folder.path().join("hf");
    std::fs::create_dir(&copy).expect("a folder");
    for file in ["config.json", "model.safetensors", "tokenizer_config.json"] {
        std::fs::copy(support::root().join("assets/sample/hf").join(file), copy.join(file))
            .expect("a copy");
    }
    std::fs::write(copy.join("README.md"), "---\nbase_model:\n- org/base\n---\n").expect("a file");
    let (found, _) = summary(&copy);
    assert_eq!(
        (&found["capabilities"], &found["base_models"]),
        (&serde_json::json!(["completion"]), &serde_json::json!(["org/base"]))
    );
    assert_eq!(found["size_label"], "1.3M");
}
