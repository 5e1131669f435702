//! A plan that is run in slices: the bytes of one process, whatever happens on the way.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support;
use crate::support::{contents, json, printed, program, refused, root, run};

const HF: &str = "assets/sample/hf";
const GGUF: &str = "assets/sample/sample-Q8_0.gguf";

/// A conversion, and a folder in which it is run in slices.
struct Job {
    folder: tempfile::TempDir,
    plan: String,
}

/// The arguments with `DST` in this folder.
fn into(folder: &Path, arguments: &[&str]) -> Vec<String> {
    let place = |word: &&str| match word.strip_prefix("DST") {
        Some(name) => folder.join(format!("out{name}")).to_string_lossy().into_owned(),
        None => (*word).to_owned(),
    };
    arguments.iter().map(place).collect()
}

fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

/// Runs the program, which may print notes.
fn succeeds(arguments: &[&str]) {
    let ran = run(arguments);
    assert_eq!(ran.status, Some(0), "{arguments:?}: {}", ran.err);
}

impl Job {
    fn new(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join("made")).expect("a folder");
        let plan = folder.path().join("plan.json").to_string_lossy().into_owned();
        let mut all = vec!["job".to_owned(), "plan".to_owned()];
        all.extend(into(&folder.path().join("made"), arguments));
        all.extend(["-o".to_owned(), plan.clone()]);
        succeeds(&words(&all));
        Self { folder, plan }
    }

    fn slice(&self, slice: &str) -> String {
        printed(&["job", "run", &self.plan, slice, "--threads", "1"])
    }

    fn made(&self) -> BTreeMap<String, Vec<u8>> {
        contents(&self.folder.path().join("made"))
    }

    /// The folder with unfinished files.
    fn unfinished(&self) -> std::path::PathBuf {
        let entries = std::fs::read_dir(self.folder.path().join("made")).expect("a folder");
        let mut paths = entries.map(|entry| entry.expect("an entry").path());
        let slices = |path: &std::path::PathBuf| path.to_string_lossy().contains(".slices-");
        paths.find(slices).expect("unfinished files")
    }
}

/// The output of one process with the same arguments.
fn by_one(arguments: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    succeeds(&words(&into(folder.path(), arguments)));
    contents(folder.path())
}

/// An importance matrix for the sample, in the older format of llama-imatrix.
fn importance(path: &Path) {
    let modules = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
    let mut bytes = Vec::new();
    let number = |bytes: &mut Vec<u8>, number: usize| {
        bytes.extend(u32::try_from(number).expect("a small number").to_le_bytes());
    };
    number(&mut bytes, 2 * modules.len());
    for layer in 0..2 {
        for (place, module) in modules.iter().enumerate() {
            let name = format!("blk.{layer}.{module}.weight");
            let columns = if *module == "ffn_down" { 512 } else { 256 };
            number(&mut bytes, name.len());
            bytes.extend(name.as_bytes());
            number(&mut bytes, 1);
            number(&mut bytes, columns);
            for column in 0..columns {
                let value = 0.5 + ((column * 7 + place + layer) % 13) as f32;
                bytes.extend(value.to_le_bytes());
            }
        }
    }
    std::fs::write(path, bytes).expect("an importance matrix");
}

#[test]
fn slices_make_the_bytes_of_one_process() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let matrix = folder.path().join("imatrix.dat");
    importance(&matrix);
    let matrix = matrix.to_str().expect("a path in UTF-8");
    let cases: &[&[&str]] = &[
        &["convert", HF, "DST.gguf"],
        &["convert", HF, "DST", "--to", "mlx"],
        &["convert", GGUF, "DST", "--to", "safetensors", "--max-shard-size", "300K"],
        &["convert", GGUF, "DST.safetensors"],
        &["quantize", HF, "DST.gguf", "--type", "Q4_K_M"],
        &["quantize", HF, "DST.gguf", "--type", "Q4_K_M", "--imatrix", matrix],
        &["quantize", HF, "DST", "--mlx", "4"],
        &["split", GGUF, "DST", "--max-shard-size", "400K"],
        &["merge", HF, "DST.safetensors"],
        &["convert", HF, "DST", "--shards", "tp=2", "--fuse", "qkv,gate-up"],
        &["convert", GGUF, "DST", "--shards", "tp=2,pp=2", "--max-shard-size", "300K"],
    ];
    for arguments in cases {
        let expected = by_one(arguments);
        for of in [1, 3, 8] {
            let job = Job::new(arguments);
            // In any order, some at the same time.
            let mut running = Vec::new();
            for slice in (1..=of).rev() {
                let slice = format!("{slice}/{of}");
                let words = ["job", "run", &job.plan, &slice, "--threads", "2"];
                let child = program(&words).stdout(Stdio::null()).spawn();
                running.push(child.expect("the program starts"));
            }
            for mut child in running {
                assert!(child.wait().expect("an end").success(), "{arguments:?}");
            }
            let status = json(&["job", "status", &job.plan, "--json"]);
            assert_eq!(status["done"], status["pieces"], "{arguments:?}");
            printed(&["job", "finish", &job.plan]);
            let made = job.made();
            assert_eq!(made.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
            assert!(made == expected, "{arguments:?} in {of} slices");
            assert_eq!(json(&["job", "status", &job.plan, "--json"])["finished"], true);
        }
    }
}

