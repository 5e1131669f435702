//! Tests of the library's `adapter`.

mod forms;
mod merge;
