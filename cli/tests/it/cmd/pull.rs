//! Downloads by the program, and the names of what was downloaded.
#![cfg(feature = "http")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::hub::{COMMIT, Hub, Known, RepositoryFiles};
use crate::server::Answer;
use crate::support::{Ran, contents, program, root};
use crate::{hub, server, support};

const SAMPLE: &str = "assets/sample/hf";
const GGUF: &str = "assets/sample/sample-Q8_0.gguf";

/// The keys of an object store: the examples of its documentation.
const KEYS: (&str, &str) = ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");

/// The account of a store like Azure's, and its key.
const AZURE: Known = Known::Key("tales", b"0123456789abcdef0123456789abcdef");

fn set_azure(command: &mut Command, store: &server::Server) {
    command
        .env("AZURE_STORAGE_SERVICE_ENDPOINT", &store.address)
        .env("AZURE_STORAGE_ACCOUNT", "tales")
        .env("AZURE_STORAGE_KEY", AZURE.key_text());
}

/// A folder with a hub's cache and an Ollama store, and the addresses of servers.
struct Machine {
    folder: tempfile::TempDir,
    hub: String,
    registry: String,
    /// A store like Amazon S3.
    s3: String,
}

impl Machine {
    fn new(hub: &str, registry: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { folder, hub: hub.to_owned(), registry: registry.to_owned(), s3: String::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, arguments: &[&str]) -> Command {
        let mut command = program(arguments);
        command
            .env("HF_ENDPOINT", &self.hub)
            .env("HF_HUB_CACHE", self.path("hub"))
            .env("OLLAMA_MODELS", self.path("ollama"))
            .env("WEIGHBRIDGE_OLLAMA_REGISTRY", &self.registry)
            .env("WEIGHBRIDGE_CACHE", self.path("headers"))
            .env("AWS_ENDPOINT_URL", &self.s3)
            .env("AWS_ACCESS_KEY_ID", KEYS.0)
            .env("AWS_SECRET_ACCESS_KEY", KEYS.1)
            .env("AWS_SHARED_CREDENTIALS_FILE", self.path("credentials"))
            .env("AWS_CONFIG_FILE", self.path("config"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.program(arguments).output().expect("the program starts").into()
    }

    fn printed(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""), "{arguments:?}: {}", ran.out);
        self.hidden(&ran.out)
    }

    /// Status and standard error.
    fn refused(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        format!("{} {}", ran.status.unwrap_or(-1), self.hidden(&ran.err))
    }

    fn hidden(&self, text: &str) -> String {
        text.replace(&self.folder.path().display().to_string(), "MACHINE")
    }
}

/// The files of a folder, as a repository.
fn files_of(folder: &str) -> RepositoryFiles {
    contents(&root().join(folder)).into_iter().collect()
}

fn gguf() -> Vec<u8> {
    std::fs::read(root().join(GGUF)).expect("the sample")
}

#[test]
fn a_plan_and_a_download() {
    let hub = Hub::start("org/tale", files_of(SAMPLE));
    let machine = Machine::new(&hub.hub.address, "");
    insta::assert_snapshot!(machine.printed(&["pull", "org/tale", "--dry-run"]), @"
    org/tale
      source    hf://org/tale@main
      size      2.5 MiB, 5 files
      to fetch  2.5 MiB
      path      MACHINE/hub/models--org--tale/snapshots/c0ffee0123456789c0ffee0123456789c0ffee01

    FILE                        SIZE  PRESENT
    config.json                771 B        -
    generation_config.json     195 B        -
    model.safetensors        2.5 MiB        -
    tokenizer.json          21.1 KiB        -
    tokenizer_config.json      118 B        -

    dry run: nothing was downloaded
    ");
    assert!(!machine.path("hub").exists());
    let pulled = machine.printed(&["pull", "org/tale"]);
    let last = pulled.lines().last().expect("a line");
    assert!(
        last.starts_with("fetched ") && last.contains("MACHINE/hub/models--org--tale"),
        "{last}"
    );
    let dry = machine.printed(&["pull", "org/tale", "--dry-run"]);
    let rows = dry.lines().skip_while(|line| !line.starts_with("FILE")).skip(1);
    let present: Vec<&str> = rows.take(5).filter_map(|row| row.rsplit(' ').next()).collect();
    assert_eq!(present, ["all"; 5], "{dry}");
    let again = machine.printed(&["pull", "org/tale"]);
    insta::assert_snapshot!(again.lines().last().expect("a line"), @"everything was there: MACHINE/hub/models--org--tale/snapshots/c0ffee0123456789c0ffee0123456789c0ffee01");
    let json: serde_json::Value =
        serde_json::from_str(&machine.printed(&["pull", "org/tale", "--json"])).expect("JSON");
    assert_eq!((&json["schema"], &json["fetched"]), (&1.into(), &0.into()));
    assert_eq!(json["name"], "hf://org/tale@main");
    assert_eq!(json["files"][0]["present"], json["files"][0]["bytes"]);
    let only = machine.printed(&[
        "pull",
        "org/tale",
        "--include",
        "*.json",
        "--exclude",
        "tok*",
        "--dry-run",
    ]);
    assert!(
        only.contains("config.json")
            && !only.contains("tokenizer")
            && !only.contains("safetensors"),
        "{only}"
    );
}

/// The files that the usual choice leaves out, and those chosen without it.
#[test]
fn files_are_left_out_by_name() {
    let hub = Hub::start("org/tale", files_of(SAMPLE));
    let machine = Machine::new(&hub.hub.address, "");
    let files = |words: &[&str]| -> Vec<String> {
        let all = [&["pull", "org/tale", "--dry-run", "--json"], words].concat();
        let json: serde_json::Value = serde_json::from_str(&machine.printed(&all)).expect("JSON");
        let files = json["files"].as_array().expect("files").iter();
        files.map(|file| file["name"].as_str().expect("a name").to_owned()).collect()
    };
    let usual = files(&[]);
    assert_eq!(usual.len(), 5, "{usual:?}");
    let without = files(&["--exclude", "tok*"]);
    assert_eq!(without, ["config.json", "generation_config.json", "model.safetensors"]);
    assert_eq!(files(&["--include", "tok*"]), ["tokenizer.json", "tokenizer_config.json"]);
    // `hf download` fetches all: what the usual choice leaves out is said.
    let mut all = files_of(SAMPLE);
    all.push(("model.onnx".to_owned(), b"x".to_vec()));
    let hub = Hub::start("org/tale", all);
    let machine = Machine::new(&hub.hub.address, "");
    let said =
        |words: &[&str]| machine.run(&[&["pull", "org/tale", "--dry-run"], words].concat()).err;
    assert!(
        said(&[]).contains("left out: 1 file, such as model.onnx; --include '*'"),
        "{}",
        said(&[])
    );
    assert_eq!(said(&["--include", "*"]), "");
}

/// Files of a repository are chosen as `hf download` and `huggingface-cli download` choose them.
#[test]
fn files_and_folders_of_a_repository() {
    let mut all = files_of(SAMPLE);
    for name in ["LICENSE", "1_Pooling/config.json", "original/a.pth", "original/b.bin"] {
        all.push((name.to_owned(), name.as_bytes().to_vec()));
    }
    let hub = Hub::start("org/tale", all);
    let machine = Machine::new(&hub.hub.address, "");
    let files = |words: &str| -> String {
        let all: Vec<&str> = words.split(' ').chain(["--dry-run", "--json"]).collect();
        let json: serde_json::Value = serde_json::from_str(&machine.printed(&all)).expect("JSON");
        let files = json["files"].as_array().expect("files").iter();
        let names: Vec<&str> = files.map(|file| file["name"].as_str().expect("a name")).collect();
        names.join(" ")
    };
    let small = "config.json generation_config.json tokenizer.json tokenizer_config.json";
    for (words, expected) in [
        ("pull org/tale LICENSE", "LICENSE"),
        ("pull org/tale config.json LICENSE", "LICENSE config.json"),
        ("hf download org/tale 1_Pooling/", "1_Pooling/config.json"),
        ("hf download org/tale 1_Pooling", "1_Pooling/config.json"),
        ("pull org/tale original/a.pth", "original/a.pth"),
        ("pull org/tale --include original/", "original/a.pth original/b.bin"),
        // Several patterns after one option.
        ("pull org/tale --include *.pth *.bin", "original/a.pth original/b.bin"),
        ("pull --include *.pth *.bin org/tale", "original/a.pth original/b.bin"),
        (
            "huggingface-cli download org/tale --include * --exclude *.pth *.bin LICENSE 1_Pooling/ *.safetensors",
            small,
        ),
        ("pull --include LICENSE --exclude *.pth *.bin hf://org/tale", "LICENSE"),
        ("pull org/tale --include=LICENSE config.json", "LICENSE config.json"),
    ] {
        assert_eq!(files(words), expected, "{words}");
    }
    // Neither a name nor a folder is a pattern.
    let folder = machine.path("out").display().to_string();
    let pulled = machine.run(&["pull", "org/tale", "--include", "LICENSE", &folder]);
    assert_eq!(pulled.status, Some(0), "{}", pulled.err);
    assert_eq!(contents(&machine.path("out")).len(), 1);
    // Nothing is fetched if one of them is missing.
    let hub_cache = machine.path("hub");
    for (words, expected) in [
        ("pull org/tale other", "`-o other` downloads to that folder"),
        ("pull org/tale config.json NOTICE", "the repository has no file NOTICE"),
        ("pull org/tale none/", "the repository has no file none/"),
    ] {
        let said = machine.refused(&words.split(' ').collect::<Vec<_>>());
        assert!(said.starts_with('5') && said.contains(expected), "{words}: {said}");
    }
    assert!(!hub_cache.exists());
    // As for `hf download`, of one file its path, of several their folder.
    let quiet = |files: &str| {
        let words = format!("hf download org/tale {files} --quiet");
        machine.run(&words.split(' ').collect::<Vec<_>>()).out
    };
    let one = quiet("1_Pooling/config.json");
    assert!(one.ends_with("/1_Pooling/config.json\n") && Path::new(one.trim()).is_file(), "{one}");
    let two = quiet("LICENSE config.json");
    assert!(two.ends_with(&format!("{COMMIT}\n")), "{two}");
}

/// All GGUF models of a repository in the cache are checked by its name, one by that of a file.
#[test]
fn every_model_of_a_repository_is_verified() {
    let ggufs: RepositoryFiles =
        ["tale-Q4_K_M.gguf", "more/tale-Q8_0.gguf"].map(|name| (name.to_owned(), gguf())).into();
    let hub = Hub::start("org/tale", ggufs);
    let machine = Machine::new(&hub.hub.address, "");
    machine.printed(&["pull", "org/tale", "*.gguf"]);
    let checked = |words: &[&str]| machine.run(words).out.matches(": ok").count();
    assert_eq!(checked(&["hf", "cache", "verify", "org/tale"]), 2);
    assert_eq!(checked(&["verify", "org/tale", "--hub", "org/tale"]), 2);
    let repository = machine.path("hub/models--org--tale");
    assert_eq!(checked(&["verify", repository.to_str().expect("UTF-8")]), 2);
    assert_eq!(checked(&["verify", "org/tale:Q8_0"]), 1);
    assert_eq!(checked(&["verify", "org/tale/tale-Q4_K_M.gguf"]), 1);
}

/// The names by which the program finds models, and what it says where a name has two meanings.
#[test]
fn names_of_models_on_this_machine() {
    let mut files = files_of(SAMPLE);
    files.retain(|(name, _)| name != "README.md");
    let hub = Hub::start("org/tale", files);
    let ggufs: RepositoryFiles = ["Q4_K_M", "Q8_0"]
        .map(|tag| (format!("tale-{tag}.gguf"), gguf()))
        .into_iter()
        .chain([("README.md".to_owned(), b"# Tale".to_vec())])
        .collect();
    let other = Hub::start("org/tale-GGUF", ggufs);
    let (registry, _) = hub::registry(&[("config", b"{}".to_vec()), ("model", gguf())]);
    let mut machine = Machine::new(&hub.hub.address, &registry.address);
    machine.printed(&["pull", "org/tale"]);
    machine.printed(&["pull", "tale"]);
    machine.hub = other.hub.address.clone();
    machine.printed(&["pull", "org/tale-GGUF:Q8_0"]);
    assert_eq!(machine.run(&["pull", "org/tale-GGUF"]).status, Some(0));
    // From here on, nothing is asked of a server.
    machine.hub = "http://127.0.0.1:9".to_owned();
    let repository = machine.path("hub/models--org--tale");
    let snapshot = repository.join(format!("snapshots/{COMMIT}"));
    let opened = |name: &str| -> String {
        let ran = machine.run(&["inspect", name, "--json"]);
        match serde_json::from_str::<serde_json::Value>(&ran.out) {
            Ok(json) => {
                let notes = json["notes"].as_array().map(|notes| format!("{notes:?}"));
                let notes = notes.filter(|notes| notes != "[]").unwrap_or_default();
                machine.hidden(&format!("{}\n    {notes}", json["path"].as_str().expect("a path")))
            }
            Err(_) => machine.refused(&["inspect", name]),
        }
    };
    let text = |path: &Path| path.display().to_string();
    let short = format!("org/tale@{}", &COMMIT[..8]);
    let names = [
        "org/tale",
        "org/tale@main",
        &short,
        "org/tale@v9",
        "org/tale/model.safetensors",
        "org/tale:Q4_K_M",
        "org/tale-GGUF",
        "org/tale-GGUF:q8_0",
        "org/tale-GGUF:Q5_K_M",
        "org/none",
        "tale",
        "tale:latest",
        "none",
        &text(&repository),
        &text(&snapshot),
        &text(&machine.path("hub/models--org--tale-GGUF")),
    ];
    let said = names.map(|name| format!("{}: {}", machine.hidden(name), opened(name).trim_end()));
    insta::assert_snapshot!(said.join("\n"), @"
    org/tale: MACHINE/hub/models--org--tale/snapshots/c0ffee0123456789c0ffee0123456789c0ffee01
    org/tale@main: MACHINE/hub/models--org--tale/snapshots/c0ffee0123456789c0ffee0123456789c0ffee01
    org/tale@c0ffee01: MACHINE/hub/models--org--tale/snapshots/c0ffee0123456789c0ffee0123456789c0ffee01
    org/tale@v9: 5 error: org/tale@v9: the hub's cache has org/tale, but no snapshot of its revision v9
     help: give a snapshot that it has, such as org/tale@c0ffee0123456789c0ffee0123456789c0ffee01; `weighbridge pull org/tale@v9` downloads the revision
    org/tale/model.safetensors: MACHINE/hub/models--org--tale/snapshots/c0ffee0123456789c0ffee0123456789c0ffee01/model.safetensors
    org/tale:Q4_K_M: 5 error: MACHINE/hub/models--org--tale/snapshots/c0ffee0123456789c0ffee0123456789c0ffee01: the cache has no GGUF file of the repository that is Q4_K_M
     help: it has no GGUF files; others must be downloaded first
    org/tale-GGUF: MACHINE/hub/models--org--tale-GGUF/snapshots/c0ffee0123456789c0ffee0123456789c0ffee01/tale-Q4_K_M.gguf
    org/tale-GGUF:q8_0: MACHINE/hub/models--org--tale-GGUF/snapshots/c0ffee0123456789c0ffee0123456789c0ffee01/tale-Q8_0.gguf
    org/tale-GGUF:Q5_K_M: 5 error: MACHINE/hub/models--org--tale-GGUF/snapshots/c0ffee0123456789c0ffee0123456789c0ffee01: the cache has no GGUF file of the repository that is Q5_K_M
     help: it has Q4_K_M, Q8_0; others must be downloaded first
    org/none: 5 error: org/none: no such file, and no model of that name in MACHINE/ollama or MACHINE/hub
     help: `weighbridge pull org/none` downloads it from the hub, hf://org/none reads it there
    tale: MACHINE/ollama/manifests/registry.ollama.ai/library/tale/latest
    tale:latest: MACHINE/ollama/manifests/registry.ollama.ai/library/tale/latest
    none: 5 error: none: no such file, and no model of that name in MACHINE/ollama
     help: `weighbridge pull none` downloads a model of Ollama's; `weighbridge models` lists those of a store
    MACHINE/hub/models--org--tale: MACHINE/hub/models--org--tale/snapshots/c0ffee0123456789c0ffee0123456789c0ffee01
    MACHINE/hub/models--org--tale/snapshots/c0ffee0123456789c0ffee0123456789c0ffee01: MACHINE/hub/models--org--tale/snapshots/c0ffee0123456789c0ffee0123456789c0ffee01
    MACHINE/hub/models--org--tale-GGUF: MACHINE/hub/models--org--tale-GGUF/snapshots/c0ffee0123456789c0ffee0123456789c0ffee01/tale-Q4_K_M.gguf
    ");
}

/// A commit is known by its first seven digits, not by fewer and not by other letters.
#[test]
fn shortened_commits() {
    let hub = Hub::start("org/tale", files_of(SAMPLE));
    let machine = Machine::new(&hub.hub.address, "");
    machine.printed(&["pull", "org/tale"]);
    let opened = |revision: &str| {
        let name = format!("org/tale@{revision}");
        machine.run(&["inspect", &name]).status == Some(0)
    };
    assert_eq!([COMMIT, &COMMIT[..8], &COMMIT[..7]].map(opened), [true; 3]);
    assert_eq!([&COMMIT[..6], &COMMIT[..1], "c0ffeg0"].map(opened), [false; 3]);
    let odd = "latest-of-all";
    let snapshots = machine.path("hub/models--org--tale/snapshots");
    std::fs::create_dir(snapshots.join(odd)).expect("a folder");
    std::fs::write(snapshots.join(odd).join("x.gguf"), gguf()).expect("a file");
    assert!(!opened(&odd[..8]), "no digits");
}

/// A path, a model of Ollama's store and a repository of the cache may have the same name.
#[test]
fn names_with_two_meanings() {
    let hub = Hub::start("library/tale", files_of(SAMPLE));
    let (registry, _) = hub::registry(&[("config", b"{}".to_vec()), ("model", gguf())]);
    let machine = Machine::new(&hub.hub.address, &registry.address);
    machine.printed(&["pull", "library/tale"]);
    machine.printed(&["pull", "ollama://tale"]);
    std::fs::write(machine.path("tale"), gguf()).expect("a file");
    let said = |name: &str| {
        let mut command = machine.program(&["hash", name]);
        let ran = command.env("OLLAMA_MODELS", machine.path("ollama"));
        let ran: Ran = ran.current_dir(machine.folder.path()).output().expect("a run").into();
        let first = ran.out.lines().next().unwrap_or_default().to_owned();
        machine.hidden(&format!("{name}: {first}\n{}", ran.err))
    };
    let names = ["tale", "tale:latest", "library/tale", "./tale"];
    insta::assert_snapshot!(names.map(said).join("\n"), @"
    tale: 08afffbd1ba040de8275890c7b369297f65c0481c75a6ae7100fa1eebc03503a  output_norm.weight
    note: tale: the path is opened; tale:latest names the model of Ollama's store

    tale:latest: 08afffbd1ba040de8275890c7b369297f65c0481c75a6ae7100fa1eebc03503a  output_norm.weight

    library/tale: 08afffbd1ba040de8275890c7b369297f65c0481c75a6ae7100fa1eebc03503a  output_norm.weight
    note: library/tale: the model of Ollama's store is opened; MACHINE/hub/models--library--tale/snapshots/c0ffee0123456789c0ffee0123456789c0ffee01 is the one of the hub's cache

    ./tale: 08afffbd1ba040de8275890c7b369297f65c0481c75a6ae7100fa1eebc03503a  output_norm.weight
    ");
}

/// Ctrl-C ends a download with its own status, and the next run continues it.
#[test]
#[cfg(unix)]
fn interrupted() {
    if support::ignores_signals() {
        return;
    }
    let slow = |_: &server::Request, answer: Answer| Answer {
        pace: Some((16 << 10, Duration::from_millis(5))),
        ..answer
    };
    let files = files_of(SAMPLE);
    let hub = Hub::changed("org/tale", files.clone(), slow);
    let machine = Machine::new(&hub.hub.address, "");
    let mut child = machine
        .program(&["pull", "org/tale"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let blobs = machine.path("hub/models--org--tale/blobs");
    while hub.store.sent() < 100_000 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let interrupt = ["-INT", &child.id().to_string()];
    assert!(Command::new("kill").args(interrupt).status().expect("kill").success());
    let ended = child.wait().expect("an end");
    assert_eq!(ended.code(), Some(130));
    let unfinished = |blobs: &Path| -> Vec<String> {
        contents(blobs).into_keys().filter(|name| name.contains("incomplete")).collect()
    };
    let left = unfinished(&blobs);
    let (_, weights) = files.iter().find(|(name, _)| hub::is_large(name)).expect("weights");
    let partial = format!("{}.weighbridge.incomplete", hub::sha256(weights));
    for name in [format!("{partial}.ranges"), partial] {
        assert!(left.contains(&name), "{name} is not in {left:?}");
    }
    let before = hub.store.sent();
    machine.printed(&["pull", "org/tale"]);
    assert_eq!(unfinished(&blobs), [""; 0]);
    let size =
        files.iter().filter(|(name, _)| hub::is_large(name)).map(|(_, bytes)| bytes.len() as u64);
    let twice = (before + hub.store.sent() - before) - size.sum::<u64>();
    // What was under way between the server and the program.
    assert!(twice < 100_000, "{twice} bytes were fetched twice");
}

/// A disk that is too small is noticed before anything is fetched, one that others fill is an error.
#[test]
#[cfg(target_os = "linux")]
fn a_disk_that_is_full() {
    let hub = Hub::start("org/tale", files_of(SAMPLE));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cache = folder.path().display().to_string();
    let script = format!(
        "'{}' pull org/tale; echo \"status $?\"; find '{cache}' -type f",
        env!("CARGO_BIN_EXE_weighbridge"),
    );
    let variables = [("HF_ENDPOINT", hub.hub.address.as_str()), ("HF_HUB_CACHE", &cache)];
    let ran = support::on_small_disk(folder.path(), &script, &variables);
    let Some((out, err)) = ran else { return };
    assert!(out.ends_with("status 5\n"), "{out}{err}");
    assert!(err.contains("not enough space on the disk"), "{err}");
    assert_eq!(hub.store.requests().len(), 0);
}

/// One model through every way by which a name may lead to it: the tensors have the same hashes.
#[test]
fn one_model_has_one_hash() {
    use crate::server::{Request, Server};
    let gguf = gguf();
    let files: RepositoryFiles = vec![("tale-Q8_0.gguf".to_owned(), gguf.clone())];
    let hub = Hub::start("org/tale", files);
    let (registry, _) = hub::registry(&[("config", b"{}".to_vec()), ("model", gguf.clone())]);
    let served = gguf.clone();
    let plain = Server::start(move |request: &Request| match request.path.as_str() {
        "/tale.gguf" => Answer::file(request, &served),
        _ => Answer::status(404),
    });
    let stored: RepositoryFiles = vec![("a b/tale.gguf".to_owned(), gguf)];
    let store = hub::bucket(stored.clone(), Some(KEYS));
    let google = hub::bucket(stored.clone(), None);
    let azure = hub::container(stored, AZURE);
    let machine =
        Machine { s3: store.address.clone(), ..Machine::new(&hub.hub.address, &registry.address) };
    machine.printed(&["pull", "org/tale", "tale:latest"]);
    machine.printed(&["pull", "org/tale", "--to", &machine.path("folder").display().to_string()]);
    let ways = [
        GGUF.to_owned(),
        format!("{}/tale.gguf", plain.address),
        "org/tale".to_owned(),
        "org/tale:Q8_0".to_owned(),
        "hf://org/tale".to_owned(),
        "hf://org/tale/tale-Q8_0.gguf".to_owned(),
        format!("{}/org/tale/blob/main/tale-Q8_0.gguf", hub.hub.address),
        "tale".to_owned(),
        "ollama://tale".to_owned(),
        machine.path("hub/models--org--tale").display().to_string(),
        machine.path("folder/tale-Q8_0.gguf").display().to_string(),
        "s3://models/a b/tale.gguf".to_owned(),
        "gs://models/a b/tale.gguf".to_owned(),
        "az://models/a b/tale.gguf".to_owned(),
    ];
    let hash = |name: &String| {
        let mut command = machine.program(&["hash", name, "--json"]);
        command.env("STORAGE_EMULATOR_HOST", &google.address);
        set_azure(&mut command, &azure);
        let ran: Ran = command.output().expect("a run").into();
        let json: serde_json::Value =
            serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{name}: {}", ran.err));
        json["tensors"].clone()
    };
    let first = hash(&ways[0]);
    assert!(first.as_array().is_some_and(|tensors| tensors.len() > 10));
    for name in &ways[1..] {
        assert_eq!(hash(name), first, "{name}");
    }
}

/// Files, folders and indexes of an object store, with keys of the environment, of a profile and
/// without any.
#[test]
fn object_stores() {
    let hf: RepositoryFiles = files_of(SAMPLE)
        .into_iter()
        .map(|(name, bytes)| (format!("tales/hf/{name}"), bytes))
        .collect();
    let store = hub::bucket(hf.clone(), Some(KEYS));
    let public = hub::bucket(hf, None);
    let machine = Machine { s3: store.address.clone(), ..Machine::new("", "") };
    let hashes = |change: &dyn Fn(&mut Command), name: &str| -> String {
        let mut command = machine.program(&["hash", name]);
        change(&mut command);
        let ran: Ran = command.output().expect("a run").into();
        let lines: Vec<&str> = ran.out.lines().collect();
        if ran.status == Some(0) { lines.join("\n") } else { machine.hidden(&ran.err) }
    };
    let as_it_is = |_: &mut Command| {};
    let local = hashes(&as_it_is, SAMPLE);
    assert!(local.lines().count() > 10, "{local}");
    for name in
        ["s3://models/tales/hf", "s3://models/tales/hf/", "s3://models/tales/hf/model.safetensors"]
    {
        assert_eq!(hashes(&as_it_is, name), local, "{name}");
    }
    // The keys of a profile.
    let (id, secret) = KEYS;
    std::fs::write(
        machine.path("credentials"),
        format!("[work]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n"),
    )
    .expect("a file");
    std::fs::write(machine.path("config"), "[profile work]\nregion = eu-central-1\n")
        .expect("a file");
    let name = "s3://models/tales/hf";
    let without = |command: &mut Command| {
        command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
    };
    let profile = |command: &mut Command| {
        without(command);
        command.env("AWS_PROFILE", "work");
    };
    assert_eq!(hashes(&profile, name), local);
    let region = |request: &server::Request| {
        request.authorization.as_deref().is_some_and(|text| text.contains("/eu-central-1/s3/"))
    };
    assert!(store.requests().last().is_some_and(region));
    // A public store needs none; this one is not public, and the key is wrong.
    let no_keys = |command: &mut Command| {
        without(command);
        command.env("AWS_ENDPOINT_URL", &public.address);
    };
    assert_eq!(hashes(&no_keys, name), local);
    assert!(public.requests().iter().all(|request| request.authorization.is_none()));
    let wrong = |command: &mut Command| {
        command.env("AWS_SECRET_ACCESS_KEY", "another");
    };
    let google = |command: &mut Command| {
        command.env("STORAGE_EMULATOR_HOST", &public.address);
    };
    assert_eq!(hashes(&google, "gs://models/tales/hf"), local);
    let token = |command: &mut Command| {
        google(command);
        command.env("GOOGLE_OAUTH_ACCESS_TOKEN", "token");
    };
    assert_eq!(hashes(&token, "gs://models/tales/hf"), local);
    let bearer =
        |request: &server::Request| request.authorization.as_deref() == Some("Bearer token");
    assert!(public.requests().last().is_some_and(bearer));
    let said = [
        hashes(&wrong, name),
        hashes(&as_it_is, "s3://models/none"),
        hashes(&as_it_is, "s3://models/none.gguf"),
        hashes(&as_it_is, "s3://"),
        hashes(&as_it_is, "az://models/x.gguf"),
    ];
    insta::assert_snapshot!(said.join(""), @"
    error: s3://models/tales/hf: the store refuses access
     help: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE
    error: s3://models/none: the server has no such file (404)
    error: s3://models/none.gguf: the server has no such file (404)
    error: s3://: not a name of an object store
     help: write s3://BUCKET/KEY, gs://BUCKET/KEY or az://CONTAINER/BLOB
    error: az://models/x.gguf: the storage account of Azure is unknown
     help: set AZURE_STORAGE_ACCOUNT
    ");
}

/// A container of Azure, by the key of its account and by a signature, and what becomes of both at a
/// redirect to another host.
#[test]
fn containers_of_azure() {
    const SIGNED: &str = "sp=r&sig=secret%3D";
    let hf: RepositoryFiles = files_of(SAMPLE)
        .into_iter()
        .map(|(name, bytes)| (format!("tales/hf/{name}"), bytes))
        .collect();
    let machine = Machine::new("", "");
    let by_key = hub::container(hf.clone(), AZURE);
    let by_signature = hub::container(hf, Known::Signature(SIGNED));
    let said = |name: &str, change: &dyn Fn(&mut Command)| {
        let mut command = machine.program(&["hash", name]);
        change(&mut command);
        let ran: Ran = command.output().expect("a run").into();
        assert!(!format!("{}{}", ran.out, ran.err).contains("secret"), "{}", ran.err);
        if ran.status == Some(0) { ran.out } else { machine.hidden(&ran.err) }
    };
    let local = said(SAMPLE, &|_| {});
    let signed = |command: &mut Command| {
        set_azure(command, &by_signature);
        command.env("AZURE_STORAGE_SAS_TOKEN", format!("?{SIGNED}"));
    };
    for name in ["az://models/tales/hf", "az://models/tales/hf/model.safetensors"] {
        assert_eq!(said(name, &|command| set_azure(command, &by_key)), local, "{name}");
        assert_eq!(said(name, &signed), local, "{name}");
    }
    let wrong = |command: &mut Command| {
        set_azure(command, &by_key);
        command.env("AZURE_STORAGE_ACCOUNT", "others");
    };
    let elsewhere = server::Server::start(|_| Answer::status(403));
    let to = elsewhere.address.clone();
    let redirecting = server::Server::start(move |_| Answer::redirect(format!("{to}/x")));
    let redirected = |command: &mut Command| set_azure(command, &redirecting);
    let refused = [
        said("az://models/tales/hf", &wrong),
        said("az://models/none.gguf", &|command| set_azure(command, &by_key)),
        said("az://models/tales/hf", &redirected),
    ];
    assert!(!elsewhere.requests().is_empty());
    assert!(elsewhere.requests().iter().all(|request| request.authorization.is_none()));
    insta::assert_snapshot!(refused.join(""), @"
    error: az://models/tales/hf: the store refuses access
     help: set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN
    error: az://models/none.gguf: the server has no such file (404)
    error: az://models/tales/hf: the store refuses access
     help: set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN
    ");
}

/// Without a network, `hf://` means what the hub's cache has.
#[test]
fn a_downloaded_repository_opens_offline() {
    let hub = Hub::start("org/tale", files_of(SAMPLE));
    let machine = Machine::new(&hub.hub.address, "");
    machine.printed(&["pull", "huggingface.co/org/tale"]);
    let local = machine.printed(&["hash", SAMPLE]);
    hub.reset();
    for name in ["hf://org/tale", "hf://org/tale@main", "hf://org/tale/model.safetensors"] {
        assert_eq!(machine.printed(&["hash", name, "--offline"]), local, "{name}");
    }
    assert_eq!(hub.hub.requests().len() + hub.store.requests().len(), 0);
    // With a network, the hub is asked what the branch means now.
    assert_eq!(machine.printed(&["hash", "hf://org/tale"]), local);
    assert!(!hub.hub.requests().is_empty());
    let said = machine.refused(&["hash", "hf://org/other", "--offline"]);
    insta::assert_snapshot!(said, @"
    5 error: hf://org/other: not fetched, since this run is offline
     help: leave out --offline
    ");
}

/// The hub gives no list of a repository that another program downloaded, but its files are all here.
#[test]
fn what_another_program_downloaded_is_found_offline() {
    let hub = Hub::start("org/tale", files_of(SAMPLE));
    let machine = Machine::new(&hub.hub.address, "");
    let pulled = machine.printed(&["pull", "org/tale", "--json"]);
    let path = |text: &str| -> serde_json::Value {
        serde_json::from_str::<serde_json::Value>(text).expect("JSON")["path"].clone()
    };
    // Another program keeps no list.
    std::fs::remove_dir_all(machine.path("headers")).expect("the lists");
    hub.reset();
    let offline = machine.run(&["pull", "org/tale", "--offline", "--json"]);
    assert_eq!(offline.status, Some(0), "{}", offline.err);
    assert_eq!(path(&machine.hidden(&offline.out)), path(&pulled));
    let mut command = machine.program(&["pull", "org/tale"]);
    let by_setting: Ran = command.env("HF_HUB_OFFLINE", "1").output().expect("a run").into();
    assert!(by_setting.err.starts_with("note: the hub was not asked"), "{}", by_setting.err);
    assert!(by_setting.out.contains("everything was there: "), "{}", by_setting.out);
    assert!(hub.hub.requests().is_empty());
    let quiet = machine.printed(&["hf", "download", "org/tale", "-q"]);
    assert_eq!(quiet.trim_end(), path(&pulled).as_str().expect("a path"));
    hub.reset();
    // No server listens there.
    let mut command = machine.program(&["pull", "org/tale"]);
    let alone: Ran =
        command.env("HF_ENDPOINT", "http://127.0.0.1:9").output().expect("a run").into();
    assert_eq!(alone.status, Some(0), "{}", alone.err);
    let other = machine.refused(&["pull", "org/other", "--offline"]);
    assert!(other.contains("since this run is offline") && !other.contains("HF_HUB"), "{other}");
    let mut command = machine.program(&["pull", "org/other"]);
    let other: Ran = command.env("HF_HUB_OFFLINE", "1").output().expect("a run").into();
    assert!(other.err.contains("help: unset HF_HUB_OFFLINE"), "{}", other.err);
    // Not all of it is here.
    std::fs::remove_dir_all(machine.path("headers")).expect("the lists");
    let weights = machine.hidden(path(&pulled).as_str().expect("a path"));
    let weights = weights.replace("MACHINE", &machine.folder.path().display().to_string());
    std::fs::remove_file(Path::new(&weights).join("model.safetensors")).expect("the weights");
    assert!(machine.refused(&["pull", "org/tale", "--offline"]).starts_with("5 "));
}

/// A rename lasts only once its folder is synced.
#[cfg(target_os = "linux")]
#[test]
fn folders_of_what_was_renamed_are_synced() {
    let hub = Hub::start("org/tale", files_of(SAMPLE));
    let (registry, _) = hub::registry(&[("config", b"{}".to_vec()), ("model", gguf())]);
    let machine = Machine::new(&hub.hub.address, &registry.address);
    for (name, ending) in [("org/tale", ""), ("ollama://tale", "/latest")] {
        let command = machine.program(&["pull", name]);
        let calls = support::system_calls(&command, &machine.path("calls"));
        let Some(calls) = calls else { return };
        let renamed = |call: &String| {
            let to = call.starts_with("rename").then(|| call.rsplit('"').nth(1))??;
            (to.ends_with(ending) && !to.contains("/refs/")).then(|| PathBuf::from(to))
        };
        let mut checked = 0;
        for (at, to) in calls.iter().enumerate().filter_map(|(at, call)| Some((at, renamed(call)?)))
        {
            // Folders above a new one too, up to the store.
            let folder = format!("<{}>", to.parent().expect("a folder").display());
            let synced =
                calls[at..].iter().any(|call| call.starts_with("fsync") && call.contains(&folder));
            let blob = to.components().any(|part| part.as_os_str() == "blobs");
            if blob || ending == "/latest" {
                assert!(
                    synced,
                    "{name}: {folder} is not synced after {}\n{calls:#?}",
                    to.display()
                );
                checked += 1;
            }
        }
        assert!(checked > 0, "{name}: {calls:#?}");
    }
}

/// The mark of caches is another program's file too: it stays as it is.
#[test]
fn a_mark_that_is_there_stays() {
    let hub = Hub::start("org/tale", files_of(SAMPLE));
    let machine = Machine::new(&hub.hub.address, "");
    std::fs::create_dir(machine.path("hub")).expect("a folder");
    std::fs::write(machine.path("hub/CACHEDIR.TAG"), "mine").expect("a file");
    machine.printed(&["pull", "org/tale"]);
    assert_eq!(std::fs::read(machine.path("hub/CACHEDIR.TAG")).expect("a file"), b"mine");
}
