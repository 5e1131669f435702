//! Hostile files of nearly 16 MiB cost no more memory than their own size and 64 MiB, and come to
//! an end. A test process cannot measure itself while others run in it, so each case is opened by
//! a process of its own, which reports its peak.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "the sizes are the test's own")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::{Gguf, Kv, Safetensors, WhisperGgml, Writer, folder, put};
use tempfile::TempDir;
use weighbridge::OpenOptions;

/// Bytes of the hostile file, and bytes that opening it may cost beyond its own.
const INPUT: usize = (16 << 20) - (64 << 10);
const ALLOWED: u64 = 64 << 20;

/// Far more than any case needs: only to tell slow from endless.
const WATCHDOG: Duration = Duration::from_secs(20);

/// Set for the process that opens the file: its path.
const CHILD: &str = "WEIGHBRIDGE_TEST_OPENS";

/// A name of five characters for each number.
fn name(number: usize) -> String {
    let digit = |place: u32| char::from(b'0' + u8::try_from((number >> (6 * place)) & 63).unwrap());
    // Quotes and backslashes are not among these 64.
    (0..5).rev().map(digit).map(|c| if c == '\\' { '~' } else { c }).collect()
}

/// As many repetitions as there is room for.
fn fill(mut bytes: Vec<u8>, piece: impl Fn(usize) -> Vec<u8>) -> (Vec<u8>, u64) {
    let mut count = 0;
    while bytes.len() < INPUT {
        bytes.extend(piece(count));
        count += 1;
    }
    (bytes, count as u64)
}

/// A GGUF file of many tensors.
fn tensors(entry: impl Fn(usize) -> Writer) -> Vec<u8> {
    let (table, count) = fill(Vec::new(), |number| entry(number).out);
    let mut file = Gguf::new();
    (file.tensor_count, file.after_table) = (Some(count), table);
    let mut file = file.build();
    file.resize(file.len() + 64, 0);
    file
}

fn entry(name: &str, shape: &[u64], code: u32, offset: u64) -> Writer {
    let writer = Writer::default().string(name.as_bytes());
    let writer = writer.u32(u32::try_from(shape.len()).unwrap());
    shape.iter().fold(writer, |writer, &dim| writer.u64(dim)).u32(code).u64(offset)
}

/// A GGUF file of one array.
fn array(code: u32, element: &[u8]) -> Vec<u8> {
    let (elements, count) = fill(Vec::new(), |_| element.to_vec());
    let value = Writer::default().u32(code).u64(count).raw(&elements).out;
    Gguf::new().key("k", Kv::Raw(9, value)).build()
}

/// Items between braces or brackets, with commas.
fn json(open: &str, close: &str, room: usize, item: impl Fn(usize) -> String) -> String {
    let mut text = open.to_owned();
    let mut count = 0;
    while text.len() < room {
        if count > 0 {
            text.push(',');
        }
        text.push_str(&item(count));
        count += 1;
    }
    text + close
}

fn header(item: impl Fn(usize) -> String) -> Vec<u8> {
    Safetensors::text(json("{", "}", INPUT, item), []).build()
}

/// Text that makes a metadata entry so long that 16 MiB of them are within the limit of keys.
const LONG: &str = "012345678901234567890123456789012345678901234567890123456789";

const NONE: &str = "{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";

/// A model that is a folder of one tensor and this text beside it.
fn beside(file: &str, text: String) -> TempDir {
    let folder =
        folder(&[("model.safetensors", Safetensors::new().tensor("a", "U8", &[0], []).build())]);
    put(folder.path(), file, text);
    folder
}

/// A document of as many values of this kind as are let through.
fn most(value: &str) -> TempDir {
    let text = |count: usize| format!("{{\"x\":[{}]}}", vec![value; count].join(","));
    let opens = |count: usize| {
        let folder = beside("config.json", text(count));
        OpenOptions::new().open(folder.path()).is_ok()
    };
    // Between a number that opens and one that does not.
    let (mut few, mut many) = (1usize, 1 << 22);
    while many - few > few / 64 + 1 {
        let count = few.midpoint(many);
        if opens(count) { few = count } else { many = count }
    }
    beside("config.json", text(few))
}

fn config(open: &str, close: &str, item: impl Fn(usize) -> String) -> TempDir {
    // A longer document is refused unread.
    beside("config.json", json(open, close, (4 << 20) - 64, item))
}

