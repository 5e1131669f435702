//! Runs the program and captures its output.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The result of a run of the program.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: Option<i32>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The folder that paths in tests are relative to, so that no path of the machine is printed.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Weighbridge, without the user's environment and models.
pub(crate) fn program(arguments: &[&str]) -> Command {
    let mut command = quiet(env!("CARGO_BIN_EXE_weighbridge"));
    command.args(arguments);
    command
}

/// A program, without the user's environment and models.
pub(crate) fn quiet(program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).stdin(Stdio::null());
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"] {
        command.env_remove(name);
    }
    for name in ["HF_ENDPOINT", "HF_TOKEN", "HF_HUB_OFFLINE"] {
        command.env_remove(name);
    }
    for name in ["HF_HOME", "HUGGINGFACE_HUB_CACHE", "LLAMA_CACHE", "JAN_DATA_FOLDER"] {
        command.env_remove(name);
    }
    for name in ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "WEIGHBRIDGE_CONFIG"] {
        command.env_remove(name);
    }
    command.env("HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/home"));
    command.env("OLLAMA_MODELS", "no-store").env("HF_HUB_CACHE", "no-hub");
    command
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            bytes: output.stdout,
        }
    }
}

pub(crate) fn run(arguments: &[&str]) -> Ran {
    program(arguments).output().expect("the program starts").into()
}

/// Runs a program with a text on standard input.
pub(crate) fn fed(program: &mut Command, text: &str) -> Ran {
    let piped = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("the program starts");
    let written = child.stdin.take().expect("a pipe").write_all(text.as_bytes());
    // One that reads no input may have ended.
    let is_ended = |error: std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
    assert!(written.map_or_else(is_ended, |()| true), "the text is written");
    child.wait_with_output().expect("the program ends").into()
}

/// The output of a run that succeeds.
pub(crate) fn printed(arguments: &[&str]) -> String {
    let Ran { status, out, err, .. } = run(arguments);
    assert_eq!((status, err.as_str()), (Some(0), ""), "{arguments:?}");
    out
}

/// Status and standard error of a run that prints nothing on standard output.
pub(crate) fn refused(arguments: &[&str]) -> String {
    let Ran { status, out, err, .. } = run(arguments);
    assert_eq!(out, "", "{arguments:?}");
    format!("{}\n{err}", status.map_or("a signal".to_owned(), |status| status.to_string()))
}

/// The JSON of a run that succeeds.
pub(crate) fn json(arguments: &[&str]) -> serde_json::Value {
    let json: serde_json::Value = serde_json::from_str(&printed(arguments)).expect("JSON");
    assert_eq!(json["schema"], 1, "{arguments:?}");
    json
}

/// A JSON document, indented.
pub(crate) fn indented(text: &str) -> String {
    format!("{:#}", weighbridge::json::Json::parse(text.as_bytes()).expect("JSON"))
}

/// Replaces the text between `before` and `after`, such as times and amounts of memory, with `..`.
pub(crate) fn without(text: &str, before: &str, after: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((head, tail)) = rest.split_once(before) {
        let Some(end) = tail.find(after) else { break };
        out.push_str(&format!("{head}{before}.."));
        rest = &tail[end..];
    }
    out + rest
}

/// A temporary folder with one file in it, and the file's path.
pub(crate) fn file(name: &str, bytes: &[u8]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("a file in a temporary folder");
    let path = path.to_str().expect("a path in UTF-8").to_owned();
    (folder, path)
}

/// A safetensors file with this header and these data.
pub(crate) fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

/// A GGUF file with these keys and one vector, "x".
pub(crate) fn gguf(path: &Path, keys: impl FnOnce(&mut weighbridge::metadata::KeyValues)) {
    use weighbridge::container::GGUF;
    use weighbridge::{Builder, DType, Tensor, WriteOptions};
    let mut builder = Builder::new(&GGUF).expect("GGUF can be written");
    keys(builder.metadata());
    let vector = Tensor::new("x", DType::F32, &[2], vec![0; 8]).expect("a tensor");
    builder.add("x", &vector).expect("a tensor");
    builder.plan().expect("a plan").run(path, &WriteOptions::new()).expect("a file");
}

/// A tensor of F32: its name, its shape and its values.
pub(crate) type Values = (String, Vec<usize>, Vec<f32>);

