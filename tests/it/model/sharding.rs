//! The shares of ranks: put together they are the whole, and a rank reads little more than its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::{Gguf, Kv, folder, outside, sample, told};
use weighbridge::arch::Dialect;
use weighbridge::container::SAFETENSORS;
use weighbridge::device::Cpu;
use weighbridge::load::{Fusion, LoadedTensor};
use weighbridge::model::{Convention, Mesh, Sharding};
use weighbridge::ops::{self, SharedRange};
use weighbridge::{
    Builder, DType, ErrorKind, LoadOptions, Model, OpenOptions, Policy, Tensor, Threads,
    WeightProvider, WriteOptions,
};

use crate::models::{Array, Form, Opened, listed_models, lists, own};

/// The models of a folder of fixtures: files, and folders with weights.
fn models(at: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(at).expect("a folder of fixtures");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if path.is_dir() {
            models(&path, found);
        } else if ending == "gguf" || path.to_string_lossy().contains("/manifests/") {
            found.push(path);
        } else if ending == "json" && path.file_name() == Some("config.json".as_ref()) {
            found.push(at.to_path_buf());
        }
    }
}

/// Every model with a config: the samples, and the larger set where it is.
pub(crate) fn every() -> Vec<Model> {
    let mut paths = vec![sample("sample-Q8_0.gguf"), sample("hf"), sample("mlx-4bit")];
    for set in ["hf", "hfq", "mlx", "gguf", "ollama/store", "logits"] {
        if let Some(at) = outside(set) {
            models(&at, &mut paths);
        }
    }
    let opened = paths.iter().filter_map(|path| OpenOptions::new().read().open(path).ok());
    opened.filter(|model| model.config().is_ok()).collect()
}

const MESHES: [&str; 14] = [
    "tp=2",
    "tp=3",
    "tp=4",
    "tp=8",
    "pp=2",
    "pp=3",
    "pp=4",
    "pp=8",
    "ep=2",
    "ep=3",
    "ep=4",
    "ep=8",
    "tp=2,pp=2",
    "tp=2,ep=2",
];

/// The places of an array, in row-major order, that ranges along its axes select.
fn selected(shape: &[u64], ranges: &[SharedRange]) -> Vec<usize> {
    let mut places = vec![0usize];
    for (axis, length) in (0..).zip(shape) {
        let own: Vec<&SharedRange> = ranges.iter().filter(|range| range.axis == axis).collect();
        let indices: Vec<u64> = match own.as_slice() {
            [] => (0..*length).collect(),
            own => own.iter().flat_map(|range| range.start..range.end).collect(),
        };
        let length = usize::try_from(*length).unwrap();
        places = places
            .iter()
            .flat_map(|place| indices.iter().map(move |index| place * length + *index as usize))
            .collect();
    }
    places
}

pub(crate) fn values(tensor: &Tensor) -> Vec<u32> {
    tensor.dequantize().unwrap().iter().map(|value| value.to_bits()).collect()
}

/// Puts the shares of all ranks together, and compares them with the whole. Gives the refusal if the
/// model cannot be divided so.
fn check(model: &Model, mesh: Mesh) -> Result<(), String> {
    let at = model.path().display();
    let report = match ops::shares(model, &mesh) {
        Ok(report) => report,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Mismatch, "{at} {mesh}: {error}");
            return Err(error.to_string());
        }
    };
    let whole = WeightProvider::new(model.clone(), Cpu).unwrap();
    let ranks: Vec<WeightProvider> = mesh
        .shardings()
        .map(|sharding| {
            WeightProvider::new(model.clone(), Cpu).unwrap().sharding(sharding).unwrap()
        })
        .collect();
    for tensor in &report.tensors {
        let all = values(&whole.tensor(&tensor.name).unwrap());
        let mut covered = vec![false; all.len()];
        let stored = whole.load(&tensor.name);
        for part in &tensor.parts {
            let rank = &ranks[part.rank as usize];
            let view = rank.tensor(&tensor.name).unwrap();
            assert_eq!(view.shape(), part.shape, "{at} {mesh} {}", tensor.name);
            let found = values(&view);
            if part.ranges.is_empty() {
                assert_eq!(found, all, "{at} {mesh} {} of rank {}", tensor.name, part.rank);
                covered.fill(true);
            } else {
                let places = selected(&tensor.shape, &part.ranges);
                let expected: Vec<u32> = places.iter().map(|place| all[*place]).collect();
                assert_eq!(found, expected, "{at} {mesh} {} of rank {}", tensor.name, part.rank);
                places.iter().for_each(|place| covered[*place] = true);
            }
            if let Ok(stored) = &stored {
                same_bytes(stored, rank, tensor, part);
            }
        }
        let name = &tensor.name;
        assert!(covered.iter().all(|covered| *covered), "{at} {mesh}: nobody has all of {name}");
    }
    for (rank, share) in ranks.iter().zip(&report.ranks) {
        assert_eq!(rank.names().unwrap().len(), share.tensors, "{at} {mesh}");
    }
    Ok(())
}