/// A folder with an archive of many entries, none of which is an array.
fn archive(room: usize) -> TempDir {
    let entry = [b"PK\x01\x02".to_vec(), vec![0; 42]].concat();
    let count = (room / entry.len()) as u64;
    let directory = entry.repeat(room / entry.len());
    let len = directory.len() as u64;
    // The counts need the 64-bit form: record, then where it stands, then the usual end.
    let record = Writer::default().raw(b"PK\x06\x06").u64(44).raw(&[45, 0, 45, 0]).u64(0);
    let record = record.u64(count).u64(count).u64(len).u64(0);
    let place = Writer::default().raw(b"PK\x06\x07").u32(0).u64(len).u32(1);
    let end = [b"PK\x05\x06".to_vec(), vec![0; 4], vec![0xff; 12], vec![0; 2]].concat();
    let zip = [directory, record.out, place.out, end].concat();
    let config = "{\"quantization\":{\"group_size\":32,\"bits\":4}}".as_bytes();
    folder(&[("config.json", config.to_vec()), ("weights.npz", zip)])
}

fn one(bytes: Vec<u8>) -> TempDir {
    folder(&[("model", bytes)])
}

type Case = (&'static str, fn() -> TempDir);

static CASES: &[Case] = &[
    ("gguf: tensors", || one(tensors(|n| entry(&name(n), &[], 0, 0)))),
    ("gguf: tensors without names of their own", || one(tensors(|_| entry("", &[], 0, 0)))),
    ("gguf: tensors of unknown types", || one(tensors(|n| entry(&name(n), &[], 999, 0)))),
    ("gguf: tensors of four dimensions", || one(tensors(|n| entry(&name(n), &[1; 4], 0, 0)))),
    ("gguf: tensors that share bytes", || {
        one(tensors(|n| entry(&name(n), &[8], 24, 32 * (n as u64 % 2))))
    }),
    ("gguf: keys", || {
        let keys = |n| Writer::default().key((name(n) + LONG).as_bytes(), &Kv::U8(0)).out;
        let (keys, count) = fill(Vec::new(), keys);
        one(Gguf::new()
            .with(|file| (file.key_count, file.after_keys) = (Some(count), keys))
            .build())
    }),
    ("gguf: array of empty arrays", || one(array(9, &[0; 12]))),
    ("gguf: array of arrays of arrays", || {
        let inner = Writer::default().u32(9).u64(1).u32(9).u64(1).u32(0).u64(0);
        one(array(9, &inner.out))
    }),
    ("gguf: array of empty strings", || one(array(8, &[0; 8]))),
    ("gguf: array of bytes", || {
        let value = Writer::default().u32(0).u64(INPUT as u64).raw(&vec![0; INPUT]).out;
        one(Gguf::new().key("k", Kv::Raw(9, value)).build())
    }),
    ("gguf: one string", || one(Gguf::new().key("k", Kv::String(vec![b'x'; INPUT])).build())),
    ("gguf: array of 2^40", || {
        let value = Writer::default().u32(0).u64(1 << 40).raw(&vec![0; INPUT]).out;
        one(Gguf::new().key("k", Kv::Raw(9, value)).build())
    }),
    ("gguf: 100,000 shards", || {
        let keys = Gguf::new().key("split.no", Kv::U16(0)).key("split.count", Kv::U32(100_000));
        folder(&[("m-00001-of-100000.gguf", keys.build())])
    }),
    ("safetensors: tensors", || one(header(|n| format!("\"{}\":{NONE}", name(n))))),
    ("safetensors: one name", || one(header(|_| format!("\"\":{NONE}")))),
    ("safetensors: escaped names", || {
        one(header(|n| format!("\"\\u{:04x}\\u{:04x}\":{NONE}", n % 50_000, n / 50_000 + 1)))
    }),
    ("safetensors: eight dimensions", || {
        let entry = NONE.replace("[0]", "[0,1,1,1,1,1,1,1]");
        one(header(|n| format!("\"{}\":{entry}", name(n))))
    }),
    ("safetensors: unknown fields", || {
        one(header(|n| format!("\"{}\":{{\"x\":[[[{{}}]]],{}", name(n), &NONE[1..])))
    }),
    ("safetensors: metadata", || {
        let metadata = json("{", "}", INPUT, |n| format!("\"{}\":\"{LONG}\"", name(n)));
        one(Safetensors::text(format!("{{\"__metadata__\":{metadata}}}"), []).build())
    }),
    ("safetensors: escaped metadata", || {
        let metadata = json("{", "}", INPUT, |n| format!("\"\\n{}\":\"\\t{LONG}\"", name(n)));
        one(Safetensors::text(format!("{{\"__metadata__\":{metadata}}}"), []).build())
    }),
    ("safetensors: metadata, one key twice", || {
        let metadata =
            json("{\"00000\":\"\",", "}", INPUT, |n| format!("\"{}\":\"{LONG}\"", name(n)));
        one(Safetensors::text(format!("{{\"__metadata__\":{metadata}}}"), []).build())
    }),
    ("index: entries", || {
        let map = json("{", "}", INPUT, |n| format!("\"{}\":\"model.safetensors\"", name(n)));
        beside("model.safetensors.index.json", format!("{{\"weight_map\":{map}}}"))
    }),
    ("index: files", || {
        let map = json("{", "}", INPUT, |n| format!("\"\":\"{}\"", name(n)));
        beside("model.safetensors.index.json", format!("{{\"weight_map\":{map}}}"))
    }),
    ("index: 5,000 files, in turn", || {
        let map = json("{", "}", INPUT, |n| format!("\"\":\"{}\"", name(n % 5000)));
        beside("model.safetensors.index.json", format!("{{\"weight_map\":{map}}}"))
    }),
    ("index: other fields", || {
        let list = json("[", "]", INPUT, |_| "[]".to_owned());
        beside("model.safetensors.index.json", format!("{{\"x\":{list},\"weight_map\":{{}}}}"))
    }),
    ("whisper: tensors", || {
        let tensor = |n| Writer::default().u32(0).u32(5).u32(24).raw(name(n).as_bytes()).raw(b"x");
        let file = WhisperGgml::silero().filled(9).build();
        one(fill(file, |n| tensor(n).out).0)
    }),
    ("whisper: tensors that are not enough", || {
        let tensor = |n| Writer::default().u32(0).u32(5).u32(24).raw(name(n).as_bytes()).raw(b"x");
        let file = WhisperGgml::whisper(i32::MAX.cast_unsigned(), 0, &[]).build();
        one(fill(file, |n| tensor(n).out).0)
    }),
    ("whisper: empty pieces", || {
        let (pieces, count) = fill(Vec::new(), |_| vec![0; 4]);
        let mut file = WhisperGgml::whisper(0, 0, &[]).header;
        file.truncate(80);
        one([file, u32::try_from(count).unwrap().to_le_bytes().to_vec(), pieces].concat())
    }),
    ("whisper: 2^31 pieces", || {
        let mut file = WhisperGgml::whisper(0, 0, &[]).header;
        file.truncate(80);
        let count = i32::MAX.to_le_bytes().to_vec();
        one(fill([file, count].concat(), |_| vec![0; 4]).0)
    }),
    ("whisper: filters of 16 MiB", || {
        let mut file = WhisperGgml::whisper(0, 0, &[]).header;
        file.truncate(52);
        file.extend(u32::try_from(INPUT / 8).unwrap().to_le_bytes());
        file.resize(file.len() + INPUT, 0);
        one(file)
    }),
    ("whisper: layers of an encoder", || {
        let (layers, count) = fill(Vec::new(), |_| vec![0; 12]);
        let mut file = WhisperGgml::silero().header;
        file.truncate(38);
        one([file, u32::try_from(count).unwrap().to_le_bytes().to_vec(), layers].concat())
    }),
    ("npz: entries", || archive(INPUT)),
    ("ollama: layers", || {
        let digest = "0".repeat(64);
        let layer = |_| format!("{{\"mediaType\":\"\",\"digest\":\"sha256:{digest}\"}}");
        let layers = json("[", "]", (4 << 20) - 64, layer);
        let manifest = format!("{{\"schemaVersion\":2,\"layers\":{layers}}}");
        folder(&[("manifests/registry.ollama.ai/library/m/latest", manifest)])
    }),
    ("ollama: one text in many layers", || {
        let digest = "0".repeat(64);
        let layer = |_| {
            format!(
                "{{\"mediaType\":\"application/vnd.ollama.image.license\",\
                  \"digest\":\"sha256:{digest}\",\"size\":1}}"
            )
        };
        // Enough to tell, and not so many that the machine would suffer.
        let layers = json("[", "", 64 << 10, layer);
        let tensor = layer(0).replace("license", "tensor").replace(&digest, &"1".repeat(64));
        let blob = Safetensors::new().tensor("a", "U8", &[0], []).build();
        let tensor = tensor.replace("\"size\":1", &format!("\"size\":{}", blob.len()));
        let manifest = format!("{{\"schemaVersion\":2,\"layers\":{layers},{tensor}]}}");
        folder(&[
            ("manifests/registry.ollama.ai/library/m/latest", manifest.into_bytes()),
            (&format!("blobs/sha256-{digest}"), vec![b'x'; 1 << 20]),
            (&format!("blobs/sha256-{}", "1".repeat(64)), blob),
        ])
    }),
    ("compressed: a description of 8 GiB", || {
        let header = "{\"w.weight_packed\":{\"dtype\":\"I32\",\"shape\":[1,1],\"data_offsets\":[0,4]},\
                       \"w.weight_scale\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[4,8]},\
                       \"w.weight_shape\":{\"dtype\":\"I64\",\"shape\":[1073741824],\
                       \"data_offsets\":[8,8589934600]}}";
        let folder = beside("config.json", "{\"quantization_config\":{}}".to_owned());
        put(folder.path(), "model.safetensors", Safetensors::text(header, []).build());
        let path = folder.path().join("model.safetensors");
        let file = std::fs::File::options().write(true).open(path).expect("the file");
        // Nearly all of it is a hole, which takes no space.
        file.set_len(8 + header.len() as u64 + 8_589_934_600).expect("a sparse file");
        folder
    }),
    ("config: keys", || config("{", "}", |n| format!("\"{}\":0", name(n)))),
    ("config: numbers", || config("{\"x\":[", "]}", |_| "0".to_owned())),
    ("config: lists", || config("{\"x\":[", "]}", |_| "[]".to_owned())),
    ("config: objects", || config("{\"x\":[", "]}", |_| "{\"\":0}".to_owned())),
    ("config: NaN", || config("{\"x\":[", "]}", |_| "NaN".to_owned())),
    ("config: as many numbers as open", || most("0")),
    ("config: as many lists as open", || most("[]")),
    ("config: as many objects as open", || most("{\"\":0}")),
    ("config: as many NaN as open", || most("NaN")),
];

/// The most memory that this process has had, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status of this process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kib = line.trim().strip_suffix(" kB").expect("a number of kB");
    kib.parse::<u64>().expect("a number") * 1024
}