/// Numbers between -1 and 1 that mean nothing, the same for the same name.
pub(crate) fn numbers(name: &str, count: usize) -> Vec<f32> {
    let start = name.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
    let number = |place: usize| {
        let mixed = (start + place as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(number).collect()
}

/// A directory with this config and these tensors, in a folder of its own, and its path.
pub(crate) fn directory(
    config: &serde_json::Value,
    tensors: &[Values],
) -> (tempfile::TempDir, String) {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape, values) in tensors {
        let start = data.len();
        data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let entry = serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
        header.insert(name.clone(), entry);
    }
    let header = serde_json::Value::Object(header).to_string();
    let (folder, _) = file("model.safetensors", &safetensors(&header, &data));
    std::fs::write(folder.path().join("config.json"), config.to_string()).expect("a config");
    let path = folder.path().to_str().expect("a path in UTF-8").to_owned();
    (folder, path)
}

/// The config and the tensors of a Llama with one layer of width 8 and so many tokens.
pub(crate) fn llama(tokens: usize) -> (serde_json::Value, Vec<Values>) {
    let config = serde_json::json!({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
        "intermediate_size": 16, "vocab_size": tokens, "rms_norm_eps": 1e-5,
        "max_position_embeddings": 64, "tie_word_embeddings": false,
    });
    let layer = |name: &str| format!("model.layers.0.{name}.weight");
    let matrices = [
        ("model.embed_tokens.weight".to_owned(), [tokens, 8]),
        ("lm_head.weight".to_owned(), [tokens, 8]),
        (layer("self_attn.q_proj"), [8, 8]),
        (layer("self_attn.k_proj"), [4, 8]),
        (layer("self_attn.v_proj"), [4, 8]),
        (layer("self_attn.o_proj"), [8, 8]),
        (layer("mlp.gate_proj"), [16, 8]),
        (layer("mlp.up_proj"), [16, 8]),
        (layer("mlp.down_proj"), [8, 16]),
    ];
    let mut tensors: Vec<Values> = matrices
        .into_iter()
        .map(|(name, shape)| {
            let values = numbers(&name, shape.iter().product());
            (name, shape.to_vec(), values)
        })
        .collect();
    let norms = [
        "model.norm.weight".to_owned(),
        layer("input_layernorm"),
        layer("post_attention_layernorm"),
    ];
    tensors.extend(norms.map(|name| (name, vec![8], vec![1.0; 8])));
    (config, tensors)
}

/// Fills a tensor with one number.
pub(crate) fn fill(tensors: &mut [Values], end: &str, number: f32) {
    let found = tensors.iter_mut().find(|(name, ..)| name.ends_with(end));
    found.expect("a tensor of that name").2.fill(number);
}

/// A copy of the sample in a folder of its own, and the folder.
pub(crate) fn sample() -> (tempfile::TempDir, String) {
    let bytes = std::fs::read(root().join("assets/sample/sample-Q8_0.gguf")).expect("the sample");
    file("model.gguf", &bytes)
}

/// The one JSON document that a failing run leaves on standard error, with its status.
pub(crate) fn failure(arguments: &[&str]) -> serde_json::Value {
    let ran = run(arguments);
    let document: serde_json::Value = serde_json::from_str(&ran.err)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", ran.err));
    assert_eq!(document["schema"], 1, "{arguments:?}");
    assert_eq!(document["status"], ran.status.expect("a status"), "{arguments:?}");
    for member in ["kind", "message", "path", "tensor", "key", "offset", "advice"] {
        assert!(document.get(member).is_some(), "{arguments:?}: {member}");
    }
    document
}

/// Every file in a folder, recursively, with its bytes.
pub(crate) fn contents(folder: &Path) -> std::collections::BTreeMap<String, Vec<u8>> {
    let mut found = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            let inner = contents(&path).into_iter();
            found.extend(inner.map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
        } else {
            found.insert(name, std::fs::read(&path).expect("a file"));
        }
    }
    found
}

/// Whether the tests, and so the programs that they start, ignore the end of their terminal, as under `nohup`. Then a
/// program handles no signal: the system ends it.
pub(crate) fn ignores_signals() -> bool {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let set = line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok());
    // Signals 1, 2 and 15.
    let found = set.is_some_and(|set| set & 0x4003 != 0);
    if found {
        println!("skipped: signals are ignored here");
    }
    found
}

/// Runs a script of the shell where a folder is a file system of 600 kB, with variables. `None`, with a
/// line that says so, where none can be mounted.
pub(crate) fn on_small_disk(
    folder: &Path,
    script: &str,
    variables: &[(&str, &str)],
) -> Option<(String, String)> {
    let script =
        format!("mount -t tmpfs -o size=600k none '{}' || exit 99\n{script}", folder.display());
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
    command.envs(variables.iter().copied()).current_dir(root());
    let Ok(ran) = command.output() else {
        println!("skipped: no `unshare` here");
        return None;
    };
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    if !ran.status.success() && !out.contains("status") {
        println!("skipped: no file system can be mounted here: {err}");
        return None;
    }
    Some((out.into_owned(), err.into_owned()))
}

/// The writes, syncs and renames of a run, in order, without the numbers of processes.
#[cfg(target_os = "linux")]
pub(crate) fn system_calls(command: &Command, log: &Path) -> Option<Vec<String>> {
    let mut traced = Command::new("strace");
    traced.args([
        "-f",
        "-y",
        "-e",
        "trace=fsync,fdatasync,rename,renameat,renameat2,pwrite64,write",
    ]);
    traced.arg("-o").arg(log).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        traced.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => traced.env(name, value),
            None => traced.env_remove(name),
        };
    }
    let ran = traced.stdin(Stdio::null()).output();
    if !ran.as_ref().is_ok_and(|ran| ran.status.success()) {
        eprintln!("skipped: no strace, or it may not trace: {ran:?}");
        return None;
    }
    let calls = std::fs::read_to_string(log).expect("a log");
    std::fs::remove_file(log).expect("removed");
    let call = |line: &str| Some(line.split_once(' ')?.1.trim_start().to_owned());
    Some(calls.lines().filter_map(call).filter(|call| !call.contains("resumed>")).collect())
}

/// A directory with the sample model, on which the program remarks: a GGUF file lies beside it.
pub(crate) fn two_models() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (from, to) in [
        ("hf/config.json", "config.json"),
        ("hf/model.safetensors", "model.safetensors"),
        ("sample-Q8_0.gguf", "beside.gguf"),
    ] {
        let from = root().join("assets/sample").join(from);
        std::fs::copy(from, folder.path().join(to)).expect("a copy");
    }
    folder
}
