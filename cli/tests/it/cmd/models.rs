//! `list models`: the models on a machine, found, named, and compared.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Ran, root};
use crate::{machine, support};
use serde_json::{Value, json};

const SAMPLE: &str = "assets/sample/sample-Q8_0.gguf";

/// A home directory, and a folder for the index.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().expect("a folder") };
        std::fs::create_dir(machine.home()).expect("a folder");
        machine
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = support::program(&["models"]);
        command
            .args(arguments)
            .env("HOME", self.home())
            .env_remove("OLLAMA_MODELS")
            .env_remove("HF_HUB_CACHE");
        command.env("USERPROFILE", self.home()).env_remove("APPDATA").env_remove("LOCALAPPDATA");
        command.env("WEIGHBRIDGE_CACHE", self.folder.path().join("cache"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.command(arguments).output().expect("the program starts").into()
    }

    /// The document of a run with this status.
    fn json(&self, status: i32, arguments: &[&str]) -> Value {
        let ran = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(ran.status, Some(status), "{}", ran.err);
        serde_json::from_str(&ran.out).expect("JSON")
    }

    fn copy(&self, from: &str, to: &str) {
        let to = self.home().join(to);
        std::fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        std::fs::copy(root().join(from), to).expect("a copy");
    }
}

fn names(report: &Value) -> Vec<&str> {
    let models = report["models"].as_array().expect("models");
    models.iter().map(|model| model["name"].as_str().expect("a name")).collect()
}

fn row<'r>(report: &'r Value, name: &str) -> &'r Value {
    let models = report["models"].as_array().expect("models");
    models.iter().find(|model| model["name"] == name).unwrap_or_else(|| panic!("{name}: {report}"))
}

#[test]
fn a_machine_without_models() {
    let machine = Machine::new();
    let ran = machine.run(&[]);
    assert_eq!((ran.status, &*ran.out), (Some(0), ""));
    assert!(ran.err.contains("no models: no program's folder exists"), "{}", ran.err);
    assert_eq!(machine.json(0, &[]), json!({"schema": 1, "models": []}));
    // The folders of the programs that are asked for.
    let ran = machine.run(&["huggingface"]);
    assert!(ran.err.contains("no models: there is no /"), "{}", ran.err);
    assert!(ran.err.replace("\n", "").contains("hub;"), "{}", ran.err);
}

/// Nine layouts: each model is found once, under the name that its program's user knows.
#[test]
fn every_program_s_models() {
    let machine = Machine::new();
    let made = machine::make(&machine.home(), 300).expect("files");
    let report = machine.json(0, &[]);
    let models = report["models"].as_array().expect("models");
    assert_eq!(models.len(), made.models);
    for (name, program, container, path) in [
        (
            "org0/model-0",
            "huggingface",
            "safetensors",
            ".cache/huggingface/hub/models--org0--model-0",
        ),
        (
            "mlx-community/model-0-4bit",
            "mlx",
            "mlx",
            ".cache/huggingface/hub/models--mlx-community",
        ),
        ("model-0:latest", "ollama", "ollama", ".ollama/models/manifests"),
        ("publisher/model-1-GGUF/model-1-Q8_0.gguf", "lmstudio", "gguf", ".lmstudio/models"),
        ("org_model-0_Q8_0.gguf", "llama.cpp", "gguf", ".cache/llama.cpp"),
        ("model-0.Q8_0.gguf", "gpt4all", "gguf", ".local/share/nomic.ai/GPT4All"),
        ("model-0", "jan", "gguf", ".local/share/Jan/data/llamacpp/models/model-0/model.gguf"),
    ] {
        let row = row(&report, name);
        assert_eq!((&row["program"], &row["container"]), (&json!(program), &json!(container)));
        let found = row["path"].as_str().expect("a path");
        assert!(Path::new(found).starts_with(machine.home()) && found.contains(path), "{found}");
        assert_eq!((&row["architecture"], &row["parameters"]), (&json!("llama"), &json!(4096)));
        assert!(row["bits_per_weight"].is_f64() && row["last_used"].is_u64(), "{row}");
    }
    for program in ["koboldcpp", "text-generation-webui"] {
        assert!(models.iter().any(|model| model["program"] == program), "{program}");
    }
    let keys: Vec<&str> =
        models[0].as_object().expect("an object").keys().map(String::as_str).collect();
    let expected = [
        "name",
        "program",
        "path",
        "container",
        "architecture",
        "parameters",
        "bits_per_weight",
        "bytes",
        "last_used",
        "duplicates_of",
    ];
    assert_eq!(keys, expected);
    // The index says the same, and the second run opens no model.
    assert_eq!(machine.json(0, &[]), report);
}