#[test]
fn a_plan_is_the_same_each_time_and_describes_what_is_written() {
    let [one, two] = [0, 1].map(|_| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let plan = folder.path().join("plan.json");
        let plan = plan.to_str().expect("a path in UTF-8").to_owned();
        printed(&["job", "plan", "convert", HF, "target/never.gguf", "-o", &plan]);
        serde_json::from_slice::<serde_json::Value>(&std::fs::read(&plan).expect("a plan"))
            .expect("JSON")
    });
    assert_eq!((&one["plan"], &one["sha256"]), (&two["plan"], &two["sha256"]));
    let plan = &one["plan"];
    let file = &plan["files"][0];
    let tensors = file["tensors"].as_array().expect("tensors");
    let pieces: u64 = tensors.iter().filter_map(|tensor| tensor["pieces"].as_u64()).sum();
    assert_eq!(plan["pieces"], pieces + 1, "and the header");
    let bytes: u64 = tensors.iter().filter_map(|tensor| tensor["bytes"].as_u64()).sum();
    let header = file["header_bytes"].as_u64().expect("a length");
    assert!(bytes + header <= file["bytes"].as_u64().expect("a length"));
    let source = &plan["sources"][0];
    assert!(source["path"].as_str().expect("a path").ends_with("model.safetensors"));
}

#[test]
fn a_slice_may_be_run_twice_and_by_two() {
    let arguments = ["quantize", HF, "DST.gguf", "--type", "Q4_K_M"];
    let job = Job::new(&arguments);
    let words = ["job", "run", &job.plan, "1/2", "--threads", "1"];
    let spawn = || program(&words).stdout(Stdio::null()).spawn().expect("the program starts");
    let both = [spawn(), spawn()];
    for mut child in both {
        assert!(child.wait().expect("an end").success());
    }
    assert!(job.slice("1/2").contains("already there"));
    let missing = run(&["job", "status", &job.plan]);
    assert_eq!(missing.status, Some(1));
    assert!(missing.out.contains("slices: 1/2\nmissing pieces: "), "{}", missing.out);
    let early = refused(&["job", "finish", &job.plan]);
    assert!(early.starts_with('2') && early.contains("are missing"), "{early}");
    // The rest in slices of another number.
    for slice in ["3/4", "4/4"] {
        job.slice(slice);
    }
    printed(&["job", "finish", &job.plan]);
    assert!(job.made() == by_one(&arguments));
    let again = refused(&["job", "run", &job.plan, "1/2"]);
    assert!(again.starts_with('2') && again.contains("already exists"), "{again}");
}

/// A copy of the sample that a test may change.
fn copied() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, bytes) in contents(&root().join(HF)) {
        std::fs::write(folder.path().join(name), bytes).expect("a copy");
    }
    let path = folder.path().to_str().expect("a path in UTF-8").to_owned();
    (folder, path)
}

