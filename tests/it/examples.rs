//! The programs of `examples/`, run on the sample model.

use weighbridge::container::{CONTAINERS, GGUF, MLX, SAFETENSORS};
use weighbridge::{DType, Model};

use crate::support::sample;

#[path = "../../examples/convert.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a program of its own")]
mod convert;
#[path = "../../examples/device.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a program of its own")]
mod device;
#[path = "../../examples/fused.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a program of its own")]
mod fused;
#[path = "../../examples/open.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a program of its own")]
mod open;
#[path = "../../examples/own_arrays.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a program of its own")]
mod own_arrays;
#[path = "../../examples/values.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a program of its own")]
mod values;

/// The forms of the sample that are in the repository.
const FORMS: [&str; 3] = ["sample-Q8_0.gguf", "hf", "mlx-4bit"];

#[test]
fn open_prints_the_same_names_for_every_container() {
    let names = |form: &str| -> Vec<String> {
        let lines = open::describe(&sample(form)).expect("the sample opens");
        assert!(lines[0].starts_with("llama, from "), "{}", lines[0]);
        let mut names: Vec<String> =
            lines[2..].iter().map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect();
        names.sort();
        names
    };
    assert!(names(FORMS[0]).len() > 10);
    FORMS.iter().for_each(|form| assert_eq!(names(form), names(FORMS[0]), "{form}"));
}

#[test]
fn values_are_nearly_the_same_in_every_container() {
    let of = |form: &str| values::statistics(&sample(form)).expect("values");
    let exact = of("hf");
    for form in FORMS {
        for tensor in of(form) {
            let exact = exact.iter().find(|exact| exact.name == tensor.name).expect("its name");
            assert!((tensor.mean - exact.mean).abs() < 0.01, "{form} {}", tensor.name);
            assert!(tensor.largest / exact.largest > 0.8, "{form} {}", tensor.name);
        }
    }
}

#[test]
fn fused_tensors_have_their_members() {
    for form in FORMS {
        let lines = fused::load(&sample(form)).expect("it loads");
        let qkv = lines.iter().filter(|line| line.contains("attention.q.weight (rows 0.."));
        let layers = qkv.filter(|line| line.contains("attention.v.weight")).count();
        let model = Model::open(sample(form)).unwrap();
        assert_eq!(layers as u32, model.config().unwrap().n_layers.value, "{form}");
    }
}

#[test]
fn somebody_elses_device_holds_every_form() {
    for form in FORMS {
        let lines = device::load(&sample(form)).expect("it loads");
        let fused: Vec<_> = lines.iter().filter(|line| line.contains("(3 in it)")).collect();
        assert_eq!(fused.len(), 2, "{lines:?}");
        assert!(lines.iter().all(|line| !line.contains("BF16")), "{lines:?}");
        let starts = lines.iter().flat_map(|line| line.split(" at ").skip(1)).filter_map(|at| {
            at.split_once("..").map(|(start, _)| start.parse::<u64>().expect("a number"))
        });
        let starts: Vec<u64> = starts.collect();
        assert!(starts.len() > 10 && starts.iter().all(|start| start.is_multiple_of(256)));
        if form == "mlx-4bit" {
            assert!(fused[0].contains("scale F16 at ") && fused[0].contains("bias F16 at "));
        }
        assert_eq!(lines.last().unwrap(), "0 bytes used at the end");
    }
}

#[test]
fn convert_to_every_directory_and_file() {
    let folder = tempfile::tempdir().expect("a folder");
    for container in [&GGUF, &SAFETENSORS, &MLX] {
        assert!(CONTAINERS.contains(&container));
        let dst = folder.path().join(container.name);
        let lines = convert::convert(&sample("hf"), &dst, container).expect("it converts");
        assert!(lines.last().unwrap().starts_with("wrote "), "{lines:?}");
        assert!(Model::open(&dst).unwrap().has("layers.0.attention.q.weight"));
    }
}

#[test]
fn own_arrays_are_written_and_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("own.gguf");
    let bytes = own_arrays::write(&path).expect("it writes");
    assert_eq!(bytes, path.metadata().unwrap().len());
    let model = Model::open(&path).unwrap();
    assert_eq!(model.stored_tensor("token_embd.weight").unwrap().dtype().unwrap(), DType::Q4_K);
}
