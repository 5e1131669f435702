//! Tests of the library's `store`.

mod beside;
mod cut_files;
mod folder;
mod formulas;
mod scheme_values;
mod schemes;
mod torchao;
