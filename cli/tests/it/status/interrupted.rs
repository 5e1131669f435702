//! Runs that are killed, run out of space or find an existing destination: the old destination stays
//! complete, and the source does not change.

#[cfg(feature = "http")]
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{contents, printed, program, refused, root};
use crate::{server, support};

const SOURCE: &str = "assets/sample/hf";

/// Pseudorandom numbers, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }
}

/// Kills runs of a command at moments between its start and its end, and checks that the destination is
/// either the old one or the complete new one.
fn killed(times: u32, arguments: &[&str], target: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(target);
    let path = path.to_str().expect("a path in UTF-8");
    let all = [arguments, &[SOURCE, path, "--overwrite", "--threads", "1"]].concat();
    let start = Instant::now();
    printed(&all);
    let whole = u64::try_from(start.elapsed().as_micros()).expect("a short run");
    let mut most = whole + whole / 10;
    let new = contents(folder.path());
    let source = contents(&root().join(SOURCE));
    // Another model of the same kind, to be replaced.
    let mut old = new.clone();
    for (name, bytes) in &mut old {
        match name.ends_with(".json") {
            true => bytes.push(b'\n'),
            false => bytes.truncate(bytes.len() / 2),
        }
    }
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    let (mut before, mut after) = (0, 0);
    for _ in 0..times {
        for (name, bytes) in &old {
            std::fs::write(folder.path().join(name), bytes).expect("an old file");
        }
        let mut child = program(&all)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        std::thread::sleep(Duration::from_micros(numbers.below(most)));
        // It may have ended already.
        let _ = child.kill();
        child.wait().expect("an end");
        let mut found = contents(folder.path());
        found.retain(|name, _| !name.starts_with('.'));
        match found == old {
            true => before += 1,
            false => {
                assert!(found == new, "{arguments:?}: torn: {:?}", found.keys());
                after += 1;
                // The first run may have been much slower than the others.
                most -= most / 8;
            }
        }
    }
    println!("{arguments:?}: killed {times} times: {before} before the end, {after} at it");
    assert!(before > 0, "no run was killed before its end");
    assert!(contents(&root().join(SOURCE)) == source, "the source has changed");
    // The next run removes what killed runs have left.
    printed(&all);
    assert!(contents(folder.path()) == new, "something is left");
}

#[test]
fn a_killed_run_tears_no_file() {
    killed(50, &["quantize", "--type", "Q3_K_M"], "model.gguf");
}

#[test]
fn a_killed_run_tears_no_directory() {
    killed(20, &["convert", "--to", "mlx"], "model");
}

#[test]
fn a_file_that_may_not_be_that_long() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, "what lies there").expect("an old file");
    let words = format!(
        "ulimit -f 64; exec '{}' convert {SOURCE} '{}' --to gguf --overwrite",
        env!("CARGO_BIN_EXE_weighbridge"),
        path.display()
    );
    let ran =
        Command::new("sh").args(["-c", &words]).current_dir(root()).output().expect("a shell");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(5), "{said}");
    assert!(said.contains("this process may write at most"), "{said}");
    let left = contents(folder.path());
    assert_eq!(left, BTreeMap::from([("model.gguf".to_owned(), b"what lies there".to_vec())]));
}

/// A file system that is too small, created without special rights.
#[test]
#[cfg(target_os = "linux")]
fn a_file_system_that_is_full() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = format!(
        "echo old > '{0}/model.gguf'
         '{1}' convert {SOURCE} '{0}/model.gguf' --to gguf --overwrite
         echo \"status $?\"; ls -A '{0}'; cat '{0}/model.gguf'",
        folder.path().display(),
        env!("CARGO_BIN_EXE_weighbridge"),
    );
    let Some((out, err)) = support::on_small_disk(folder.path(), &script, &[]) else { return };
    assert_eq!(out, "status 5\nmodel.gguf\nold\n", "{err}");
    assert!(err.contains("model.gguf: not enough space on the disk"), "{err}");
    assert!(!err.contains(".partial") && err.contains("free space there"), "{err}");
}