/// Compares the packed bytes that a rank loads with those of the whole tensor.
fn same_bytes(
    whole: &LoadedTensor<Cpu>,
    rank: &WeightProvider,
    tensor: &ops::SharedTensor,
    share: &ops::TensorShare,
) {
    let name = &tensor.name;
    let found = match rank.load(name) {
        Ok(found) => found,
        // Codes of a row in several arrays that are not stored by rows.
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}: {error}");
            let model = rank.model().clone();
            let decoded = WeightProvider::new(model, Cpu).unwrap().policy(Policy::F32);
            assert!(decoded.sharding(rank.rank()).unwrap().load(name).is_ok(), "{name}");
            return;
        }
    };
    assert_eq!(found.dtype, whole.dtype, "{name}");
    if share.ranges.is_empty() {
        assert_eq!(found.bytes(), whole.bytes(), "{name}");
    }
    for (part, all) in found.parts.iter().zip(&whole.parts) {
        assert_eq!(part.part, all.part, "{name}");
        let (contents, bytes) =
            (found.contents(&Cpu, part.part).unwrap(), whole.contents(&Cpu, all.part).unwrap());
        if share.ranges.is_empty() {
            assert_eq!(contents, bytes, "{name} {:?}", part.part);
            continue;
        }
        let (Some(row), Some((columns, outer))) = (all.row_bytes, whole.shape.split_last()) else {
            continue;
        };
        // The same ranges in bytes of the part: a row has `row` bytes. Each element of a vector may be
        // a row of its own.
        let rows: u64 = outer.iter().product();
        let row = row * ((all.range.end - all.range.start) / row) / rows.max(1);
        let mut shape = outer.to_vec();
        shape.push(row);
        let last = outer.len();
        let scale = |mut range: SharedRange| {
            if range.axis == last {
                (range.start, range.end) = (range.start * row / columns, range.end * row / columns);
            }
            range
        };
        let ranges: Vec<SharedRange> = share.ranges.iter().copied().map(scale).collect();
        let expected: Vec<u8> =
            selected(&shape, &ranges).into_iter().map(|place| bytes[place]).collect();
        assert_eq!(contents, expected, "{name} {:?}", part.part);
    }
}

#[test]
fn shares_put_together_are_the_whole() {
    let mut divided: BTreeMap<&str, usize> = BTreeMap::new();
    let mut refusals: BTreeMap<String, usize> = BTreeMap::new();
    for model in every() {
        for text in MESHES {
            match check(&model, text.parse().unwrap()) {
                Ok(()) => *divided.entry(text).or_default() += 1,
                Err(refusal) => {
                    let numbers = refusal.chars().any(|letter| letter.is_ascii_digit());
                    let told = refusal.contains("cannot be divided")
                        || refusal.contains("can be split only at multiples of");
                    assert!(numbers && told, "{}: {text}: {refusal}", model.path().display());
                    *refusals.entry(refusal).or_default() += 1;
                }
            }
        }
    }
    println!("{divided:?}\n{refusals:#?}");
    // The samples can be divided by two in every way.
    assert!(["tp=2", "pp=2", "ep=2"].iter().all(|mesh| divided.contains_key(mesh)));
}