#[test]
fn a_source_that_changes_is_refused() {
    let (source, path) = copied();
    let weights = source.path().join("model.safetensors");
    let job = Job::new(&["convert", &path, "DST.gguf"]);
    job.slice("1/2");
    // The same length and the same header, but another value.
    let mut bytes = std::fs::read(&weights).expect("the weights");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(source.path().join("other"), &bytes).expect("another file");
    std::fs::rename(source.path().join("other"), &weights).expect("a replaced file");
    for words in [["job", "run", &job.plan, "2/2"].as_slice(), &["job", "finish", &job.plan]] {
        let refusal = refused(words);
        assert!(refusal.starts_with('2'), "{refusal}");
        assert!(refusal.contains("model.safetensors: the file has changed since"), "{refusal}");
    }
    // A document that only the header depends on.
    let (source, path) = copied();
    let job = Job::new(&["convert", &path, "DST.gguf"]);
    let config = source.path().join("config.json");
    let text = std::fs::read_to_string(&config).expect("the config");
    let changed = text.replace("\"rope_theta\": 10000.0", "\"rope_theta\": 20000.0");
    assert_ne!(text, changed);
    std::fs::write(&config, changed).expect("another config");
    let refusal = refused(&["job", "run", &job.plan, "1/2"]);
    assert!(refusal.contains("the plan would be another one now"), "{refusal}");
}

#[test]
fn killed_workers_tear_nothing() {
    let arguments = ["quantize", HF, "DST.gguf", "--type", "Q3_K_M"];
    let expected = by_one(&arguments);
    let whole = {
        let job = Job::new(&arguments);
        let start = Instant::now();
        job.slice("1/2");
        start.elapsed()
    };
    let most = u64::try_from(whole.as_micros()).expect("a short run");
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut killed = 0;
    for _ in 0..20 {
        let job = Job::new(&arguments);
        for slice in ["1/2", "2/2"] {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let words = ["job", "run", &job.plan, slice, "--threads", "1"];
            let mut child = program(&words)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("the program starts");
            std::thread::sleep(Duration::from_micros(state % (most + most / 10)));
            let _ = child.kill();
            child.wait().expect("an end");
        }
        // Nothing is in its place before the end, and a slice is there as a whole or not at all.
        assert!(job.made().keys().all(|name| name.starts_with('.')));
        let early = run(&["job", "finish", &job.plan]);
        if early.status != Some(0) {
            assert!(
                early.err.contains("missing") || early.err.contains("no slice"),
                "{}",
                early.err
            );
            killed += 1;
            for slice in ["1/2", "2/2"] {
                job.slice(slice);
            }
            // The driver is ended while it finishes, too.
            let mut child = program(&["job", "finish", &job.plan])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("the program starts");
            std::thread::sleep(Duration::from_micros(state % 10_000));
            let _ = child.kill();
            child.wait().expect("an end");
            if !job.folder.path().join("made/out.gguf").exists() {
                printed(&["job", "finish", &job.plan]);
            }
        }
        let made = std::fs::read(job.folder.path().join("made/out.gguf")).expect("the model");
        assert!(made == expected["out.gguf"]);
    }
    assert!(killed > 0, "no run was killed before its end");
}

#[test]
fn damaged_slices_are_found_and_made_again() {
    let arguments = ["convert", HF, "DST.gguf"];
    let job = Job::new(&arguments);
    for slice in ["1/3", "2/3", "3/3"] {
        job.slice(slice);
    }
    let file = job.unfinished().join("files/0");
    let mut bytes = std::fs::read(&file).expect("the unfinished file");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&file, bytes).expect("a damaged file");
    let refusal = refused(&["job", "finish", &job.plan]);
    assert!(refusal.contains("slice 3/3 has other bytes than were written"), "{refusal}");
    assert_eq!(run(&["job", "status", &job.plan]).status, Some(1));
    job.slice("3/3");
    printed(&["job", "finish", &job.plan]);
    assert!(job.made() == by_one(&arguments));
}

#[test]
fn a_file_that_may_not_be_that_long() {
    let job = Job::new(&["convert", HF, "DST.gguf"]);
    let words = format!(
        "ulimit -f 64; exec '{}' slice '{}' 1/2",
        env!("CARGO_BIN_EXE_weighbridge"),
        job.plan
    );
    let ran =
        Command::new("sh").args(["-c", &words]).current_dir(root()).output().expect("a shell");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(5), "{said}");
    assert!(said.contains("this process may write at most"), "{said}");
    for slice in ["1/2", "2/2"] {
        job.slice(slice);
    }
    printed(&["job", "finish", &job.plan]);
    assert!(job.made() == by_one(&["convert", HF, "DST.gguf"]));
}

