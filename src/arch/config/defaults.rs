//! Numbers that a family's files leave out.

/// What holds where a model's files do not say: defaults of the family's own code, or of llama.cpp's
/// loader.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Defaults {
    /// The last of so many layers attends to all positions, and those before it to a window
    /// (`set_swa_pattern` of llama.cpp).
    pub(crate) window_period: Option<u32>,
    /// Base of the rotary embeddings in layers with a window.
    pub(crate) local_rope_theta: Option<f32>,
    /// Layers that use the keys and values of layers before them.
    pub(crate) shared_kv_layers: u32,
    /// The embedding is multiplied by the root of its width.
    pub(crate) scaled_embedding: bool,
    /// The further ones hold for GGUF's name of the family alone.
    pub(crate) of_gguf: GgufDefaults,
}

/// Defaults that hold for GGUF's name of a family, and for `config.json` only where the names agree.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GgufDefaults {
    /// The activation of the feed-forward network, which no GGUF file states.
    pub(crate) activation: Option<&'static str>,
    /// The feed-forward network is four times as wide as the residual stream.
    pub(crate) ffn_four_times: bool,
    /// The epsilon of layer norms, and where it is from.
    pub(crate) layer_norm_eps: Option<(f32, &'static str)>,
    /// The model of that many layers divides its scores by the root of `dim / n_heads`, and not of
    /// `head_dim`.
    pub(crate) scaled_by_dim_layers: Option<u32>,
}

impl Defaults {
    /// Nothing is known.
    pub(crate) const NONE: Self = Self {
        window_period: None,
        local_rope_theta: None,
        shared_kv_layers: 0,
        scaled_embedding: false,
        of_gguf: GgufDefaults::NONE,
    };

    /// Of an activation alone.
    pub(crate) const fn activation(name: &'static str) -> Self {
        let of_gguf = GgufDefaults { activation: Some(name), ..GgufDefaults::NONE };
        Self { of_gguf, ..Self::NONE }
    }
}

impl GgufDefaults {
    /// Nothing is known.
    pub(crate) const NONE: Self = Self {
        activation: None,
        ffn_four_times: false,
        layer_norm_eps: None,
        scaled_by_dim_layers: None,
    };
}