#[test]
fn fused_tensors_are_divided_before_they_are_joined() {
    let fusions: Vec<&Fusion> = ["qkv", "gate-up"].into_iter().filter_map(Fusion::named).collect();
    for name in ["sample-Q8_0.gguf", "hf", "mlx-4bit"] {
        for rank in 0..2 {
            let sharding = Sharding::new().tensor(rank, 2);
            let open = || {
                let provider = WeightProvider::open(sample(name)).unwrap();
                provider.sharding(sharding).unwrap()
            };
            let (alone, fused) = (open(), open());
            let loaded = fused.load_all(|_| true, &LoadOptions::new().fuse(&fusions)).unwrap();
            assert!(loaded.iter().any(|tensor| tensor.members.len() == 3), "{name}");
            for tensor in &loaded {
                fused.verify(tensor).unwrap();
                for member in &tensor.members {
                    let split = tensor.split(&Cpu, &member.name).unwrap();
                    let own = alone.load(&member.name).unwrap();
                    assert_eq!(split.shape, own.shape, "{name} {}", member.name);
                    for part in &own.parts {
                        let [a, b] = [&split, &*own].map(|t| t.contents(&Cpu, part.part).unwrap());
                        assert_eq!(a, b, "{name} {}", member.name);
                    }
                }
            }
        }
    }
}

/// A rank's tensors in Hugging Face's names, written as a model of its own: with the rank's numbers of
/// heads, its canonical tensors are the rank's parts of those of the whole.
fn check_names(model: &Model, rank: u64, of: u64) -> bool {
    let at = model.path().display();
    let sharding = Sharding::new().tensor(rank, of);
    let Ok(translated) = ops::tensors_of_rank(model, Dialect::HuggingFace, &sharding) else {
        return false;
    };
    let Some(config) = model.document("config.json") else { return false };
    let (Ok(whole), 0) = (model.config(), rank) else { return false };
    let heads = whole.n_heads.value;
    let mut config = config.clone();
    let each = |config: &mut weighbridge::json::Json, key: &str| {
        if let Some(number) = config.get(key).and_then(weighbridge::json::Json::as_u64) {
            config[key] = weighbridge::json::json!((number / of).max(1));
        }
    };
    let keys = [
        "num_attention_heads",
        "num_key_value_heads",
        "num_global_key_value_heads",
        "linear_num_key_heads",
        "linear_num_value_heads",
        "n_head",
        "num_kv_heads",
    ];
    let text =
        if config.get("text_config").is_some() { &mut config["text_config"] } else { &mut config };
    keys.iter().for_each(|key| each(text, key));
    if text.get("head_dim").is_none() && text.get("qk_nope_head_dim").is_none() {
        text["head_dim"] = weighbridge::json::json!(whole.dim.value / heads);
    }
    let folder = tempfile::tempdir().unwrap();
    let mut file = Builder::new(&SAFETENSORS).unwrap();
    for tensor in &translated.tensors {
        file.add(tensor.name(), tensor).unwrap();
    }
    file.one_file();
    let path = folder.path().join("model.safetensors");
    file.plan().unwrap().run(&path, &WriteOptions::new()).unwrap();
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let own = Model::open(folder.path()).unwrap();
    for name in model.names_of_rank(&sharding).unwrap() {
        let expected = model.tensor_of_rank(name, &sharding, Convention::HuggingFace).unwrap();
        let found = own.tensor(name).unwrap_or_else(|error| panic!("{at}: {name}: {error}"));
        assert_eq!(found.shape(), expected.shape(), "{at}: {name}");
        assert_eq!(values(&found), values(&expected), "{at}: {name}");
    }
    true
}

#[test]
fn shares_in_the_names_of_hugging_face_are_smaller_models() {
    let mut checked = 0;
    for model in every() {
        let plain = model
            .stored_tensors()
            .all(|tensor| tensor.dtype().is_ok_and(|dtype| !dtype.is_quantized()));
        let divided = ops::shares(&model, &"tp=2".parse().unwrap()).is_ok();
        if plain && divided && check_names(&model, 0, 2) {
            checked += 1;
        }
    }
    assert!(checked >= 1, "{checked}");
    println!("{checked} models");
}

