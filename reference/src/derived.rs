//! Derives the plan of a model from its config, before and after its family changes it.

use weighbridge::arch::{Gating, LayerKind, NormKind, RopeLayout, architectures};

use crate::error::{Error, Result};
use crate::facts::{Facts, size};
use crate::family;
use crate::math::Activation;
use crate::plan::{
    Arrangement, AttentionPlan, BranchScales, DecayingPlan, GateFunction, GatedLruPlan, LatentPlan,
    LayerPlan, LinearPlan, MatrixLstmPlan, MixerPlan, NetworkPlan, NormPlan, OutputGate, Plan,
    Residual, Routing, Scoring, StateSpacePlan,
};
use crate::rope::Rope;

impl Plan {
    /// The plan of a model.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the model's family has no plan here, or its config says what no operation
    /// computes; `Model` if the config cannot be read.
    pub fn of(model: &weighbridge::Model) -> Result<Self> {
        Self::derived(&Facts::of(model, None)?)
    }

    /// The plan of a model that no family describes, as if it belonged to the family with this name. Its
    /// tensors must have names [by structure](weighbridge::arch::Resolution::is_by_structure). Nothing
    /// says that the model computes what the family does.
    ///
    /// # Errors
    ///
    /// `Unsupported` if there is no such family, the model belongs to another one, or its tensors have
    /// no names; otherwise same as [`of`](Self::of).
    pub fn assuming(model: &weighbridge::Model, family: &str) -> Result<Self> {
        let mut rows = architectures().into_iter();
        let row = rows.find(|row| row.name == family);
        let row = row.ok_or_else(|| {
            let advice = "`list architectures` shows the families";
            Error::Unsupported(format!("no family \"{family}\": {advice}"))
        })?;
        Self::derived(&Facts::of(model, Some(row))?)
    }

    fn derived(facts: &Facts<'_>) -> Result<Self> {
        let mut plan = Self::usual(facts)?;
        family::adjust(facts, &mut plan)?;
        facts.check_asked()?;
        if !plan.encodes() && plan.attentions().any(|attention| !attention.causal) {
            let fault = "layers of which some see positions behind their own";
            return Err(Error::Unsupported(fault.to_owned()));
        }
        plan.check_shared_keys()?;
        Ok(plan)
    }

    /// Refuses layers that use keys and values of another form than their own.
    fn check_shared_keys(&self) -> Result<()> {
        let form = |layer: &LayerPlan| match &layer.mixer {
            MixerPlan::Attention(own) => Some((own.kv_heads, own.head_dim, own.value_dim)),
            _ => None,
        };
        for (place, layer) in self.layers.iter().enumerate() {
            let MixerPlan::Attention(AttentionPlan { keys_of: Some(of), .. }) = &layer.mixer else {
                continue;
            };
            let theirs = self.layers.get(*of).filter(|_| *of < place).and_then(form);
            if theirs.is_none() || theirs != form(layer) {
                let fault = format!("layer {place} uses the keys of layer {of}, which has others");
                return Err(Error::Unsupported(fault));
            }
        }
        Ok(())
    }

    /// The facts that follow from the config alone.
    fn usual(facts: &Facts<'_>) -> Result<Self> {
        let config = facts.config;
        let layers = facts.layers();
        let windowed = |layer: &u32| config.layer_kind(*layer) == Some(&LayerKind::Sliding);
        let mut ropes = Vec::new();
        if ["rope_theta", "rope_parameters.rope_theta"].iter().any(|key| facts.is_list(key)) {
            let fault = "bases of rotary embeddings that are listed by layer (rope_theta)";
            return Err(Error::Unsupported(fault.to_owned()));
        }
        if facts.rope_layout() != RopeLayout::None {
            ropes.push(Rope::of_full_layers(facts)?);
            if (0..layers).any(|layer| windowed(&layer)) {
                ropes.push(Rope::of_windows(facts)?);
            }
        }
        let plans = (0..layers).map(|layer| LayerPlan::usual(facts, layer)).collect::<Result<_>>();
        let scales = &config.scales;
        Ok(Self {
            dim: size(config.dim.value),
            embedding_dim: size(scales.embedding_dim.as_ref().unwrap_or(&config.dim).value),
            embedding_scale: scales.embedding_scale.as_ref().map_or(1.0, |scale| scale.value),
            first_position: 0,
            padding: None,
            normed_first: false,
            projected_first: false,
            masked: None,
            first_rows: Vec::new(),
            joined_embeddings: Vec::new(),
            longest: None,
            sinusoids: None,
            norm: NormPlan::new(
                config.norm_kind.as_ref().map_or(NormKind::Rms, |kind| kind.value),
                config.norm_eps.as_ref().map_or(1e-5, |eps| eps.value),
            ),
            other_norms: Vec::new(),
            norms_embedding: false,
            arrangement: Arrangement::Sequential,
            has_single_parts: false,
            residual: Residual::Scaled(
                scales.residual_scale.as_ref().map_or(1.0, |scale| scale.value),
            ),
            layers: plans?,
            runs: 1,
            ropes,
            logit_scale: 1.0,
            logit_softcap: config.attention.final_logit_softcap.as_ref().map(|cap| cap.value),
            per_layer_dim: scales.per_layer_dim.as_ref().map(|dim| size(dim.value)),
            active_stream: None,
            head_activation: None,
            scores_tokens: facts.is_causal_class(),
            encoder: None,
            text_encoder: None,
        })
    }
}

