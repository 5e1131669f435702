//! Ranges and single indices along any axis of a tensor.
#![allow(clippy::cast_possible_truncation, reason = "the sizes are the test's own")]

use crate::support::{Safetensors, f32s, folder};
use insta::assert_snapshot;
use std::ops::Range;
use weighbridge::{DType, ErrorKind, Model, OpenOptions, Part, Tensor};

fn numbers(count: u64) -> Vec<f32> {
    (0..count).map(|n| n as f32 + 1.0).collect()
}

/// A tensor in the middle of a file, so that a wrong offset finds other values.
fn tensor(shape: &[u64]) -> Tensor {
    let count = shape.iter().product();
    let file = Safetensors::new()
        .tensor("before", "F32", &[5], f32s(&[-1.0; 5]))
        .tensor("t", "F32", shape, f32s(&numbers(count)))
        .tensor("then", "F32", &[5], f32s(&[-2.0; 5]));
    let model = OpenOptions::new().open_memory("m.safetensors", file.build()).expect("a model");
    model.stored_tensor("t").expect("a tensor")
}

/// The plain way: a shape, and the values in row-major order.
#[derive(Clone, Debug, PartialEq)]
struct Plain {
    shape: Vec<u64>,
    values: Vec<f32>,
}

impl Plain {
    fn of(tensor: &Tensor) -> Self {
        let values = tensor.dequantize().expect("values").to_vec();
        if tensor.elements() > 0 {
            // The packed bytes are the same numbers.
            assert_eq!(*tensor.bytes(Part::Weight).expect("bytes"), f32s(&values));
        }
        Self { shape: tensor.shape().to_vec(), values }
    }

    fn slice(&self, axis: usize, ranges: &[Range<u64>]) -> Self {
        let inner: u64 = self.shape[axis + 1..].iter().product();
        let all = self.shape[axis];
        let outer: u64 = self.shape[..axis].iter().product();
        let mut values = Vec::new();
        for array in 0..outer {
            for range in ranges {
                let at = |index: u64| ((array * all + index) * inner) as usize;
                values.extend_from_slice(&self.values[at(range.start)..at(range.end)]);
            }
        }
        let mut shape = self.shape.clone();
        shape[axis] = ranges.iter().map(|range| range.end - range.start).sum();
        Self { shape, values }
    }

    fn squeeze(mut self, axis: usize) -> Self {
        assert_eq!(self.shape.remove(axis), 1);
        self
    }
}

const SHAPES: &[&[u64]] = &[
    &[1],
    &[6],
    &[1, 5],
    &[4, 1],
    &[3, 4],
    &[2, 3, 4],
    &[2, 1, 3],
    &[3, 2, 1],
    &[2, 3, 2, 2],
    &[3, 0],
];

#[test]
fn ranges_along_every_axis() {
    for shape in SHAPES {
        let tensor = tensor(shape);
        let plain = Plain::of(&tensor);
        for axis in 0..shape.len() {
            let bounds = |start| (start..=shape[axis]).map(move |end| start..end);
            for range in (0..=shape[axis]).flat_map(bounds) {
                let part = tensor.clone().slice_axis(axis, [range.clone()]).expect("a part");
                assert_eq!(part.dtype().expect("a dtype, even without elements"), DType::F32);
                assert_eq!(
                    Plain::of(&part),
                    plain.slice(axis, std::slice::from_ref(&range)),
                    "{shape:?}"
                );
                // A part of the part, and what is left when one index is taken.
                for index in 0..range.end - range.start {
                    let one = index..index + 1;
                    let part = part.clone().slice_axis(axis, [one.clone()]).expect("an index");
                    let part = part.squeeze(axis).expect("an axis of length 1");
                    let expected =
                        plain.slice(axis, std::slice::from_ref(&range)).slice(axis, &[one]);
                    assert_eq!(Plain::of(&part), expected.squeeze(axis), "{shape:?} {axis}");
                }
            }
        }
    }
}

/// Single indices along one axis after another, in every order of two axes.
#[test]
fn indices_drop_axes() {
    let shape = [2, 3, 4];
    let tensor = tensor(&shape);
    let plain = Plain::of(&tensor);
    for (first, second) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)] {
        for (i, j) in (0..2).flat_map(|i| (0..2).map(move |j| (i, j))) {
            let mut part = tensor.clone();
            let mut expected = plain.clone();
            for (axis, index) in [(first, i), (second, j)] {
                let one = index..index + 1;
                part = part.slice_axis(axis, [one.clone()]).expect("an index");
                part = part.squeeze(axis).expect("an axis of length 1");
                expected = expected.slice(axis, &[one]).squeeze(axis);
            }
            assert_eq!(Plain::of(&part), expected, "{first} {second}");
            // What is left is a vector, of which elements can be selected and put in any order.
            let ranges = [1..2, 0..1];
            let turned = part.slice_axis(0, ranges.clone()).expect("two elements");
            assert_eq!(Plain::of(&turned), expected.slice(0, &ranges));
        }
    }
}

