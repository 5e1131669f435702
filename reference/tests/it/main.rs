//! The decoder's tests, in one program: it is linked once.

#[path = "../support/mod.rs"]
mod support;

mod classes;
mod encoders;
mod logits;
mod pieces;
mod sample;