impl LayerPlan {
    fn usual(facts: &Facts<'_>, layer: u32) -> Result<Self> {
        let config = facts.config;
        let kind = config.layer_kind(layer).cloned().unwrap_or(LayerKind::Full);
        // A kind of its own, in which an indexer chooses what is attended to.
        let chooses = facts.model.has(&format!("layers.{layer}.attention.indexer.k.weight"));
        let kind = if chooses { LayerKind::Full } else { kind };
        let mixer = match recurrent(facts, layer, kind == LayerKind::Sliding)? {
            Some(mixer) => mixer,
            None => attending(facts, layer, kind)?,
        };
        let network = NetworkPlan {
            activation: facts.activation()?,
            routing: Routing::usual(facts, layer)?,
            sparsity: None,
            gate_scale: 1.0,
            output_scale: 1.0,
        };
        Ok(Self { is_empty: false, mixer, network, residuals: [(1.0, 1.0); 2] })
    }
}

/// The mixer of a layer with the tensors of a convolution, a state space, a decaying state or a recurrence; `None` if it
/// has none of them.
fn recurrent(facts: &Facts<'_>, layer: u32, slides: bool) -> Result<Option<MixerPlan>> {
    let has_states = facts.has_state_space(layer);
    let is_decaying = || facts.model.has(&format!("layers.{layer}.linear_attention.qkv.weight"));
    Ok(Some(if let Some(kernel) = facts.short_convolution(layer) {
        MixerPlan::ShortConvolution(kernel)
    } else if has_states && facts.has_attention(layer) {
        let attention = AttentionPlan::usual(facts, layer, slides)?;
        let scales =
            BranchScales { attention_input: 1.0, attention_output: 1.0, state_output: 1.0 };
        MixerPlan::Both(attention, StateSpacePlan::usual(facts, layer)?, scales)
    } else if has_states {
        MixerPlan::StateSpace(StateSpacePlan::usual(facts, layer)?)
    } else if is_decaying() {
        MixerPlan::Decaying(DecayingPlan::usual(facts, layer)?)
    } else if let Some(plan) = GatedLruPlan::usual(facts, layer)? {
        MixerPlan::GatedLru(plan)
    } else {
        return Ok(MatrixLstmPlan::usual(facts, layer)?.map(MixerPlan::MatrixLstm));
    }))
}

/// The mixer of any other layer.
fn attending(facts: &Facts<'_>, layer: u32, kind: LayerKind) -> Result<MixerPlan> {
    let config = facts.config;
    Ok(match kind {
        _ if facts.model.has(&format!("layers.{layer}.time_mix.k.weight")) => MixerPlan::TimeMix,
        _ if facts.has_linear_attention(layer) => {
            MixerPlan::Linear(LinearPlan::usual(facts, layer)?)
        }
        _ if !facts.has_attention(layer) => MixerPlan::None,
        LayerKind::Full | LayerKind::Sliding | LayerKind::Chunked => {
            let mut attention = AttentionPlan::usual(facts, layer, kind == LayerKind::Sliding)?;
            if kind == LayerKind::Chunked {
                let chunk = config.attention.chunk_size.as_ref();
                attention.window = chunk.map(|chunk| size(chunk.value));
                attention.chunked = true;
            }
            check_latent(facts, &attention)?;
            match &config.attention.kv_lora_rank {
                None => MixerPlan::Attention(attention),
                Some(rank) => MixerPlan::Latent(
                    attention,
                    LatentPlan {
                        q_rank: config.attention.q_lora_rank.as_ref().map(|r| size(r.value)),
                        kv_rank: size(rank.value),
                        rotated: facts.rotated(),
                        eps: config.norm_eps.as_ref().map_or(1e-6, |eps| eps.value),
                    },
                ),
            }
        }
        other => {
            let fault = format!("layer {layer} is of the kind {}", other.name());
            return Err(Error::Unsupported(fault));
        }
    })
}

