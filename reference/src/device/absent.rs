//! The GPU in a build without the feature `gpu`: types without values.

use std::sync::Arc;

use crate::error::Result;

#[derive(Clone, Debug)]
enum Never {}

#[derive(Debug)]
pub(crate) struct Engine(Never);

#[derive(Clone, Debug)]
pub(crate) struct Array(Never);

#[derive(Debug)]
pub(crate) struct Matrix(Never);

#[derive(Debug)]
pub(crate) struct Loading(Never);

impl Loading {
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        match self.0 {}
    }

    pub(crate) fn matrix(&self, _: &str) -> Result<Option<Matrix>> {
        match self.0 {}
    }
}

impl Engine {
    pub(crate) fn check(&self) -> Result<()> {
        match self.0 {}
    }

    pub(crate) fn array(&self, _: usize) -> Array {
        match self.0 {}
    }

    pub(crate) fn upload(&self, _: &[f32]) -> Array {
        match self.0 {}
    }

    pub(crate) fn run(&self, _: &Array, _: &str, _: usize, _: &[&Array], _: &[u32]) {
        match self.0 {}
    }
}

impl Array {
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        match self.0 {}
    }

    pub(crate) fn part(&self, _: usize, _: usize) -> Self {
        match self.0 {}
    }

    pub(crate) fn append(&mut self, _: &Self, _: usize) {
        match self.0 {}
    }

    pub(crate) fn download(&self) -> Vec<f32> {
        match self.0 {}
    }
}

impl Matrix {
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        match self.0 {}
    }

    pub(crate) fn multiply(&self, _: &Array, _: usize) -> Array {
        match self.0 {}
    }

    pub(crate) fn of_experts(&self, _: &Array, _: &Array, _: usize, _: usize) -> Array {
        match self.0 {}
    }

    pub(crate) fn always(&self, _: usize, _: usize) -> Array {
        match self.0 {}
    }

    pub(crate) fn rows(&self, _: &[u32]) -> Array {
        match self.0 {}
    }
}
