//! Derives the plan of a model from its config, before and after its family changes it.

use weighbridge::arch::{Gating, LayerKind, NormKind, RopeLayout, architectures};

use crate::error::{Error, Result};
use crate::facts::{Facts, size};
use crate::family;
use crate::plan::{
    Arrangement, AttentionPlan, GateFunction, LatentPlan, LayerPlan, LinearPlan, MixerPlan,
    NetworkPlan, NormPlan, Plan, Residual, Routing, Scoring, StateSpacePlan,
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

    /// What the config says by itself.
    fn usual(facts: &Facts<'_>) -> Result<Self> {
        let config = facts.config;
        let layers = facts.layers();
        let windowed = |layer: &u32| config.layer_kind(*layer) == Some(&LayerKind::Sliding);
        let mut ropes = Vec::new();
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
            joined_embeddings: Vec::new(),
            longest: None,
            sinusoids: None,
            norm: NormPlan {
                kind: config.norm_kind.as_ref().map_or(NormKind::Rms, |kind| kind.value),
                eps: config.norm_eps.as_ref().map_or(1e-5, |eps| eps.value),
                added: 0.0,
                bare: false,
            },
            norms_embedding: false,
            arrangement: Arrangement::Sequential,
            residual: Residual::Scaled(
                scales.residual_scale.as_ref().map_or(1.0, |scale| scale.value),
            ),
            layers: plans?,
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
        let mixer = match kind {
            _ if let Some(kernel) = facts.short_convolution(layer) => {
                MixerPlan::ShortConvolution(kernel)
            }
            _ if facts.has_state_space(layer) => {
                MixerPlan::StateSpace(StateSpacePlan::usual(facts, layer)?)
            }
            LayerKind::Linear => MixerPlan::Linear(LinearPlan::usual(facts)?),
            LayerKind::Full | LayerKind::Sliding | LayerKind::Chunked => {
                let mut attention = AttentionPlan::usual(facts, layer, kind == LayerKind::Sliding)?;
                if kind == LayerKind::Chunked {
                    let chunk = config.attention.chunk_size.as_ref();
                    attention.window = chunk.map(|chunk| size(chunk.value));
                    attention.chunked = true;
                }
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
        };
        let network = NetworkPlan {
            activation: facts.activation()?,
            routing: Routing::usual(facts)?,
            sparsity: None,
        };
        Ok(Self { mixer, network })
    }
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
            rope: facts.rotates(layer).then_some(usize::from(windowed)),
            alibi: None,
            distances: None,
            clip: None,
            normed_last: false,
            bare_norms: false,
            norms_of_heads: false,
            value_norm: false,
            temperature: None,
            gate: GateFunction::Sigmoid,
            value_scale: 1.0,
            keys_of: facts.keys_of(layer),
        })
    }
}

impl Routing {
    fn usual(facts: &Facts<'_>) -> Result<Self> {
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
        Ok(Self {
            used: count(&experts.n_experts_used).unwrap_or(1),
            scoring,
            normalized: experts.expert_weights_norm.as_ref().is_none_or(|norm| norm.value),
            scale: experts.expert_weights_scale.as_ref().map_or(1.0, |scale| scale.value),
            groups: count(&experts.n_expert_groups).zip(count(&experts.n_expert_groups_used)),
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
            let tensor = facts.model.tensor(&format!("layers.{layer}.ssm.{name}"))?;
            let shape =
                tensor.shape().iter().map(|&dim| usize::try_from(dim).unwrap_or(usize::MAX));
            Ok(shape.collect())
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
        if facts.model.has(&format!("layers.{layer}.ssm.x.weight")) {
            return Ok(Self { inner: channels, state, groups: 1, heads: None, kernel });
        }
        let heads = first("a_log")?;
        let inner = outputs.checked_sub(channels).and_then(|rest| rest.checked_sub(heads));
        let inner = inner.filter(|inner| (1..channels).contains(inner)).ok_or_else(fault)?;
        let groups = (channels - inner) / 2 / state;
        Ok(Self { inner, state, groups, heads: Some(heads), kernel })
    }
}

impl LinearPlan {
    fn usual(facts: &Facts<'_>) -> Result<Self> {
        let ssm = &facts.config.ssm;
        let need = |field: &Option<weighbridge::arch::Field<u32>>, name: &str| {
            let field = field.as_ref().map(|field| size(field.value));
            field.ok_or_else(|| Error::Unsupported(format!("linear attention without {name}")))
        };
        let value_heads = need(&ssm.time_step_rank, "value heads")?;
        let inner = need(&ssm.inner_size, "an inner width")?;
        let plan = Self {
            key_heads: need(&ssm.group_count, "key heads")?,
            value_heads,
            key_dim: need(&ssm.state_size, "a width of keys")?,
            value_dim: inner / value_heads.max(1),
            kernel: need(&ssm.conv_kernel, "the width of its convolution")?,
        };
        if plan.value_dim == 0 || !plan.value_heads.is_multiple_of(plan.key_heads.max(1)) {
            let fault =
                format!("{} value heads for {} key heads", plan.value_heads, plan.key_heads);
            return Err(Error::Unsupported(fault));
        }
        Ok(plan)
    }
}
