//! Verbs that read a whole tensor use less memory than the tensor's size.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::root;

/// 192 MiB of zeros, which take no space on most disks, read with 128 MiB of address space.
#[test]
fn tensors_larger_than_memory() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model.safetensors");
    let bytes = 192u64 << 20;
    let header = format!(
        "{{\"m\":{{\"dtype\":\"F32\",\"shape\":[12288,4096],\"data_offsets\":[0,{bytes}]}}}}"
    );
    let mut file = std::fs::File::create(&path).expect("a file");
    file.write_all(&(header.len() as u64).to_le_bytes()).expect("a length");
    file.write_all(header.as_bytes()).expect("a header");
    file.set_len(8 + header.len() as u64 + bytes).expect("a sparse file");
    let model = path.to_str().expect("a path in UTF-8");
    let list = folder.path().join("list");
    let list = list.to_str().expect("a path in UTF-8");
    // The same values as BF16, so that they are decoded instead of compared as bytes.
    let half = folder.path().join("half.safetensors");
    let header =
        header.replace("F32", "BF16").replace(&bytes.to_string(), &(bytes / 2).to_string());
    let mut file = std::fs::File::create(&half).expect("a file");
    file.write_all(&(header.len() as u64).to_le_bytes()).expect("a length");
    file.write_all(header.as_bytes()).expect("a header");
    file.set_len(8 + header.len() as u64 + bytes / 2).expect("a sparse file");
    let half = half.to_str().expect("a path in UTF-8");
    for (arguments, status) in [
        (&["verify", model, "--deep"][..], 1),
        (&["hash", model, "--values", "--save", list], 0),
        (&["dump", model, "m", "--as", "f16", "--rows", "0..12288"], 0),
        (&["dump", model, "m", "--as", "raw", "--rows", "1..12288"], 0),
        (&["diff", model, model, "--json"], 0),
        (&["diff", model, half, "--json"], 0),
        (&["inspect", model, "m"], 0),
        (&["inspect", model, "--stats", "--json"], 0),
        (&["view", model, half, "-o", "-"], 0),
    ] {
        let output = Command::new("sh")
            .args(["-c", "ulimit -v 131072 && exec \"$0\" \"$@\" --no-map >/dev/null"])
            .arg(env!("CARGO_BIN_EXE_weighbridge"))
            .args(arguments)
            // Each thread would reserve some address space.
            .env("MALLOC_ARENA_MAX", "1")
            .current_dir(root())
            .stdin(Stdio::null())
            .output()
            .expect("a shell");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*said), (Some(status), ""), "{arguments:?}");
    }
}
