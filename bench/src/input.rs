//! Headers of the sizes of published models, with invented names and numbers.

use std::io::Write;
use std::path::Path;

/// A pseudo-random generator with a fixed seed (xorshift64).
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn word(&mut self, shortest: u64, longest: u64) -> String {
        let len = shortest + self.next() % (longest - shortest + 1);
        (0..len).map(|_| char::from(b'a' + (self.next() % 26) as u8)).collect()
    }
}

/// A GGUF header under construction.
#[derive(Default)]
pub struct Gguf {
    items: Vec<u8>,
    count: u64,
}

impl Gguf {
    fn text(out: &mut Vec<u8>, text: &str) {
        out.extend_from_slice(&(text.len() as u64).to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    }

    fn key(&mut self, key: &str, value_type: u32) {
        Self::text(&mut self.items, key);
        self.items.extend_from_slice(&value_type.to_le_bytes());
        self.count += 1;
    }

    pub(crate) fn u32(&mut self, key: &str, value: u32) {
        self.key(key, 4);
        self.items.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn f32(&mut self, key: &str, value: f32) {
        self.key(key, 6);
        self.items.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn string(&mut self, key: &str, value: &str) {
        self.key(key, 8);
        Self::text(&mut self.items, value);
    }

    fn array(&mut self, key: &str, element_type: u32, len: usize) {
        self.key(key, 9);
        self.items.extend_from_slice(&element_type.to_le_bytes());
        self.items.extend_from_slice(&(len as u64).to_le_bytes());
    }

    fn strings(&mut self, key: &str, values: &[String]) {
        self.array(key, 8, values.len());
        for value in values {
            Self::text(&mut self.items, value);
        }
    }

    /// The bytes before the data, for tensors with a name, dimensions from the innermost, a type,
    /// and a length in bytes, a multiple of 32.
    pub(crate) fn header(&self, tensors: &[(String, Vec<u64>, u32, u64)]) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend_from_slice(&3u32.to_le_bytes());
        out.extend_from_slice(&(tensors.len() as u64).to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&self.items);
        let mut offset = 0u64;
        for (name, dims, tensor_type, bytes) in tensors {
            Self::text(&mut out, name);
            out.extend_from_slice(&(dims.len() as u32).to_le_bytes());
            out.extend(dims.iter().flat_map(|dim| dim.to_le_bytes()));
            out.extend_from_slice(&tensor_type.to_le_bytes());
            out.extend_from_slice(&offset.to_le_bytes());
            offset += bytes;
        }
        out.resize(out.len().next_multiple_of(32), 0);
        out
    }

    /// Writes the file with a number of small F32 tensors.
    fn write(&self, path: &Path, tensors: u64) {
        let parts =
            ["attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate"];
        let infos = (0..tensors).map(|number| {
            let part = parts[(number % 7) as usize];
            (format!("blk.{}.{part}.weight", number / 7), vec![32, 2], 0, 256)
        });
        let mut out = self.header(&infos.collect::<Vec<_>>());
        out.resize(out.len() + tensors as usize * 256, 0);
        std::fs::write(path, out).expect("the input can be written");
    }
}

/// 152,064 tokens with scores and types, 280,000 merges, 700 tensors: a header of about 9 MB.
pub fn gguf_with_vocabulary(path: &Path) {
    let mut numbers = Numbers::new(0x1234_5678_9abc_def1);
    let mut gguf = Gguf::default();
    gguf.string("general.architecture", "llama");
    gguf.u32("llama.block_count", 100);
    gguf.u32("llama.embedding_length", 32);
    gguf.u32("llama.attention.head_count", 1);
    let tokens: Vec<String> = (0..152_064)
        .map(|n| format!("{}{}", if n % 3 == 0 { "\u{120}" } else { "" }, numbers.word(2, 12)))
        .collect();
    gguf.strings("tokenizer.ggml.tokens", &tokens);
    gguf.array("tokenizer.ggml.scores", 6, tokens.len());
    gguf.items.resize(gguf.items.len() + 4 * tokens.len(), 0);
    gguf.array("tokenizer.ggml.token_type", 5, tokens.len());
    gguf.items.extend((0..tokens.len()).flat_map(|_| 1i32.to_le_bytes()));
    let merges: Vec<String> =
        (0..280_000).map(|_| format!("{} {}", numbers.word(1, 5), numbers.word(1, 5))).collect();
    gguf.strings("tokenizer.ggml.merges", &merges);
    gguf.write(path, 700);
}

/// 100 keys and 200 tensors.
pub fn small_gguf(path: &Path) {
    let mut gguf = Gguf::default();
    gguf.string("general.architecture", "llama");
    for number in 0..99 {
        match number % 2 {
            0 => gguf.u32(&format!("llama.extra.key_{number}"), number),
            _ => gguf.string(&format!("general.extra.key_{number}"), "some short value"),
        }
    }
    gguf.write(path, 200);
}

fn expert_name(number: usize) -> String {
    let (layer, within) = (number / 768, number % 768);
    let part = ["gate", "up", "down"][within % 3];
    format!("model.layers.{layer}.mlp.experts.{}.{part}_proj.weight", within / 3)
}

/// BF16 tensors of 2 x 4 with the names of experts, as the reference crate writes them.
pub fn safetensors(path: &Path, first: usize, tensors: usize) {
    let mut header = String::from("{\"__metadata__\":{\"format\":\"pt\"}");
    for number in 0..tensors {
        let name = expert_name(first + number);
        let (begin, end) = (number * 16, number * 16 + 16);
        header += &format!(
            ",\"{name}\":{{\"dtype\":\"BF16\",\"shape\":[2,4],\"data_offsets\":[{begin},{end}]}}"
        );
    }
    header.push('}');
    while header.len() % 8 != 0 {
        header.push(' ');
    }
    let mut file = std::fs::File::create(path).expect("the input can be written");
    file.write_all(&(header.len() as u64).to_le_bytes()).expect("the input can be written");
    file.write_all(header.as_bytes()).expect("the input can be written");
    file.write_all(&vec![0; tensors * 16]).expect("the input can be written");
}

/// 160 shards of 560 tensors, optionally with an index.
pub fn shards(folder: &Path, index: bool) {
    let mut map = Vec::new();
    for shard in 0..160 {
        let file = format!("model-{:05}-of-00160.safetensors", shard + 1);
        safetensors(&folder.join(&file), shard * 560, 560);
        map.extend(
            (0..560).map(|n| format!("\n    \"{}\": \"{file}\"", expert_name(shard * 560 + n))),
        );
    }
    if index {
        let text = format!(
            "{{\n  \"metadata\": {{\"total_size\": 1433600}},\n  \"weight_map\": {{{}\n  }}\n}}\n",
            map.join(",")
        );
        std::fs::write(folder.join("model.safetensors.index.json"), text)
            .expect("the input can be written");
    }
}

/// A store with 10,000 manifests of GGUF models, and the model `big` of 700 tensor blobs, each a
/// 4-bit weight with scales and biases.
pub fn ollama_store(store: &Path) {
    let blobs = store.join("blobs");
    let library = store.join("manifests/registry.ollama.ai/library");
    std::fs::create_dir_all(&blobs).expect("a directory");
    let layer = |kind: &str, number: usize, size: usize, name: &str| {
        format!(
            "{{\"mediaType\":\"application/vnd.ollama.image.{kind}\",\"digest\":\"sha256:{number:064x}\",\"size\":{size},\"name\":\"{name}\"}}"
        )
    };
    let manifest = |layers: &[String]| {
        format!(
            "{{\"schemaVersion\":2,\"mediaType\":\"application/vnd.docker.distribution.manifest.v2+json\",\"layers\":[{}]}}\n",
            layers.join(",")
        )
    };
    for number in 0..10_000 {
        let folder = library.join(format!("model{}", number / 10));
        std::fs::create_dir_all(&folder).expect("a directory");
        let layers = [
            layer("model", 1 << 20 | number, 4_000_000_000, ""),
            layer("template", 1, 1200, ""),
            layer("params", 2, 90, ""),
        ];
        std::fs::write(folder.join(format!("tag{}", number % 10)), manifest(&layers))
            .expect("the input can be written");
    }
    let mut layers = Vec::new();
    for number in 0..700 {
        let name = format!("model.layers.{}.part{}.weight", number / 10, number % 10);
        let header = format!(
            "{{\"__metadata__\":{{\"group_size\":\"64\",\"quant_type\":\"int4\"}},\"{name}\":{{\"dtype\":\"U32\",\"shape\":[64,32],\"data_offsets\":[0,8192]}},\"{name}.bias\":{{\"dtype\":\"BF16\",\"shape\":[64,4],\"data_offsets\":[8192,8704]}},\"{name}.scale\":{{\"dtype\":\"BF16\",\"shape\":[64,4],\"data_offsets\":[8704,9216]}}}}"
        );
        let mut blob = (header.len() as u64).to_le_bytes().to_vec();
        blob.extend_from_slice(header.as_bytes());
        blob.resize(blob.len() + 9216, 0);
        layers.push(layer("tensor", 1000 + number, blob.len(), &name));
        std::fs::write(blobs.join(format!("sha256-{:064x}", 1000 + number)), blob)
            .expect("the input can be written");
    }
    std::fs::create_dir_all(library.join("big")).expect("a directory");
    std::fs::write(library.join("big/latest"), manifest(&layers))
        .expect("the input can be written");
}