#[test]
fn an_existing_model_is_replaced_only_on_request() {
    let job = Job::new(&["convert", HF, "DST", "--to", "mlx", "--overwrite"]);
    let old = job.folder.path().join("made/out");
    std::fs::create_dir(&old).expect("an old model");
    std::fs::write(old.join("config.json"), "{}").expect("an old config");
    std::fs::write(old.join("model.safetensors"), "old").expect("old weights");
    job.slice("1/1");
    assert_eq!(std::fs::read(old.join("config.json")).expect("the old config"), b"{}");
    printed(&["job", "finish", &job.plan]);
    assert!(job.made() == by_one(&["convert", HF, "DST", "--to", "mlx"]));
    let job = Job::new(&["convert", HF, "DST.gguf"]);
    std::fs::write(job.folder.path().join("made/out.gguf"), "mine").expect("a file");
    let refusal = refused(&["job", "run", &job.plan, "1/1"]);
    assert!(refusal.starts_with('2') && refusal.contains("already exists"), "{refusal}");
}

#[test]
fn a_script_for_slurm_runs_every_slice() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [plan, script, made] = ["plan.json", "job.sh", "out.gguf"]
        .map(|name| folder.path().join(name).to_string_lossy().into_owned());
    let said = printed(&[
        "job", "plan", "convert", HF, &made, "-o", &plan, "--slices", "3", "--slurm", &script,
    ]);
    assert!(said.contains("seq 3 | parallel --retries 3 weighbridge job run"), "{said}");
    assert!(said.contains(&format!("\nor:     sbatch {script}\n")), "{said}");
    let text = std::fs::read_to_string(&script).expect("a script");
    assert!(text.contains("#SBATCH --array=1-3\n"), "{text}");
    let program = Path::new(env!("CARGO_BIN_EXE_weighbridge")).parent().expect("a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    for task in 1..=3 {
        let ran = Command::new("sh")
            .arg(&script)
            .env("SLURM_ARRAY_TASK_ID", task.to_string())
            .env("PATH", format!("{}:{path}", program.display()))
            .output()
            .expect("a shell");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
    printed(&["job", "finish", &plan]);
    assert!(Path::new(&made).exists());
}

#[test]
fn no_slice_is_there_yet() {
    let job = Job::new(&["convert", HF, "DST.gguf"]);
    let said = refused(&["job", "finish", &job.plan]);
    assert!(said.starts_with("5\n") && said.contains("no slice of the plan is there"), "{said}");
    assert!(said.contains("run its slices first"), "{said}");
    let ran = run(&["job", "status", &job.plan, "--json"]);
    let status: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!((&status["done"], &status["slices"]), (&0.into(), &serde_json::json!([])));
    assert!(job.made().is_empty());
}

/// A change that leaves length and date as they were is found at the start and at the end of a file.
#[test]
fn a_source_that_changes_without_a_trace_is_refused() {
    let (_folder, path) = support::sample();
    let job = Job::new(&["convert", &path, "DST.safetensors"]);
    let before = std::fs::read(&path).expect("the source");
    let date = std::fs::metadata(&path).expect("the source").modified().expect("a date");
    let write = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("other bytes");
        let file = std::fs::File::options().write(true).open(&path).expect("the source");
        file.set_modified(date).expect("the same date");
    };
    for place in [before.len() - 1, before.len() - 1000] {
        let mut bytes = before.clone();
        bytes[place] ^= 1;
        write(&bytes);
        let said = refused(&["job", "run", &job.plan, "1/1"]);
        assert!(
            said.contains("the file has changed since the plan was made: ends_sha256"),
            "{said}"
        );
    }
    write(&before);
    job.slice("1/1");
}

/// Other files among the records, such as those of a worker that was killed, are no records.
#[test]
fn records_and_what_lies_beside_them() {
    let arguments = ["convert", HF, "DST.gguf"];
    let job = Job::new(&arguments);
    job.slice("2/2");
    let status = || {
        let ran = run(&["job", "status", &job.plan, "--json"]);
        serde_json::from_str::<serde_json::Value>(&ran.out).expect("JSON")
    };
    let found = status();
    let [missing] = found["missing"].as_array().expect("ranges").as_slice() else {
        panic!("{found}")
    };
    assert_eq!(missing["start"], 0);
    let end = missing["end"].as_u64().expect("a number");
    let pieces = found["pieces"].as_u64().expect("a number");
    assert!(0 < end && end < pieces);
    assert_eq!(found["done"], pieces - end);
    let records = job.unfinished().join("records");
    std::fs::write(records.join(".000.json.1-1.partial"), "{").expect("a file");
    std::fs::write(records.join("notes"), "{").expect("a file");
    job.slice("1/2");
    assert_eq!(status()["done"], pieces);
    succeeds(&["job", "finish", &job.plan]);
    assert_eq!(job.made(), by_one(&arguments));
}

