//! The decoder's tests, in one program: it is linked once.

#[path = "../support/mod.rs"]
mod support;

#[path = "../../../tests/support/left_out.rs"]
mod left_out;

mod classes;
mod encoders;
mod logits;
mod pieces;
mod sample;