/// Links of the hub cache and hard links are counted once.
#[test]
fn files_that_are_shared_count_once() {
    let machine = Machine::new();
    let made = machine::make(&machine.home(), 300).expect("files");
    assert!(made.links > 0 && made.copies > 0);
    let report = machine.json(0, &[]);
    let models = report["models"].as_array().expect("models");
    let twins = models.iter().filter(|model| model["duplicates_of"] != json!([])).count();
    // Without reading weights, only links are known to be the same.
    assert_eq!(twins, if cfg!(unix) { 2 * made.links } else { 0 });
    let sizes: u64 = models.iter().map(|model| model["bytes"].as_u64().expect("bytes")).sum();
    let ran = machine.run(&[]);
    // Each line of the table is a model, for scripts; the rest is for a reader.
    assert_eq!(ran.out.lines().count(), made.models + 1, "{}", ran.out);
    let said = ran.err;
    let last = said.lines().last().expect("a line").to_owned();
    assert!(last.starts_with(&format!("{} models, ", made.models)), "{last}");
    let file =
        std::fs::metadata(machine.home().join("koboldcpp/model-0.gguf")).expect("a file").len();
    let on_disk = sizes - file * made.links as u64;
    if cfg!(unix) {
        assert!(last.contains(&format!(", {:.1} ", on_disk as f64 / 1024.0)), "{last}: {on_disk}");
    }
}

#[test]
fn duplicates_and_what_they_cost() {
    let machine = Machine::new();
    let made = machine::make(&machine.home(), 300).expect("files");
    let report = machine.json(0, &["--duplicates"]);
    let groups = report["duplicates"].as_array().expect("groups");
    assert_eq!(groups.len(), made.copies);
    for group in groups {
        assert_eq!(group["same"], "files");
        let [saving] = group["savings"].as_array().expect("savings").as_slice() else {
            panic!("{group}")
        };
        assert_eq!((&saving["action"], &saving["bytes"]), (&json!("hard-link"), &group["bytes"]));
        let (file, keep) = (saving["file"].as_str().unwrap(), saving["keep"].as_str().unwrap());
        assert!(file.contains(".lmstudio") && keep.contains("blobs"), "{saving}");
        assert_eq!(std::fs::read(file).unwrap(), std::fs::read(keep).unwrap());
    }
    let copied = row(&report, "publisher/model-0-GGUF/model-0-Q8_0.gguf");
    assert_eq!(copied["duplicates_of"], json!([row(&report, "model-0:latest")["path"]]));
    // Nothing was changed; and the digests are known from now on.
    let later = machine.json(0, &[]);
    assert_eq!(row(&later, "model-0:latest"), row(&report, "model-0:latest"));
    let said = machine.run(&["--duplicates", "--filter", "*model-0*"]).out;
    assert!(
        said.contains("  ln -f ") && said.contains("could be saved in 1 group; no command was run"),
        "{said}"
    );
}