#[test]
fn what_is_no_plan_is_refused() {
    let (folder, path) = support::file("plan.json", b"{}");
    for words in [
        ["job", "run", &path, "1/2"].as_slice(),
        &["job", "finish", &path],
        &["job", "status", &path],
    ] {
        let refusal = refused(words);
        assert!(refusal.starts_with('4') && refusal.contains("plan is of version"), "{refusal}");
    }
    for slice in ["0/2", "3/2", "1", "a/b"] {
        assert!(refused(&["job", "run", &path, slice]).starts_with('2'), "{slice}");
    }
    drop(folder);
    let refusal =
        refused(&["job", "plan", "convert", HF, "x:y", "--to", "ollama", "-o", "target/no.json"]);
    assert!(refusal.contains("cannot be written in slices"), "{refusal}");
}

/// Each verb prints its report as JSON, and `status` tells when nothing is left to do.
#[test]
fn reports_of_each_step() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [plan, made] = ["plan.json", "out.gguf"]
        .map(|name| folder.path().join(name).to_string_lossy().into_owned());
    // A dry run says what would be written, and plans nothing.
    let dry = ["job", "plan", "convert", HF, &made, "-o", &plan, "--dry-run"];
    let said = printed(&dry);
    assert!(said.contains("out.gguf") && said.contains("dry run: nothing was written"), "{said}");
    assert!(contents(folder.path()).is_empty());
    let planned = json(&["job", "plan", "convert", HF, &made, "-o", &plan, "--json"]);
    assert_eq!(
        (&planned["plan"], &planned["destination"]),
        (&plan.as_str().into(), &made.as_str().into())
    );
    let pieces = planned["pieces"].as_u64().expect("a number");
    let slices = ["1/2", "2/2"].map(|slice| json(&["job", "run", &plan, slice, "--json"]));
    for (report, number) in slices.iter().zip([1, 2]) {
        assert_eq!((&report["slice"], &report["of"]), (&number.into(), &2.into()));
        assert_eq!(report["was_done"], false);
    }
    let done: u64 = slices.iter().filter_map(|report| report["pieces"].as_u64()).sum();
    assert_eq!(done, pieces);
    assert_eq!(json(&["job", "run", &plan, "1/2", "--json"])["was_done"], true);
    assert_eq!(printed(&["job", "run", &plan, "2/2"]).split(": ").last(), Some("already there\n"));
    let status = printed(&["job", "status", &plan]);
    assert!(status.contains(&format!("{pieces} of {pieces} pieces are done")), "{status}");
    assert!(status.contains("all slices are there"), "{status}");
    let finished = json(&["job", "finish", &plan, "--json"]);
    assert_eq!(finished["written"], serde_json::json!([made]));
    assert_eq!(finished["bytes"], planned["bytes"]);
    assert_eq!(printed(&["job", "status", &plan]), format!("{made} is finished\n"));
    assert_eq!(json(&["job", "status", &plan, "--json"])["finished"], true);
}

