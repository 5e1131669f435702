//! The state that a model keeps of earlier positions.

use crate::rows::Rows;

/// Positions for which room is made at a time. Room for twice as many as there are, as a `Vec` makes
/// it, would cost half of the memory of a long text.
const CELLS: usize = 256;

/// The state that a layer keeps of earlier positions.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayerCache {
    /// Keys, position by position.
    pub(crate) keys: Rows,
    /// Values, position by position.
    pub(crate) values: Rows,
    /// The inputs that a convolution still sees.
    pub(crate) inputs: Vec<f32>,
    /// Linear attention: a matrix for each value head. State spaces and recurrences: their states.
    pub(crate) state: Vec<f32>,
    /// The input of a network that mixes it with that of the position before.
    pub(crate) network_input: Vec<f32>,
    /// Keys of an indexer.
    pub(crate) index: Vec<f32>,
}

impl LayerCache {
    /// Adds the keys and the values of positions.
    pub(crate) fn add(&mut self, keys: &Rows, values: &Rows) {
        self.keys.append(keys, CELLS);
        self.values.append(values, CELLS);
    }
}
