//! Tests of the program's `print`.

mod pipes;
mod terminal;