/// Rows of a matrix are vectors that can be joined like others.
#[test]
fn rows_are_vectors() {
    let matrix = tensor(&[3, 4]);
    let row = |number| {
        let row = matrix.clone().slice_axis(0, std::iter::once(number..number + 1)).expect("a row");
        row.squeeze(0).expect("a vector")
    };
    let joined = Tensor::fuse(vec![row(2), row(1)]).expect("a vector");
    assert_eq!(Plain::of(&joined).values, [9.0, 10.0, 11.0, 12.0, 5.0, 6.0, 7.0, 8.0]);
    let part = joined.slice_rows(3..6).expect("elements of both");
    assert_eq!(Plain::of(&part), Plain { shape: vec![3], values: vec![12.0, 5.0, 6.0] });
}

/// Parts of a matrix that is stored by columns.
#[test]
fn rows_of_a_turned_matrix() {
    let file = Safetensors::new()
        .tensor("h.0.mlp.c_fc.weight", "F32", &[8, 6], f32s(&numbers(48)))
        .tensor("h.0.mlp.c_fc.bias", "F32", &[6], f32s(&numbers(6)));
    let config =
        r#"{"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 10}"#;
    let files = [("config.json", config.into()), ("model.safetensors", file.build())];
    let folder = folder(&files);
    let model = Model::open(folder.path()).expect("a model");
    let matrix = model.tensor("layers.0.ffn.up.weight").expect("a matrix");
    let values = matrix.dequantize().expect("values").to_vec();
    let plain = Plain { shape: matrix.shape().to_vec(), values };
    assert_eq!(plain.shape, [6, 8]);
    for (row, start, end) in [(0, 0, 8), (4, 2, 5), (5, 7, 8), (1, 3, 3)] {
        let one = row..row + 1;
        let part = matrix.clone().slice_axis(0, [one.clone()]).expect("a row");
        let part = part.squeeze(0).expect("a vector");
        let part = part.slice_axis(0, std::iter::once(start..end)).expect("a part");
        let expected =
            plain.slice(0, &[one]).squeeze(0).slice(0, std::slice::from_ref(&(start..end)));
        assert_eq!(part.shape(), expected.shape);
        assert_eq!(part.dequantize().expect("values")[..], expected.values);
    }
}

#[test]
fn blocks_are_not_divided() {
    let block = |scale: u8, code: u8| [&[0x00, scale][..], &[code; 32]].concat();
    let bytes = [block(0x3c, 1), block(0x40, 2), block(0x3c, 3), block(0x40, 4)].concat();
    let matrix = Tensor::new("q", DType::Q8_0, &[2, 64], bytes).expect("a matrix");
    let row = |tensor: &Tensor| {
        let row = tensor.clone().slice_axis(0, std::iter::once(1..2)).expect("a row");
        row.squeeze(0).expect("a vector")
    };
    let second = row(&matrix);
    assert_eq!(second.shape(), [64]);
    assert_eq!(second.dequantize().expect("values")[31..33], [3.0, 8.0]);
    let half = second.clone().slice_axis(0, std::iter::once(32..64)).expect("a block");
    assert_eq!(half.dequantize().expect("values")[..], [8.0; 32]);
    let columns = matrix.clone().slice_axis(1, std::iter::once(32..64)).expect("columns");
    assert_eq!(row(&columns).dequantize().expect("values")[..], [8.0; 32]);
    let refused = [
        second.slice_axis(0, std::iter::once(31..33)),
        matrix.clone().slice_axis(1, std::iter::once(0..1)),
        matrix.clone().slice_axis(1, [32..64, 0..32]),
        matrix.clone().slice_axis(2, std::iter::once(0..1)),
        matrix.clone().slice_axis(0, [0..1, 1..3]),
        matrix.squeeze(0),
    ];
    let refused = refused.map(|result| {
        let error = result.expect_err("no such part");
        assert!(matches!(error.kind(), ErrorKind::Mismatch | ErrorKind::Unsupported), "{error}");
        error.to_string()
    });
    assert_snapshot!(refused.join("\n"), @r#"
    tensor "q": elements 31..33 of 64, which can be split only at multiples of 32
    tensor "q": columns 0..1 of 64, which can be split only at multiples of 32
    tensor "q": several ranges along axis 1 of shape [2, 64]
    tensor "q": axis 2 does not exist in shape [2, 64]
    tensor "q": rows 1..3 exceed the 2 rows
    tensor "q": axis 0 of shape [2, 64] does not have length 1
    "#);
}
