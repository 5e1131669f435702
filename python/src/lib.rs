//! The native part of the Python package `weighbridge`: handles and functions that its Python modules
//! wrap. `docs/python.md` is the guide.

mod array;
mod fault;
mod machine;
mod model;
mod setting;
mod tensor;
mod values;
mod verbs;
mod watch;
mod writer;

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;

use fault::OrRaise;

/// Runs the program `weighbridge` with these arguments, the first of which is its name. Returns the
/// exit status.
#[pyfunction]
fn run_program(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| weighbridge_cli::run(arguments))
}

/// Makes the families of a file known to the process.
#[pyfunction]
fn add_families(path: PathBuf) -> PyResult<()> {
    weighbridge::arch::FamilyFile::open(path).or_raise()?.add();
    Ok(())
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<array::Array>()?;
    module.add_class::<model::Model>()?;
    module.add_class::<tensor::Tensor>()?;
    module.add_class::<writer::Builder>()?;
    module.add_function(wrap_pyfunction!(add_families, module)?)?;
    module.add_function(wrap_pyfunction!(run_program, module)?)?;
    module.add_function(wrap_pyfunction!(tensor::load, module)?)?;
    module.add_function(wrap_pyfunction!(writer::is_quantized, module)?)?;
    module.add_function(wrap_pyfunction!(setting::check_setting, module)?)?;
    module.add_function(wrap_pyfunction!(values::dtypes, module)?)?;
    module.add_function(wrap_pyfunction!(values::file_types, module)?)?;
    module.add_function(wrap_pyfunction!(values::quantize_array, module)?)?;
    module.add_function(wrap_pyfunction!(values::dequantize_array, module)?)?;
    module.add_function(wrap_pyfunction!(values::statistics, module)?)?;
    module.add_function(wrap_pyfunction!(machine::edit_metadata, module)?)?;
    module.add_function(wrap_pyfunction!(machine::merge_models, module)?)?;
    module.add_function(wrap_pyfunction!(machine::models, module)?)?;
    module.add_function(wrap_pyfunction!(machine::pull, module)?)?;
    module.add_function(wrap_pyfunction!(verbs::inspect, module)?)?;
    module.add_function(wrap_pyfunction!(verbs::config, module)?)?;
    module.add_function(wrap_pyfunction!(verbs::hash, module)?)?;
    module.add_function(wrap_pyfunction!(verbs::verify, module)?)?;
    module.add_function(wrap_pyfunction!(verbs::diff, module)?)?;
    module.add_function(wrap_pyfunction!(verbs::convert, module)?)?;
    module.add_function(wrap_pyfunction!(verbs::quantize, module)?)?;
    module.add_function(wrap_pyfunction!(verbs::split, module)?)?;
    module.add_function(wrap_pyfunction!(verbs::merge, module)?)?;
    module.add_function(wrap_pyfunction!(verbs::extract_lora, module)?)?;
    module.add_function(wrap_pyfunction!(verbs::create, module)?)?;
    Ok(())
}