#[test]
fn what_lies_there_is_not_replaced_unasked() {
    let (_folder, path) = support::file("model.gguf", b"mine");
    let said = refused(&["convert", SOURCE, &path, "--to", "gguf"]);
    assert!(said.starts_with("2\n") && said.contains("already exists"), "{said}");
    assert_eq!(std::fs::read(&path).expect("a file"), b"mine");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().to_str().expect("a path in UTF-8");
    let over = ["convert", SOURCE, path, "--to", "mlx", "--overwrite"];
    for name in ["photo.png", "notes.txt", "diary.md", "LICENSE"] {
        let mine = folder.path().join(name);
        std::fs::write(&mine, "mine").expect("a file");
        // Without --overwrite, which would not help, too.
        let said = refused(&over[..5]);
        assert!(said.contains("already exists, and only a directory that is one model"), "{said}");
        let said = refused(&over);
        let named = said.contains(&format!("it also has \"{name}\"\n"));
        assert!(said.starts_with("2\n") && named, "{said}");
        assert!(mine.exists());
        std::fs::remove_file(&mine).expect("a file");
    }
    std::fs::create_dir(folder.path().join("photos")).expect("a folder");
    assert!(refused(&over).contains("it also has \"photos/\"\n"));
    std::fs::remove_dir(folder.path().join("photos")).expect("a folder");
    // What the program wrote, and what models come with, is replaced.
    for name in ["config.json", "vocab.txt", "model.safetensors"] {
        std::fs::write(folder.path().join(name), "old").expect("a file");
    }
    assert_eq!(support::run(&over).status, Some(0));
    assert!(!folder.path().join("vocab.txt").exists());
}

/// Sends SIGINT to a process.
#[cfg(target_os = "linux")]
fn interrupt(child: &Child) {
    let words = ["-INT", &child.id().to_string()];
    assert!(Command::new("kill").args(words).status().expect("kill").success());
}

/// Waits until a process handles SIGINT itself.
#[cfg(target_os = "linux")]
fn listens(child: &Child) {
    let path = format!("/proc/{}/status", child.id());
    let caught = || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        // Signal 2 is bit 1.
        line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok())
            .is_some_and(|set| set & 2 != 0)
    };
    let end = Instant::now() + Duration::from_secs(60);
    while !caught() {
        assert!(Instant::now() < end, "no handler");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The status of a process that ends soon.
#[cfg(target_os = "linux")]
fn status(child: &mut Child) -> Option<i32> {
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        if let Some(status) = child.try_wait().expect("a status") {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("it did not end");
}

/// Two files of zeros that are compared take many seconds, unless Ctrl-C ends that.
#[test]
#[cfg(target_os = "linux")]
fn a_search_for_duplicates_ends_with_ctrl_c() {
    if support::ignores_signals() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let bytes = 40u64 << 30;
    let header = format!(
        "{{\"m\":{{\"dtype\":\"F32\",\"shape\":[{}],\"data_offsets\":[0,{bytes}]}}}}",
        bytes / 4
    );
    for name in ["a.safetensors", "b.safetensors"] {
        let path = folder.path().join(name);
        std::fs::write(&path, support::safetensors(&header, &[])).expect("a file");
        let file = std::fs::File::options().write(true).open(&path).expect("the file");
        file.set_len(8 + header.len() as u64 + bytes).expect("a sparse file");
    }
    let root = folder.path().to_str().expect("a path in UTF-8");
    let words = ["models", root, "--duplicates=files"];
    let mut child = program(&words)
        .env("WEIGHBRIDGE_CACHE", folder.path().join("cache"))
        .env("HOME", folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    listens(&child);
    interrupt(&child);
    assert_eq!(status(&mut child), Some(130));
}

/// Writes `model.gguf`, which has 2 GiB of zeros.
#[cfg(target_os = "linux")]
fn large(folder: &std::path::Path) {
    let bytes = 2u64 << 30;
    let model = folder.join("model.gguf");
    crate::support::gguf(&model, |keys| {
        keys.set_text("general.architecture", "none");
    });
    // The vector of 2 becomes one of many zeros: its dimension is behind its name.
    let mut header = std::fs::read(&model).expect("the file");
    let length = 8u64;
    let named = b"x\x01\0\0\0\x02\0\0\0\0\0\0\0";
    let at = header.windows(named.len()).position(|it| it == named).expect("the tensor");
    header[at + 5..at + 13].copy_from_slice(&(bytes / 4).to_le_bytes());
    std::fs::write(&model, &header).expect("the file");
    let opened = std::fs::File::options().write(true).open(&model).expect("the file");
    opened.set_len(header.len() as u64 - length + bytes).expect("a sparse file");
}

/// `nohup` has a program ignore that its terminal is closed.
#[test]
#[cfg(target_os = "linux")]
fn an_ignored_signal_stays_ignored() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    large(folder.path());
    let own = program(&["hash", "model.gguf"]);
    let mut ignoring = support::quiet("sh");
    ignoring.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]);
    let mut child = ignoring
        .arg(own.get_program())
        .args(own.get_args())
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    std::thread::sleep(Duration::from_millis(500));
    let words = ["-HUP", &child.id().to_string()];
    assert!(Command::new("kill").args(words).status().expect("kill").success());
    std::thread::sleep(Duration::from_millis(300));
    let ended = child.try_wait().expect("a status");
    let _ = child.kill();
    let _ = child.wait();
    assert!(ended.is_none_or(|status| status.success()), "{ended:?}");
}

