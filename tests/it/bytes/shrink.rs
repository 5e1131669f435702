//! Files that become shorter after they were opened: an error, never a signal. Reads tell by
//! themselves; a map is made as late as can be, and the length is looked at once more before.
#![cfg(unix)]

use std::path::Path;

use crate::support::{Gguf, Safetensors, f32s, folder, told, without_path};
use tempfile::TempDir;
use weighbridge::bytes::{Access, Source};
use weighbridge::model::DecodeOptions;
use weighbridge::{DType, Error, ErrorKind, Model, OpenOptions, Part, Tensor};

const FILES: [&str; 2] = ["file.gguf", "file.safetensors"];

/// A GGUF and a safetensors file, each with one tensor of several pages.
fn files() -> TempDir {
    let values: Vec<f32> = (0u8..100).cycle().take(20_000).map(f32::from).collect();
    let shape = &[20_000];
    let gguf = Gguf::new().tensor("a", DType::F32, shape, f32s(&values)).build();
    let safetensors = Safetensors::new().tensor("a", "F32", shape, f32s(&values)).build();
    folder(&[(FILES[0], gguf), (FILES[1], safetensors)])
}

fn cut(path: &Path, len: u64) {
    let file = std::fs::File::options().write(true).open(path).expect("the file");
    file.set_len(len).expect("a shorter file");
}

fn each_piece(tensor: &Tensor) -> Result<(), Error> {
    tensor.for_each_piece(Part::Weight, |_| Ok(()))
}

/// Both ways of access, with both files.
fn each(check: impl Fn(OpenOptions, &Path)) {
    for options in [OpenOptions::new(), OpenOptions::new().read()] {
        for name in FILES {
            let folder = files();
            check(options.clone(), &folder.path().join(name));
        }
    }
}

fn only(store: &Model) -> Tensor {
    store.stored_tensor("a").expect("the only tensor")
}

#[test]
fn reads_at_positions_tell() {
    each(|options, path| {
        let store = options.open(path).expect("a whole file");
        // Though there be a map, pieces do not come through it.
        only(&store).bytes(Part::Weight).expect("a whole file");
        each_piece(&only(&store)).expect("a whole file");
        cut(path, 4096);
        let error = each_piece(&only(&store)).expect_err("a file cut short");
        let said = without_path(&told(&error), path);
        let (before, after) = said.split_once("than the ").expect("the message");
        let (_, after) = after.split_once(' ').expect("a number");
        insta::allow_duplicates! {
            insta::assert_snapshot!(format!("{before}than the N {after}"), @r#"
            Io: .: tensor "a": the file is now shorter than the N bytes that it had when it was opened
            help: another program is writing to the file: wait for it to finish, then open the file again
            "#);
        }
    });
}

#[test]
fn values_tell_too() {
    each(|options, path| {
        let store = options.open(path).expect("a whole file");
        cut(path, 4096);
        assert!(only(&store).bytes(Part::Weight).is_err());
        assert!(only(&store).dequantize().is_err());
        assert!(
            only(&store)
                .dequantize_rows(0..1, &mut vec![0.0f32; 20_000], &DecodeOptions::new())
                .is_err()
        );
    });
}

/// A caller that gets the file itself reads past its end without an error of this library.
#[test]
fn files_that_are_handed_out_tell() {
    each(|options, path| {
        let store = options.open(path).expect("a whole file");
        let (_, range) = only(&store).file(Part::Weight).expect("a whole file");
        assert_eq!(range.end - range.start, 80_000);
        cut(path, 4096);
        let error = only(&store).file(Part::Weight).expect_err("a file cut short");
        assert!(error.to_string().contains("is now shorter than"), "{error}");
    });
}

/// Between opening and the first read of the header.
#[test]
fn sources_tell() {
    for access in [Access::Map, Access::Read] {
        let folder = files();
        let path = folder.path().join(FILES[0]);
        let source = Source::open(&path, access).expect("a whole file");
        cut(&path, 100);
        let mut head = [0; 64];
        source.read_at(0, &mut head).expect("what is still there");
        assert!(source.read_at(64, &mut head).is_err());
        assert!(source.bytes(64..200).is_err());
        assert!(source.bytes(0..source.len() + 1).is_err());
    }
}

/// Ranges past the end never existed: no file became shorter, and no memory is requested for them.
#[test]
fn ranges_past_the_end() {
    let folder = files();
    let path = folder.path().join(FILES[0]);
    let open = |access| Source::open(&path, access).expect("a file");
    let sources = [open(Access::Map), open(Access::Read), Source::memory("m", vec![7; 100])];
    for source in sources {
        let len = source.len();
        for range in [0..len + 1, len..len + 1, len + 5..len + 6, 0..u64::MAX] {
            let error = source.bytes(range.clone()).expect_err("past the end");
            assert_eq!(error.kind(), ErrorKind::Malformed, "{range:?}: {error}");
        }
        let error = source.read_at(len - 1, &mut [0; 2]).expect_err("past the end");
        assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
        assert_eq!(source.bytes(len..len).expect("nothing").len(), 0);
    }
}

/// A file that grew back is read again, and one that grew is read as it was.
#[test]
fn longer_files_are_fine() {
    each(|options, path| {
        let store = options.open(path).expect("a whole file");
        let len = std::fs::metadata(path).expect("the file").len();
        cut(path, len + 10_000);
        let values = only(&store).dequantize().expect("a longer file");
        assert_eq!(values.len(), 20_000);
    });
}

/// Whether this process has a map of the file.
#[cfg(target_os = "linux")]
fn is_mapped(path: &Path) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the list of maps");
    maps.contains(&*path.to_string_lossy())
}

#[cfg(target_os = "linux")]
#[test]
fn maps_are_made_late_or_never() {
    for name in FILES {
        let folder = files();
        let path = folder.path().join(name);
        let mapped = OpenOptions::new().open(&path).expect("a whole file");
        each_piece(&only(&mapped)).expect("a whole file");
        assert!(!is_mapped(&path), "neither headers nor pieces need a map");
        only(&mapped).bytes(Part::Weight).expect("a whole file");
        assert!(is_mapped(&path));
        drop(mapped);
        assert!(!is_mapped(&path));
        let read = OpenOptions::new().read().open(&path).expect("a whole file");
        only(&read).bytes(Part::Weight).expect("a whole file");
        only(&read).dequantize().expect("a whole file");
        assert!(!is_mapped(&path));
    }
}
