//! Tests of the program's `args`.

mod family;
mod guesses;
mod help;
mod names;
mod options;
mod others;
mod overwrite;
mod rare;
mod words;