/// transformers' classes of latent attention repeat keys that each head has of its own.
fn check_latent(facts: &Facts<'_>, attention: &AttentionPlan) -> Result<()> {
    let (config, heads, keys) = (facts.config, attention.heads, attention.kv_heads);
    let is_latent = config.attention.kv_lora_rank.is_some();
    let is_stated = config.n_kv_heads.source.ends_with("num_key_value_heads");
    // The number may be that of other layers.
    let is_mixed = || (0..facts.layers()).any(|layer| facts.has_linear_attention(layer));
    if !is_latent || !is_stated || heads == keys || is_mixed() {
        return Ok(());
    }
    let fault = format!(
        "latent attention with {keys} key heads for {heads} query heads (num_key_value_heads)"
    );
    Err(Error::Unsupported(fault))
}

impl AttentionPlan {
    fn usual(facts: &Facts<'_>, layer: u32, windowed: bool) -> Result<Self> {
        let config = facts.config;
        let attention = &config.attention;
        let of_layer = |each: &Option<weighbridge::arch::Field<Vec<u32>>>| {
            each.as_ref().and_then(|each| each.value.get(size(layer)).copied())
        };
        let heads = of_layer(&attention.n_heads_per_layer).unwrap_or(config.n_heads.value);
        let of_full = attention.n_global_kv_heads.as_ref().filter(|_| !windowed).map(|n| n.value);
        let kv_heads = of_layer(&attention.n_kv_heads_per_layer).or(of_full);
        let kv_heads = kv_heads.unwrap_or(config.n_kv_heads.value);
        let narrow = |field: &Option<weighbridge::arch::Field<u32>>| {
            field.as_ref().filter(|_| windowed).map(|width| width.value)
        };
        let head_dim = narrow(&attention.local_head_dim).unwrap_or(config.head_dim.value);
        let value_dim = narrow(&attention.local_value_head_dim)
            .or(narrow(&attention.local_head_dim))
            .or(attention.value_head_dim.as_ref().map(|width| width.value))
            .unwrap_or(head_dim);
        if kv_heads == 0 || heads == 0 || heads % kv_heads != 0 {
            let fault = format!("layer {layer} has {heads} query heads for {kv_heads} key heads");
            return Err(Error::Mismatch(fault));
        }
        let window = attention.sliding_window.as_ref().filter(|_| windowed);
        if windowed && window.is_none() {
            let fault = format!("layer {layer} has a window whose length is not stated");
            return Err(Error::Unsupported(fault));
        }
        let usual_scale = (head_dim as f32).sqrt().recip();
        Ok(Self {
            heads: size(heads),
            kv_heads: size(kv_heads),
            head_dim: size(head_dim),
            value_dim: size(value_dim),
            scale: attention.attention_scale.as_ref().map_or(usual_scale, |scale| scale.value),
            softcap: attention.attn_logit_softcap.as_ref().map(|cap| cap.value),
            window: window.map(|window| size(window.value)),
            chunked: false,
            causal: attention.causal.as_ref().is_none_or(|causal| causal.value),
            rope: facts.rotates(layer, windowed).then_some(usize::from(windowed)),
            alibi: None,
            distances: None,
            disentangled: None,
            clip: None,
            normed_clip: None,
            normed_last: false,
            bare_norms: false,
            norms_of_heads: false,
            value_norm: false,
            temperature: None,
            gate: GateFunction::Sigmoid,
            value_scale: 1.0,
            keys_of: facts.keys_of(layer),
            differential: None,
            blocks: None,
            kept_keys: None,
        })
    }
}