/// A store names files by digests, and a file may have changed since: nothing is advised by a name.
#[test]
fn damaged_files_are_reported_and_not_kept() {
    use sha2::{Digest, Sha256};
    let good = std::fs::read(root().join(SAMPLE)).expect("the sample");
    let sha256 = |bytes: &[u8]| -> String {
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let digest = sha256(&good);
    // Also at places where files are compared before they are read as a whole.
    for at in [good.len() / 2 - 4096, good.len() - 1, good.len() / 2, 40] {
        let machine = Machine::new();
        let write = |name: &str, bytes: &[u8]| {
            let path = machine.home().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, bytes).expect("a file");
        };
        let mut bad = good.clone();
        bad[at] ^= 1;
        let repository = ".cache/huggingface/hub/models--org--tale";
        let commit = "0123456789abcdef0123456789abcdef01234567";
        write(&format!("{repository}/refs/main"), commit.as_bytes());
        write(&format!("{repository}/blobs/{digest}"), &bad);
        let snapshot = machine.home().join(repository).join("snapshots").join(commit);
        std::fs::create_dir_all(&snapshot).expect("a folder");
        let link = snapshot.join("tale.gguf");
        #[cfg(unix)]
        std::os::unix::fs::symlink(format!("../../blobs/{digest}"), &link).expect("a link");
        #[cfg(not(unix))]
        std::fs::write(&link, format!("../../blobs/{digest}")).expect("a link as text");
        write(".lmstudio/models/publisher/tale-GGUF/tale.gguf", &good);
        write("koboldcpp/tale.gguf", &good);
        for _ in 0..2 {
            // The second time, the digests are those of the index.
            let found = machine.json(1, &["--duplicates"]);
            let [damaged] = found["damaged"].as_array().expect("a list").as_slice() else {
                panic!("{found}")
            };
            let path = damaged["path"].as_str().expect("a path");
            assert!(path.ends_with(&digest), "{damaged}");
            assert_eq!(
                (&damaged["named"], &damaged["sha256"]),
                (&json!(digest), &json!(sha256(&bad)))
            );
            let [group] = found["duplicates"].as_array().expect("a list").as_slice() else {
                panic!("{found}")
            };
            assert_eq!(group["savings"].as_array().map(Vec::len), Some(1), "{group}");
            assert!(!group.to_string().contains("models--org--tale"), "{group}");
            let values = machine.json(1, &["--duplicates=values"]);
            let groups = values["duplicates"].to_string();
            assert!(!groups.contains("models--org--tale"), "{groups}");
        }
        let said = machine.run(&["--duplicates"]);
        assert_eq!(said.status, Some(1));
        let line = said.out.lines().find(|line| line.starts_with("damaged: ")).expect("a line");
        assert!(line.contains(&digest) && line.contains("fetch the file again"), "{line}");
        // Once it is whole again, it is the copy to keep.
        write(&format!("{repository}/blobs/{digest}"), &good);
        let found = machine.json(0, &["--duplicates"]);
        assert_eq!(found.get("damaged"), None);
        for saving in found["duplicates"][0]["savings"].as_array().expect("savings") {
            assert!(
                saving["keep"].as_str().is_some_and(|keep| keep.ends_with(&digest)),
                "{saving}"
            );
        }
    }
}

/// Copies of a damaged file are no reason to keep it.
#[test]
fn a_damaged_blob_and_its_copy() {
    let machine = Machine::new();
    let store = ".ollama/models";
    machine.copy(SAMPLE, "koboldcpp/copy.gguf");
    let named = format!("sha256-{}", "ab".repeat(32));
    machine.copy(SAMPLE, &format!("{store}/blobs/{named}"));
    let len = std::fs::metadata(root().join(SAMPLE)).expect("the sample").len();
    let config =
        format!("sha256-{}", "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
    std::fs::write(machine.home().join(store).join("blobs").join(&config), "{}").expect("a config");
    let layer = |kind: &str, digest: &str, size: u64| json!({"mediaType": kind, "digest": digest.replace('-', ":"), "size": size});
    let manifest = json!({
        "schemaVersion": 2,
        "config": layer("application/vnd.docker.container.image.v1+json", &config, 2),
        "layers": [layer("application/vnd.ollama.image.model", &named, len)],
    });
    let path = machine.home().join(store).join("manifests/registry.ollama.ai/library/tale/latest");
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, manifest.to_string()).expect("a manifest");
    let found = machine.json(1, &["--duplicates"]);
    assert_eq!(found["damaged"].as_array().map(Vec::len), Some(1), "{found}");
    assert_eq!(found.get("duplicates"), None, "{found}");
}

