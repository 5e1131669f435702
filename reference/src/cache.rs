//! What a model remembers of the positions before.

/// What a layer remembers.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayerCache {
    /// Keys, position by position.
    pub(crate) keys: Vec<f32>,
    /// Values, position by position.
    pub(crate) values: Vec<f32>,
    /// Linear attention: the inputs that its convolution still sees.
    pub(crate) inputs: Vec<f32>,
    /// Linear attention: a matrix for each value head.
    pub(crate) state: Vec<f32>,
}