/// Ctrl-C while a file is written or read, or before that: nothing is left, and the program says so.
#[test]
#[cfg(target_os = "linux")]
fn an_interrupted_run_leaves_nothing() {
    if support::ignores_signals() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    large(folder.path());
    let at = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    for words in [
        &["dump", &at("model.gguf"), "x", "-o", &at("x.npy")][..],
        &["meta", "set", &at("model.gguf"), "general.name=a", "-o", &at("y.gguf")],
        &["meta", "set", &at("model.gguf"), "general.description=a longer text than fits"],
        &["split", &at("model.gguf"), &at("z"), "--max-tensors", "1"],
        &["hash", &at("model.gguf")],
    ] {
        let mut child = program(words)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        listens(&child);
        interrupt(&child);
        assert_eq!(status(&mut child), Some(130), "{words:?}");
        let mut said = String::new();
        let err = child.stderr.as_mut().expect("standard error");
        std::io::Read::read_to_string(err, &mut said).expect("UTF-8");
        // `dump` and `hash` may only read.
        let is_writing = ["meta", "split"].contains(&words[0]);
        let expected = if is_writing { "interrupted; nothing was written" } else { "interrupted" };
        assert!(said.contains(expected), "{words:?}: {said}");
        let left = std::fs::read_dir(folder.path()).expect("a folder");
        let left: Vec<_> = left.map(|entry| entry.expect("an entry").file_name()).collect();
        assert_eq!(left, ["model.gguf"], "{words:?}");
    }
}

/// A server that sends the start of a file, and then nothing more: the first Ctrl-C waits for it, the
/// second does not.
#[test]
#[cfg(all(target_os = "linux", feature = "http"))]
fn a_second_ctrl_c_ends_at_once() {
    if support::ignores_signals() {
        return;
    }
    let weights = vec![7; 1 << 20];
    let server = server::Server::start(move |request| {
        let answer = server::Answer::file(request, &weights).header("ETag", "\"one\"");
        // The plan asks for the start alone.
        let pace = (answer.body.len() > 1 << 17).then_some((1 << 16, Duration::from_secs(300)));
        server::Answer { pace, ..answer }
    });
    for pause in [500, 1000, 10_000].map(Duration::from_millis) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let to = folder.path().to_str().expect("a path in UTF-8");
        server.reset();
        let mut child = program(&["pull", &format!("{}/x.gguf", server.address), "-o", to])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        listens(&child);
        while server.sent() < 1 << 16 {
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(pause);
        interrupt(&child);
        // The handler runs in a thread of its own.
        std::thread::sleep(pause);
        // On a slow machine the program may have been at work still, and have ended itself.
        let waits = child.try_wait().expect("a status").is_none();
        if waits {
            interrupt(&child);
        }
        assert_eq!(status(&mut child), Some(130));
        if waits {
            return;
        }
    }
    panic!("the first signal ended each run");
}