/// The same values in other containers, splits and dtypes.
#[test]
fn duplicates_by_values() {
    let machine = Machine::new();
    let convert = |to: &str, more: &[&str]| {
        let to = machine.home().join("koboldcpp").join(to);
        std::fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        let to = to.to_str().expect("UTF-8");
        let ran = support::run(&[&["convert", "assets/sample/hf", to], more].concat());
        assert_eq!(ran.status, Some(0), "{}", ran.err);
    };
    convert("a.gguf", &[]);
    convert("b", &["--to", "safetensors", "--max-shard-size", "1M"]);
    machine.copy("assets/sample/sample-Q8_0.gguf", "koboldcpp/c.gguf");
    let found = machine.json(0, &["--duplicates"]);
    assert_eq!(found.get("duplicates"), None, "{found}");
    let said = machine.run(&[]).out;
    assert!(!said.contains("have the same files"), "{said}");
    for _ in 0..2 {
        let found = machine.json(0, &["--duplicates=values"]);
        let groups = found["duplicates"].as_array().expect("groups");
        assert_eq!((groups.len(), &groups[0]["same"]), (1, &json!("values")), "{found}");
        let paths = [&row(&found, "a.gguf")["path"], &row(&found, "b")["path"]];
        assert_eq!(groups[0]["models"], json!(paths));
        assert_eq!(row(&found, "a.gguf")["duplicates_of"], json!([paths[1]]));
        assert_eq!(row(&found, "c.gguf")["duplicates_of"], json!([]));
    }
    let said = machine.run(&["--duplicates=values"]).out;
    assert!(said.contains("the same values") && said.contains("keep one of them"), "{said}");
    // A copy of one of them is a third file, of which one is enough.
    let saved = |machine: &Machine| {
        machine.json(0, &["--duplicates=values"])["duplicates"][0]["bytes"].as_u64().expect("bytes")
    };
    let before = saved(&machine);
    let copied = machine.home().join("koboldcpp/d.gguf");
    let len = std::fs::copy(machine.home().join("koboldcpp/a.gguf"), &copied).expect("a copy");
    assert_eq!(saved(&machine), before + len);
}

/// A broken model is a row, and does not hide the others.
#[test]
fn broken_models_are_rows() {
    let machine = Machine::new();
    machine.copy(SAMPLE, "koboldcpp/good.gguf");
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(machine.home().join("koboldcpp").join(name), bytes).expect("a file");
    };
    write("empty.gguf", b"");
    write("pointer.gguf", b"version https://git-lfs.github.com/spec/v1\n");
    write("split-00001-of-00002.gguf", &std::fs::read(root().join(SAMPLE)).expect("the sample"));
    for _ in 0..2 {
        let ran = machine.run(&[]);
        assert_eq!(ran.status, Some(1));
        assert!(ran.err.starts_with("\n4 models, "), "{}", ran.err);
        for said in ["the file is empty", "a Git LFS pointer", "good.gguf", "Q8_0"] {
            assert!(ran.out.contains(said), "{said}: {}", ran.out);
        }
        let ran = machine.run(&["--json"]);
        let report: Value = serde_json::from_str(&ran.out).expect("JSON");
        assert_eq!(names(&report).len(), 4, "{report}");
        assert_eq!(row(&report, "empty.gguf")["container"], json!(null));
        let errors: Value = serde_json::from_str(&ran.err).expect("one document");
        assert_eq!(
            errors["message"].as_str().map(|m| m.ends_with("the file is empty")),
            Some(true)
        );
    }
    // A file that is repaired is opened again.
    write("empty.gguf", &std::fs::read(root().join(SAMPLE)).expect("the sample"));
    let report = machine.json(1, &[]);
    assert_eq!(row(&report, "empty.gguf")["container"], "gguf");
}