/// The work of a case's own process; in the test process, nothing.
#[test]
fn open_in_a_process_of_its_own() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let before = peak();
    let opened = OpenOptions::new().open(&path);
    let after = peak();
    let outcome = match &opened {
        Ok(store) => {
            let config = store.resolution().and_then(|_names| store.config());
            format!(
                "{} tensors; {}",
                store.len(),
                config.map_or_else(|e| e.to_string(), |_| "config".into())
            )
        }
        Err(error) => error.to_string(),
    };
    let outcome: String = outcome.chars().take(160).collect();
    println!("\n{} {} {outcome}", after - before, peak() - before);
}

struct Cost {
    opened: u64,
    resolved: u64,
    time: Duration,
    outcome: String,
}

/// Opens a path in a process of its own.
fn cost(path: &Path) -> Result<Cost, String> {
    let start = Instant::now();
    let this = std::env::current_exe().expect("the path of this test");
    let child = Command::new(this)
        .args(["--exact", "open_in_a_process_of_its_own", "--nocapture"])
        .env(CHILD, path)
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.expect("a process");
    while child.try_wait().expect("the state of the process").is_none() {
        if start.elapsed() > WATCHDOG {
            child.kill().expect("an end to the process");
            child.wait().expect("an end to the process");
            return Err(format!("no end after {WATCHDOG:?}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().expect("what the process printed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let report = text.lines().find_map(|line| {
        let mut words = line.splitn(3, ' ');
        let (opened, resolved) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Cost { opened, resolved, time: start.elapsed(), outcome: words.next()?.to_owned() })
    });
    report.ok_or(format!("{}: {text}", output.status))
}

/// The model in a folder: the only file, the manifest of a store, or the folder.
fn model(folder: &Path) -> PathBuf {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    match paths.as_slice() {
        [only] if only.is_dir() => model(only),
        [only] => only.clone(),
        _ if folder.join("manifests").is_dir() => model(&folder.join("manifests")),
        _ => folder.to_path_buf(),
    }
}

/// Bytes on disk of all files in a folder; holes take none.
fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let sizes = entries.map(|entry| {
        let path = entry.expect("an entry").path();
        let blocks = || std::os::unix::fs::MetadataExt::blocks(&path.metadata().expect("a file"));
        if path.is_dir() { size(&path) } else { 512 * blocks() }
    });
    sizes.sum()
}

#[test]
fn hostile_files_are_cheap() {
    let mut faults = Vec::new();
    for (what, write) in CASES {
        let folder = write();
        let (path, input) = (model(folder.path()), size(folder.path()));
        let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
        match cost(&path) {
            Ok(Cost { opened, resolved, time, outcome }) => {
                println!(
                    "{what}: {:.1} MiB; opened {:.1} MiB, resolved {:.1} MiB, {time:.2?}: {outcome}",
                    mib(input),
                    mib(opened),
                    mib(resolved),
                );
                if opened > input + ALLOWED {
                    faults.push(format!(
                        "{what}: {:.0} MiB for {:.0} MiB",
                        mib(opened),
                        mib(input)
                    ));
                }
            }
            Err(fault) => faults.push(format!("{what}: {fault}")),
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