impl Routing {
    fn usual(facts: &Facts<'_>, layer: u32) -> Result<Self> {
        let experts = &facts.config.experts;
        let count = |field: &Option<weighbridge::arch::Field<u32>>| {
            field.as_ref().map(|field| size(field.value))
        };
        let scoring = match experts.expert_gating.as_ref().map(|gating| &gating.value) {
            None | Some(Gating::Softmax) => Scoring::Softmax,
            Some(Gating::SoftmaxOfChosen) => Scoring::SoftmaxOfChosen,
            Some(Gating::Sigmoid) => Scoring::Sigmoid,
            Some(other) => {
                return Err(Error::Unsupported(format!("experts chosen by {}", other.name())));
            }
        };
        let used = experts.n_experts_used.as_ref();
        let used = used.map(|used| facts.of_layer(used, layer)).transpose()?;
        Ok(Self {
            used: used.map_or(1, size),
            scoring,
            normalized: experts.expert_weights_norm.as_ref().is_none_or(|norm| norm.value),
            scale: experts.expert_weights_scale.as_ref().map_or(1.0, |scale| scale.value),
            groups: count(&experts.n_expert_groups).zip(count(&experts.n_expert_groups_used)),
            of_stream: false,
            weighs_inputs: false,
            softcap: None,
            shared_scale: 1.0,
        })
    }
}

impl StateSpacePlan {
    /// A state-space layer, by its tensors.
    fn usual(facts: &Facts<'_>, layer: u32) -> Result<Self> {
        let shape = |name: &str| -> Result<Vec<usize>> {
            Ok(facts.model.tensor(&format!("layers.{layer}.ssm.{name}"))?.dims()?)
        };
        let fault = || Error::Mismatch(format!("layers.{layer}.ssm has tensors that do not fit"));
        let first = |name: &str| shape(name)?.first().copied().ok_or_else(fault);
        let outputs = first("in.weight")?;
        let convolution = shape("conv.weight")?;
        let (channels, kernel) =
            convolution.first().copied().zip(convolution.last().copied()).ok_or_else(fault)?;
        let ssm = &facts.config.ssm;
        let stated = |field: &Option<weighbridge::arch::Field<u32>>| {
            field.as_ref().map(|field| size(field.value)).filter(|&number| number > 0)
        };
        let state = stated(&ssm.state_size).ok_or_else(fault)?;
        let plan = Self {
            inner: channels,
            state,
            groups: 1,
            heads: None,
            kernel,
            activation: facts.state_space_activation()?,
            step_bounds: step_bounds(facts),
            bare_norms: None,
            gated_last: false,
            input_scale: 1.0,
            part_scales: [1.0; 5],
        };
        if facts.model.has(&format!("layers.{layer}.ssm.x.weight")) {
            return Ok(Self { step_bounds: None, ..plan });
        }
        let heads = first("a_log")?;
        let inner = outputs.checked_sub(channels).and_then(|rest| rest.checked_sub(heads));
        let inner = inner.filter(|inner| (1..channels).contains(inner)).ok_or_else(fault)?;
        let groups = (channels - inner) / 2 / state;
        Ok(Self { inner, groups, heads: Some(heads), ..plan })
    }
}

/// The bounds of the time steps of Mamba 2 that a `config.json` states. JSON has no infinity: without
/// two numbers, there are none.
#[expect(clippy::cast_possible_truncation, reason = "models compute in f32")]
fn step_bounds(facts: &Facts<'_>) -> Option<(f32, f32)> {
    match facts.reals(&["time_step_limit"])?.as_slice() {
        [least, most] => Some((*least as f32, *most as f32)),
        _ => None,
    }
}