/// Bytes that this thread has read, as Linux counts them; see proc(5).
#[cfg(target_os = "linux")]
fn bytes_read() -> u64 {
    let counts = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = counts.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
    line.trim().parse().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn a_rank_reads_its_own_bytes() {
    // Reading the counts is counted too.
    bytes_read();
    let before = bytes_read();
    let cost = bytes_read() - before;
    let mut checked = 0;
    for model in every() {
        // From the page cache: reads past it are of whole pages.
        model.files().for_each(|file| drop(std::fs::read(file)));
        for text in MESHES {
            let mesh: Mesh = text.parse().unwrap();
            if ops::shares(&model, &mesh).is_err() {
                continue;
            }
            for (sharding, policy) in
                mesh.shardings().flat_map(|one| [(one, Policy::Keep), (one, Policy::F16)])
            {
                let provider = WeightProvider::new(model.clone(), Cpu).unwrap().policy(policy);
                let provider = provider.sharding(sharding).unwrap();
                let names = provider.names().unwrap();
                // Schemes of checkpoints are decoded from all of their arrays at once.
                let path = model.path().display().to_string();
                if path.contains("/hfq/") && policy != Policy::Keep {
                    continue;
                }
                // Elements of gate and up alternate in each row: both are read for each.
                if path.ends_with("logits/gpt_oss") {
                    continue;
                }
                // What is stored of its parts.
                let own: u64 = names.iter().map(|name| stored_bytes(&provider, name)).sum();
                // Three samples of the page cache for each long read.
                let most = own + own / 100 + 64 * (names.len() + 4) as u64;
                let load = || {
                    let before = bytes_read();
                    let options = LoadOptions::new().threads(Threads::one());
                    let end = provider.load_all(|_| true, &options);
                    end.is_ok().then(|| bytes_read() - before - cost)
                };
                // A busy system may say that the page cache lacks what it has.
                let mut again = (0..3).map_while(|_| load()).skip_while(|read| *read > most);
                let Some(first) = load() else { continue };
                let read = if first <= most { first } else { again.next().unwrap_or(first) };
                assert!(read <= most, "{path} {text} {policy:?}: {read} of {own} bytes");
                checked += 1;
            }
        }
    }
    assert!(checked >= 20, "{checked}");
}

/// The stored bytes of a rank's part, each part of a tensor in proportion.
#[cfg(any(target_os = "linux", feature = "http"))]
pub(crate) fn stored_bytes(provider: &WeightProvider, name: &str) -> u64 {
    let part = provider.tensor(name).unwrap();
    let (elements, bytes) = part.sources().fold((0, 0), |(elements, bytes), source| {
        (elements + source.elements(), bytes + source.stored_bytes())
    });
    (bytes as f64 * (part.elements() as f64 / elements as f64)).ceil() as u64
}

/// A layer of a Llama with these heads.
pub(crate) fn llama(heads: u32, kv_heads: u32, dtype: DType) -> Gguf {
    let (dim, width) = (256u64, 32u64);
    let mut file = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("llama.block_count", Kv::U32(2))
        .key("llama.embedding_length", Kv::U32(256))
        .key("llama.attention.head_count", Kv::U32(heads))
        .key("llama.attention.head_count_kv", Kv::U32(kv_heads))
        .key("llama.attention.key_length", Kv::U32(32));
    let (q, kv) = (u64::from(heads) * width, u64::from(kv_heads) * width);
    let mut add = |name: &str, shape: [u64; 2]| {
        let len = (dtype.row_bytes(shape[1]).unwrap() * shape[0]) as usize;
        let bytes = (0..len).map(|place| (place % 59) as u8).collect::<Vec<u8>>();
        file = file.clone().tensor(name, dtype, &shape, bytes);
    };
    add("token_embd.weight", [50, dim]);
    for layer in 0..2 {
        add(&format!("blk.{layer}.attn_q.weight"), [q, dim]);
        add(&format!("blk.{layer}.attn_k.weight"), [kv, dim]);
        add(&format!("blk.{layer}.attn_v.weight"), [kv, dim]);
        add(&format!("blk.{layer}.attn_output.weight"), [dim, q]);
        add(&format!("blk.{layer}.ffn_up.weight"), [512, dim]);
        add(&format!("blk.{layer}.ffn_down.weight"), [dim, 512]);
    }
    file
}

#[test]
fn what_cannot_be_divided_is_refused_with_the_numbers() {
    let refusal = |file: Gguf, mesh: &str| {
        let folder = folder(&[("model.gguf", file.build())]);
        let model = Model::open(folder.path().join("model.gguf")).unwrap();
        let error = ops::shares(&model, &mesh.parse().unwrap()).unwrap_err();
        told(&error).replace(&*folder.path().to_string_lossy(), ".")
    };
    insta::assert_snapshot!(refusal(llama(8, 3, DType::F16), "tp=2"), @r#"
    Mismatch: ./model.gguf: tensor "layers.0.attention.k.weight": 3 key heads cannot be divided equally among 2 ranks
    help: choose a number of ranks that divides them
    "#);
    insta::assert_snapshot!(refusal(llama(6, 2, DType::F16), "tp=4"), @r#"
    Mismatch: ./model.gguf: tensor "layers.0.attention.q.weight": 6 query heads cannot be divided equally among 4 ranks
    help: choose a number of ranks that divides them
    "#);
    insta::assert_snapshot!(refusal(llama(8, 8, DType::Q4_K), "tp=4"), @r#"Mismatch: ./model.gguf: tensor "layers.0.attention.output.weight": columns 0..64 of 256, which can be split only at multiples of 256"#);
    insta::assert_snapshot!(refusal(llama(8, 8, DType::F16), "pp=3"), @"Mismatch: ./model.gguf: 2 layers cannot be divided into 3 stages");
    let no_names = Gguf::new().key("general.architecture", Kv::text("unheard"));
    insta::assert_snapshot!(refusal(no_names.tensor("a", DType::F32, &[4], [0; 16]), "tp=2"), @r#"Unsupported: ./model.gguf: how ranks divide its tensors is unknown: general.architecture is "unheard", which is not a known architecture"#);
}

#[test]
fn ranks_share_key_heads_if_there_are_few() {
    let folder = folder(&[("model.gguf", llama(8, 2, DType::F16).build())]);
    let model = Model::open(folder.path().join("model.gguf")).unwrap();
    let report = ops::shares(&model, &"tp=4".parse().unwrap()).unwrap();
    let parts = |name: &str| {
        let tensor = report.tensors.iter().find(|tensor| tensor.name == name).unwrap();
        let ranges = tensor.parts.iter().map(|part| (part.ranges[0].start, part.ranges[0].end));
        ranges.collect::<Vec<_>>()
    };
    assert_eq!(parts("layers.0.attention.k.weight"), [(0, 32), (0, 32), (32, 64), (32, 64)]);
    assert_eq!(parts("layers.0.attention.q.weight"), [(0, 64), (64, 128), (128, 192), (192, 256)]);
    // 50 tokens: the last rank has fewer.
    assert_eq!(parts("token_embedding.weight"), [(0, 13), (13, 26), (26, 39), (39, 50)]);
    let of_rank = |rank: u64| {
        let sharding = Sharding::new().tensor(rank, 4);
        let view = model.tensor_of_rank(
            "layers.1.attention.output.weight",
            &sharding,
            Convention::HuggingFace,
        );
        view.unwrap().shape().to_vec()
    };
    assert_eq!(of_rank(3), [256, 64]);
}

#[test]
fn stages_have_layers_of_their_own() {
    let folder = folder(&[("model.gguf", llama(8, 8, DType::F16).build())]);
    let model = Model::open(folder.path().join("model.gguf")).unwrap();
    let names = |stage: u64| {
        let sharding = Sharding::new().pipeline(stage, 2);
        model.names_of_rank(&sharding).unwrap()
    };
    assert!(names(0).contains(&"layers.0.attention.q.weight"));
    assert!(!names(0).contains(&"layers.1.attention.q.weight"));
    // The embedding is tied: the last stage needs it for its output.
    assert!([0, 1].iter().all(|stage| names(*stage).contains(&"token_embedding.weight")));
    let sharding = Sharding::new().pipeline(0, 2);
    let error = model
        .tensor_of_rank("layers.1.attention.q.weight", &sharding, Convention::HuggingFace)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

/// A model in the names of Hugging Face, of a list of names, with one tensor in another shape.
fn named(name: &str, changed: Option<(&str, Vec<usize>)>) -> Opened {
    let list = lists::LISTS.iter().find(|list| list.name == name);
    let listed = || listed_models().into_iter().find(|model| model.name == name).expect("a list");
    let model = list.map_or_else(listed, own);
    let (_, tensors) = &model.forms[0];
    let mut tensors = tensors.clone();
    tensors.extend(changed.map(|(name, shape)| (name.to_owned(), Array::random(name, shape))));
    crate::models::open(&model, Form::HuggingFace, &tensors)
}

#[test]
fn each_rank_of_experts_has_experts_of_its_own() {
    let Opened { model, .. } = &named("mixtral", None);
    let name = "layers.0.ffn.experts.gate.weight";
    let whole = model.tensor(name).unwrap();
    assert_eq!(whole.shape(), [4, 96, 64]);
    let all = values(&whole);
    for rank in 0..2 {
        let sharding = Sharding::new().expert(rank, 2);
        let part = model.tensor_of_rank(name, &sharding, Convention::HuggingFace).unwrap();
        assert_eq!(part.shape(), [2, 96, 64]);
        let half = all.len() / 2;
        assert_eq!(values(&part), all[rank as usize * half..][..half]);
        // What is no expert is on each rank.
        let router =
            model.tensor_of_rank("layers.0.ffn.router.weight", &sharding, Convention::HuggingFace);
        assert_eq!(router.unwrap().shape(), [4, 64]);
    }
    let three = Sharding::new().expert(0, 3);
    let error = model.tensor_of_rank(name, &three, Convention::HuggingFace).unwrap_err();
    assert!(
        error.to_string().ends_with("4 experts cannot be divided equally among 3 ranks"),
        "{error}"
    );
}

/// A rank decodes its own columns only: what others lose is not counted.
#[test]
fn a_rank_counts_its_own_losses() {
    let (rows, columns) = (64, 128);
    let doubles = (0..rows * columns).map(|n| if n % columns < 64 { 1.0f64 } else { 1e300 });
    let doubles: Vec<u8> = doubles.flat_map(f64::to_le_bytes).collect();
    let number = |value: u32| Kv::U32(value);
    let file = Gguf::new()
        .key("general.architecture", Kv::text("llama"))
        .key("llama.block_count", number(1))
        .key("llama.embedding_length", number(64))
        .key("llama.feed_forward_length", number(128))
        .key("llama.attention.head_count", number(4))
        .tensor("blk.0.ffn_down.weight", DType::F64, &[rows, columns], doubles)
        .build();
    let lost = [0, 1].map(|rank| {
        let store = OpenOptions::new().open_memory("file", file.clone()).unwrap();
        let provider = WeightProvider::new(store, Cpu).unwrap().policy(Policy::F32);
        let provider = provider.sharding(Sharding::new().tensor(rank, 2)).unwrap();
        let loaded = provider.load("layers.0.ffn.down.weight").unwrap();
        assert_eq!(loaded.shape, [rows, columns / 2]);
        loaded.lost.overflows
    });
    assert_eq!(lost, [0, 64 * 64]);
}

/// A name that is not canonical says nothing of a layer.
#[test]
fn what_has_no_canonical_name_is_on_each_rank() {
    let name = "layers.1.extra.weight";
    let Opened { model, .. } = &named("qwen3", Some((name, vec![2])));
    for stage in 0..2 {
        let sharding = Sharding::new().pipeline(stage, 2);
        let whole = model.tensor_of_rank(name, &sharding, Convention::HuggingFace).unwrap();
        assert_eq!(whole.shape(), [2]);
    }
}

/// Qwen 3 has one norm for all heads, OLMo 2 a norm over all of them.
#[test]
fn a_norm_of_one_head_is_on_each_rank() {
    for (model, whole, part) in [("qwen3", 32, 32), ("olmo2", 16, 8)] {
        let Opened { model, .. } = &named(model, None);
        let name = "layers.0.attention.q_norm.weight";
        assert_eq!(model.tensor(name).unwrap().shape(), [whole]);
        let sharding = Sharding::new().tensor(1, 2);
        let own = model.tensor_of_rank(name, &sharding, Convention::HuggingFace).unwrap();
        assert_eq!(own.shape(), [part]);
    }
}

#[test]
fn sections_have_the_rows_that_the_config_says() {
    let name = "backbone.layers.0.mixer.in_proj.weight";
    let half = Sharding::new().tensor(0, 2);
    let of_rank = |changed| {
        let Opened { model, .. } = &named("mamba2", changed);
        let part = model.tensor_of_rank("layers.0.ssm.in.weight", &half, Convention::HuggingFace);
        part.map(|part| part.shape().to_vec())
    };
    assert_eq!(of_rank(None).unwrap(), [24, 8]);
    let error = of_rank(Some((name, vec![50, 8]))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert!(error.to_string().ends_with("50 rows, but the config says 48"), "{error}");
    // Ranks that divide only experts have the whole matrix, whatever the config says of it.
    let half = Sharding::new().expert(0, 2);
    let Opened { model, .. } = &named("mamba2", Some((name, vec![50, 8])));
    let part = model.tensor_of_rank("layers.0.ssm.in.weight", &half, Convention::HuggingFace);
    assert_eq!(part.unwrap().shape(), [50, 8]);
}