#[test]
fn roots_settings_filter_and_sort() {
    let machine = Machine::new();
    machine.copy("assets/sample/hf/model.safetensors", "mine/deep/large.safetensors");
    machine.copy(SAMPLE, "other/Q/small.gguf");
    let settings = machine.folder.path().join("settings.toml");
    std::fs::write(&settings, "roots = [\"~/other\", \"/no/such/folder\"]\n").expect("a file");
    machine.copy(SAMPLE, "koboldcpp/small.gguf");
    let mine = machine.home().join("mine");
    let mine = mine.to_str().expect("UTF-8");
    let run = |arguments: &[&str]| -> Ran {
        let mut command = machine.command(arguments);
        command.env("WEIGHBRIDGE_CONFIG", &settings).output().expect("the program starts").into()
    };
    let listed = |arguments: &[&str]| -> Value {
        serde_json::from_str(&run(&[arguments, &["--json"]].concat()).out).expect("JSON")
    };
    let report = listed(&[]);
    assert_eq!(names(&report), ["small.gguf", "Q/small.gguf"]);
    assert_eq!(row(&report, "Q/small.gguf")["program"], json!(null));
    assert_eq!(report["notes"].as_array().map(Vec::len), Some(1), "{report}");
    assert_eq!(names(&listed(&["--filter", "Q/*"])), ["Q/small.gguf"]);
    assert_eq!(names(&listed(&["--sort", "size"])).len(), 2);
    // A folder, or the name of a program, limits the list.
    assert_eq!(names(&listed(&[mine])), ["deep/large.safetensors"]);
    assert_eq!(names(&listed(&["koboldcpp"])), ["small.gguf"]);
    let both = ["small.gguf", "deep/large.safetensors"];
    assert_eq!(names(&listed(&["koboldcpp", mine])), both);
    assert_eq!(names(&listed(&["koboldcpp", mine, "--sort", "size"])), [both[1], both[0]]);
    assert_eq!(names(&listed(&["ollama"])), [""; 0]);
    let ran = run(&["--filter", "nothing"]);
    assert_eq!(ran.status, Some(5), "{}", ran.err);
    std::fs::write(&settings, "rots = []\n").expect("a file");
    let ran = run(&[]);
    assert_eq!(ran.status, Some(3), "{}", ran.err);
    assert!(ran.err.contains("line 1: unknown field `rots`"), "{}", ran.err);
    let ran = machine.run(&["/no/such/folder"]);
    assert_eq!(ran.status, Some(5), "{}", ran.err);
    let ran: Ran = support::program(&["list", "dtypes", "--sort", "size"]).output().unwrap().into();
    assert_eq!(ran.status, Some(2), "{}", ran.err);
}

/// Several programs may list at the same time; a damaged index is replaced.
#[test]
fn the_index_is_shared_and_may_be_damaged() {
    let machine = Machine::new();
    machine::make(&machine.home(), 300).expect("files");
    // Without the index, the times at which this program read the models count as their last use.
    let listed = || {
        let mut report = machine.json(0, &[]);
        for model in report["models"].as_array_mut().expect("models") {
            model["last_used"] = json!(null);
        }
        report
    };
    let expected = listed();
    let index = machine.folder.path().join("cache/models.index");
    let whole = std::fs::read(&index).expect("an index");
    for damaged in [&whole[..whole.len() / 2], b"", b"\xff\xff\n"] {
        std::fs::write(&index, damaged).expect("a file");
        assert_eq!(listed(), expected);
        assert_eq!(std::fs::read(&index).expect("an index").len(), whole.len());
    }
    std::fs::remove_file(&index).expect("an index");
    let start = || {
        let mut command = machine.command(&["--json"]);
        command.stdout(std::process::Stdio::piped()).spawn().expect("the program starts")
    };
    let running: Vec<_> = (0..6).map(|_| start()).collect();
    for child in running {
        let output = child.wait_with_output().expect("it ends");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(names(&report), names(&expected));
    }
    assert_eq!(std::fs::read(&index).expect("an index").len(), whole.len());
    let left = std::fs::read_dir(machine.folder.path().join("cache")).expect("a folder");
    assert_eq!(left.count(), 1, "no partial file stays");
}

