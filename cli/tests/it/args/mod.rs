//! Tests of the program's `args`.

mod effects;
mod family;
mod help;
mod mistakes;
mod names;
mod overwrite;
mod rare;