impl LinearPlan {
    /// Linear attention, by the config and, where that states nothing, by its tensors.
    fn usual(facts: &Facts<'_>, layer: u32) -> Result<Self> {
        let shape = |name: &str| -> Vec<usize> {
            let tensor = facts.model.tensor(&format!("layers.{layer}.{name}")).ok();
            let shape = tensor.iter().flat_map(|tensor| tensor.shape());
            shape.map(|&dim| usize::try_from(dim).unwrap_or(usize::MAX)).collect()
        };
        let elements =
            |name: &str| shape(name).into_iter().reduce(usize::saturating_mul).unwrap_or(0);
        let ssm = &facts.config.ssm;
        let or = |field: &Option<weighbridge::arch::Field<u32>>, found: usize, name: &str| {
            let number = field.as_ref().map_or(found, |field| size(field.value));
            let lacks = || Error::Unsupported(format!("linear attention without {name}"));
            Some(number).filter(|number| *number > 0).ok_or_else(lacks)
        };
        if facts.activation()? != Activation::Silu && facts.is_stated("hidden_act") {
            let fault = "linear attention with another activation than SiLU (hidden_act)";
            return Err(Error::Unsupported(fault.to_owned()));
        }
        let heads = elements("linear_attention.a_log");
        let value_heads = or(&ssm.time_step_rank, heads, "value heads")?;
        let values = value_heads.saturating_mul(elements("linear_attention.norm.weight"));
        let inner = or(&ssm.inner_size, values, "an inner width")?;
        let key_heads = or(&ssm.group_count, value_heads, "key heads")?;
        let q = ["linear_attention.q.weight", "attention.q.weight"].map(&shape).concat();
        let keys = q.first().copied().unwrap_or(0) / key_heads;
        let convolution = ["linear_attention.conv.weight", "linear_attention.q_conv.weight"];
        let kernel = convolution.map(shape).concat().last().copied().unwrap_or(0);
        let plan = Self {
            key_heads,
            value_heads,
            key_dim: or(&ssm.state_size, keys, "a width of keys")?,
            value_dim: inner / value_heads,
            kernel: or(&ssm.conv_kernel, kernel, "the width of its convolution")?,
            rate_scale: 1.0,
            decay_bound: None,
            eps: facts.config.norm_eps.as_ref().map_or(1e-6, |eps| eps.value),
            gate: OutputGate::Silu,
        };
        if plan.value_dim == 0 || !plan.value_heads.is_multiple_of(plan.key_heads) {
            let fault =
                format!("{} value heads for {} key heads", plan.value_heads, plan.key_heads);
            return Err(Error::Unsupported(fault));
        }
        Ok(plan)
    }
}

impl DecayingPlan {
    /// The last layer's rates are next to 0, and those of the first are not changed.
    #[expect(clippy::cast_precision_loss, reason = "numbers of layers")]
    fn usual(facts: &Facts<'_>, layer: u32) -> Result<Self> {
        let config = facts.config;
        let last = config.n_layers.value.saturating_sub(1) as f32;
        Ok(Self {
            heads: size(config.n_heads.value),
            head_dim: size(config.head_dim.value),
            slope: 1.0 - layer as f32 / (last + 1e-5) + 1e-5,
            activation: facts.activation()?,
            eps: 1e-6,
        })
    }
}

/// The shape of a tensor of a layer, if it has it.
fn shape(facts: &Facts<'_>, layer: u32, name: &str) -> Result<Option<Vec<usize>>> {
    let name = format!("layers.{layer}.{name}");
    if !facts.model.has(&name) {
        return Ok(None);
    }
    Ok(Some(facts.model.tensor(&name)?.dims()?))
}

impl GatedLruPlan {
    /// The recurrence of a layer, by its tensors.
    fn usual(facts: &Facts<'_>, layer: u32) -> Result<Option<Self>> {
        let convolution = shape(facts, layer, "recurrence.conv.weight")?;
        let gates = shape(facts, layer, "recurrence.input_gate.weight")?;
        let (Some(convolution), Some(gates)) = (convolution, gates) else { return Ok(None) };
        let lengths = [convolution.first(), convolution.last(), gates.first()];
        let [Some(&channels), Some(&kernel), Some(&blocks)] = lengths else { return Ok(None) };
        let activation = facts.activation()?;
        Ok(Some(Self { channels, blocks, kernel, activation }))
    }
}

impl MatrixLstmPlan {
    /// The matrices of a layer, by its tensors.
    fn usual(facts: &Facts<'_>, layer: u32) -> Result<Option<Self>> {
        let outputs = |name: &str| {
            let found = shape(facts, layer, &format!("matrix_lstm.{name}.weight"))?;
            Ok::<_, Error>(found.and_then(|shape| shape.first().copied()))
        };
        let lengths = (outputs("k")?, outputs("v")?, outputs("write")?);
        let (Some(keys), Some(values), Some(heads @ 1..)) = lengths else { return Ok(None) };
        let gate_cap = facts.real(&["gate_soft_cap"]).unwrap_or(15.0);
        Ok(Some(Self { heads, key_dim: keys / heads, value_dim: values / heads, gate_cap }))
    }
}