/// Links that lead in circles, and folders that no program reads.
#[cfg(unix)]
#[test]
fn links_and_hidden_folders() {
    let machine = Machine::new();
    machine.copy(SAMPLE, "koboldcpp/a.gguf");
    machine.copy(SAMPLE, "koboldcpp/.cache/b.gguf");
    machine.copy(SAMPLE, "elsewhere/c.gguf");
    let link = |to: PathBuf, name: &str| {
        std::os::unix::fs::symlink(to, machine.home().join(name)).expect("a link");
    };
    link(machine.home().join("koboldcpp"), "koboldcpp/circle");
    link(machine.home(), "koboldcpp/up");
    link(machine.home().join("elsewhere"), "koboldcpp/there");
    link(machine.home().join("elsewhere"), "elsewhere/itself");
    link(machine.home().join("nowhere"), "koboldcpp/dangling.gguf");
    let report = machine.json(0, &[]);
    assert_eq!(names(&report), ["a.gguf", "there/c.gguf"]);
}

/// LM Studio's settings name another folder. A file that is too large to be settings is not read.
#[test]
fn settings_of_programs() {
    let machine = Machine::new();
    machine.copy(SAMPLE, "elsewhere/a.gguf");
    let elsewhere = machine.home().join("elsewhere");
    let settings = machine.home().join(".lmstudio/settings.json");
    std::fs::create_dir_all(settings.parent().expect("a folder")).expect("a folder");
    let listed = |filler: usize| {
        let text = json!({"downloadsFolder": elsewhere, "filler": " ".repeat(filler)});
        std::fs::write(&settings, text.to_string()).expect("a file");
        names(&machine.json(0, &[])).len()
    };
    assert_eq!(listed(0), 1);
    assert_eq!(listed(1 << 20), 0);
}

/// A store that belongs to another user, as that of Ollama's service does, is no store without models.
#[cfg(unix)]
#[test]
fn a_store_that_this_user_may_not_read() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65_534;
    let machine = Machine::new();
    let set_mode = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    };
    set_mode(machine.folder.path(), 0o755);
    let store = machine.home().join("store");
    std::fs::create_dir(&store).expect("a folder");
    set_mode(&store, 0o000);
    let own = machine.folder.path().join("weighbridge");
    let run = |program: &Path| -> std::io::Result<Ran> {
        let mut command = support::quiet(program.to_str().expect("UTF-8"));
        command.args(["inspect", "tale"]).env("OLLAMA_MODELS", &store).env("HOME", machine.home());
        command.current_dir(machine.folder.path());
        // Root may read everything.
        if std::fs::read_dir(&store).is_ok() {
            command.uid(NOBODY).gid(NOBODY);
        }
        Ok(command.output()?.into())
    };
    let program = Path::new(env!("CARGO_BIN_EXE_weighbridge"));
    // Others may not be allowed to run the program where it is.
    let ran = run(program).or_else(|_| {
        std::fs::hard_link(program, &own).or_else(|_| std::fs::copy(program, &own).map(drop))?;
        run(&own)
    });
    let ran = ran.expect("the program starts");
    set_mode(&store, 0o755);
    assert_eq!(ran.status, Some(5), "{}", ran.err);
    let said = format!("{} cannot be read: join the group that owns it", store.display());
    assert!(ran.err.contains(&said), "{}", ran.err);
}