/// A plan is finished when its record says so, and its files are still those of the record. That files of
/// the planned lengths are there says nothing.
#[test]
fn a_plan_is_finished_by_its_record() {
    for arguments in [
        ["convert", HF, "DST.gguf", "--overwrite"].as_slice(),
        &["convert", HF, "DST", "--to", "mlx", "--overwrite"],
        &["split", GGUF, "DST", "--max-shard-size", "400K", "--overwrite"],
    ] {
        let expected = by_one(arguments);
        let job = Job::new(arguments);
        let status = || {
            let ran = run(&["job", "status", &job.plan, "--json"]);
            serde_json::from_str::<serde_json::Value>(&ran.out).expect("JSON")
        };
        // Files of the right lengths, by somebody else.
        let made = job.folder.path().join("made");
        for (name, bytes) in &expected {
            let path = made.join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            let mut bytes = bytes.clone();
            if let Some(last) = bytes.last_mut().filter(|_| !name.ends_with(".json")) {
                *last ^= 1;
            }
            std::fs::write(path, bytes).expect("a file");
        }
        assert_eq!(status()["finished"], false, "{arguments:?}");
        job.slice("1/1");
        assert_eq!(status()["finished"], false);
        printed(&["job", "finish", &job.plan]);
        assert!(job.made() == expected, "{arguments:?}");
        assert_eq!(status()["finished"], true);
        // Again: nothing is left to do.
        let before = job.made();
        assert_eq!(
            json(&["job", "finish", &job.plan, "--json"])["replaced"],
            serde_json::json!([])
        );
        assert!(job.made() == before);
        // A changed file of the same length, even with the same date.
        let name = expected.keys().find(|name| !name.ends_with(".json")).expect("weights");
        let path = made.join(name);
        let date = std::fs::metadata(&path).expect("a file").modified().expect("a date");
        let write = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("a file");
            let file = std::fs::File::options().write(true).open(&path).expect("the file");
            file.set_modified(date).expect("a date");
        };
        let mut bytes = expected[name].clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        write(&bytes);
        let found = status();
        assert_eq!((&found["finished"], &found["done"]), (&false.into(), &0.into()), "{found}");
        assert!(found["changed"].as_str().is_some_and(|path| path.ends_with(name)), "{found}");
        let said = run(&["job", "status", &job.plan]).out;
        assert!(said.contains("has changed since the plan was finished"), "{said}");
        let refusal = refused(&["job", "finish", &job.plan]);
        assert!(refusal.contains("has changed since it was finished"), "{refusal}");
        // Its own content again, with another date.
        write(&expected[name]);
        assert_eq!(status()["finished"], true);
        // A changed file is written again.
        write(&bytes);
        job.slice("1/1");
        printed(&["job", "finish", &job.plan]);
        assert!(job.made() == expected);
        assert_eq!(status()["finished"], true);
        std::fs::remove_file(&path).expect("a file");
        assert_eq!(status()["finished"], false);
    }
}

/// The source is trained further: the next conversion to the same place is another plan.
#[test]
fn a_source_that_has_changed_is_converted_again() {
    let (source, path) = copied();
    let folder = tempfile::tempdir().expect("a folder");
    let [plan, made] = ["plan.json", "out.gguf"]
        .map(|name| folder.path().join(name).to_string_lossy().into_owned());
    let convert = || {
        succeeds(&["job", "plan", "convert", &path, &made, "--overwrite", "-o", &plan]);
        let before = run(&["job", "status", &plan, "--json"]);
        let before: serde_json::Value = serde_json::from_str(&before.out).expect("JSON");
        assert_eq!(before["finished"], false);
        succeeds(&["job", "run", &plan, "1/1"]);
        succeeds(&["job", "finish", &plan]);
        std::fs::remove_file(&plan).expect("the plan");
        std::fs::read(&made).expect("the model")
    };
    let first = convert();
    let weights = source.path().join("model.safetensors");
    let date = std::fs::metadata(&weights).expect("a file").modified().expect("a date");
    let mut bytes = std::fs::read(&weights).expect("the weights");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&weights, bytes).expect("the weights");
    let file = std::fs::File::options().write(true).open(&weights).expect("the weights");
    file.set_modified(date).expect("the same date");
    assert!(convert() != first);
    assert_eq!(run(&["diff", &path, &made]).status, Some(0));
}

/// `finish` is killed at random moments, while a directory is replaced.
#[test]
fn a_killed_finish_replaces_a_directory_or_does_not() {
    let arguments = ["convert", HF, "DST", "--to", "mlx", "--overwrite"];
    let expected = by_one(&arguments);
    let old: &[(&str, &[u8])] = &[("config.json", b"{}"), ("model.safetensors", b"old")];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..12 {
        let job = Job::new(&arguments);
        let out = job.folder.path().join("made/out");
        std::fs::create_dir(&out).expect("a folder");
        for (name, bytes) in old {
            std::fs::write(out.join(name), bytes).expect("an old file");
        }
        job.slice("1/1");
        for _ in 0..2 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let mut child = program(&["job", "finish", &job.plan])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("the program starts");
            std::thread::sleep(Duration::from_micros(state % 60_000));
            let _ = child.kill();
            child.wait().expect("an end");
            let found = contents(&out);
            let is_old = found.len() == old.len()
                && old.iter().all(|(name, bytes)| found.get(*name).is_some_and(|own| own == bytes));
            let new = expected.iter().all(|(name, bytes)| {
                let name = name.strip_prefix("out/").expect("a file of the model");
                found.get(name) == Some(bytes)
            });
            assert!(is_old || new, "torn: {:?}", found.keys());
        }
        succeeds(&["job", "finish", &job.plan]);
        assert!(job.made() == expected, "{:?}", job.made().keys());
    }
}
