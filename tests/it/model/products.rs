//! Products of rows with inputs, straight from the packed rows.

use weighbridge::model::DecodeOptions;
use weighbridge::quant::{Inputs, StridedRows, multiply_rows};
use weighbridge::{ErrorKind, Model};

/// Every matrix of every form of the sample, whose rows are stored, reordered, joined or decoded first.
#[test]
fn rows_are_multiplied_as_their_values_are() {
    let forms = ["hf", "sample-Q8_0.gguf", "mlx-4bit"];
    let mut matrices = 0;
    for form in forms {
        let model = Model::open(format!("assets/sample/{form}")).expect("the sample");
        for name in model.names().expect("names").map(str::to_owned).collect::<Vec<_>>() {
            let tensor = model.tensor(&name).expect("a tensor");
            let &[rows, columns] = tensor.shape() else { continue };
            matrices += 1;
            let input: Vec<f32> =
                (0..columns).map(|n| ((n * 7919) % 1009) as f32 / 504.0 - 1.0).collect();
            let range = rows / 3..rows;
            let count = usize::try_from(range.end - range.start).expect("rows");
            let mut values = vec![0.0; count * input.len()];
            let decoding = DecodeOptions::new();
            tensor.dequantize_rows(range.clone(), &mut values, &decoding).expect("values");
            let mut expected = vec![0.0; count];
            multiply_rows(StridedRows::dense(&values, input.len()), &input, &mut expected);
            let mut reader = tensor.row_reader().expect("a reader");
            let mut found = vec![f32::NAN; count];
            reader.multiply_rows(range, &Inputs::new(&input), &mut found).expect("products");
            for ((found, expected), row) in
                found.iter().zip(expected).zip(values.chunks(input.len()))
            {
                let size: f32 = row.iter().zip(&input).map(|(a, b)| (a * b).abs()).sum();
                assert!(
                    (found - expected).abs() <= 1e-5 * size,
                    "{form}: {name}: {found}, {expected}"
                );
            }
        }
    }
    assert!(matrices > 40, "{matrices} matrices");
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    let model = Model::open("assets/sample/hf").expect("the sample");
    let tensor = model.tensor("token_embedding.weight").expect("a tensor");
    let mut reader = tensor.row_reader().expect("a reader");
    for (rows, inputs, outputs) in [(0..2, 255, 2), (0..2, 256, 1), (511..513, 256, 2)] {
        let mut out = vec![0.0; outputs];
        let inputs = vec![0.0; inputs];
        let error = reader.multiply_rows(rows, &Inputs::new(&inputs), &mut out);
        let error = error.expect_err("a misfit");
        assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
    }
}
