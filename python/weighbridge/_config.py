"""The config of a model."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ._errors import exception

__all__ = ["Config"]


class Config(Mapping[str, Any]):
    """The values that an engine needs, whatever the file calls them: `config.dim` or
    `config["dim"]`; `config["attention.heads"]` where several groups have a name.

    An attribute that this model has no value for is None. `list(config)` has the names of the values
    that it has, and `config.sources` says where each comes from.
    """

    # What every decoder has.
    architecture: str
    family: str | None
    dim: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    q_dim: int
    kv_dim: int
    ffn_dim: int | None
    ffn_dim_per_layer: list[int] | None
    vocab_size: int | None
    max_seq_len: int | None
    norm_kind: str | None
    norm_eps: float | None
    activation: str | None
    rope_theta: float
    tie_embeddings: bool | None
    n_experts: int
    layers: list[str] | None
    # Rope.
    rope_local_theta: float | None
    rope_partial_factor: float | None
    rope_local_partial_factor: float | None
    rope_dimension_count: int | None
    rope_local_dimension_count: int | None
    rope_sections: list[int] | None
    rope_skip_interval: int | None
    rope_layers: list[bool] | None
    rope_layout: str | None
    # Rope.
    rope_scaling_kind: str | None
    rope_scaling_factor: float | None
    rope_scaling_original_max_seq_len: int | None
    rope_scaling_attention_factor: float | None
    rope_scaling_beta_fast: float | None
    rope_scaling_beta_slow: float | None
    rope_scaling_alpha: float | None
    rope_scaling_ext_factor: float | None
    rope_scaling_log_multiplier: float | None
    rope_scaling_mscale: float | None
    rope_scaling_mscale_all_dim: float | None
    rope_scaling_truncate: bool | None
    rope_scaling_low_freq_factor: float | None
    rope_scaling_high_freq_factor: float | None
    rope_scaling_short_factors: list[float] | None
    rope_scaling_long_factors: list[float] | None
    # Attention.
    sliding_window: int | None
    chunk_size: int | None
    sliding_window_pattern: int | None
    n_heads_per_layer: list[int] | None
    n_kv_heads_per_layer: list[int] | None
    n_global_kv_heads: int | None
    local_head_dim: int | None
    value_head_dim: int | None
    local_value_head_dim: int | None
    n_kv_shared_layers: int | None
    attention_scale: float | None
    query_pre_attn_scalar: float | None
    attn_logit_softcap: float | None
    final_logit_softcap: float | None
    q_lora_rank: int | None
    kv_lora_rank: int | None
    qk_nope_head_dim: int | None
    relative_buckets: int | None
    relative_max_distance: int | None
    causal: bool | None
    pooling_type: int | None
    # Experts.
    n_experts_used: int | None
    n_expert_groups: int | None
    n_expert_groups_used: int | None
    n_shared_experts: int | None
    expert_ffn_dim: int | None
    shared_expert_ffn_dim: int | None
    expert_weights_scale: float | None
    expert_weights_norm: bool | None
    expert_gating: str | None
    n_leading_dense_layers: int | None
    expert_layer_step: int | None
    dense_layers: list[int] | None
    n_next_token_layers: int | None
    # Scales.
    embedding_dim: int | None
    embedding_scale: float | None
    residual_scale: float | None
    logit_scale: float | None
    per_layer_dim: int | None
    type_vocab_size: int | None
    # Ssm.
    ssm_conv_kernel: int | None
    ssm_inner_size: int | None
    ssm_state_size: int | None
    ssm_time_step_rank: int | None
    ssm_group_count: int | None
    ssm_value_head_dim: int | None
    # Encoder.
    enc_n_layers: int | None
    enc_n_heads: int | None
    enc_dim: int | None
    enc_ffn_dim: int | None
    n_audio_ctx: int | None
    n_mels: int | None

    def __init__(self, report: dict[str, Any]) -> None:
        self._values: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        """The key or file that each value comes from, or the rule that derived it."""
        for group, fields in report["config"].items():
            is_field = isinstance(fields, dict) and "value" in fields
            named = {group: fields} if is_field else {
                f"{group}.{name}": field for name, field in fields.items()
            }
            for name, field in named.items():
                self._values[name], self.sources[name] = field["value"], field["source"]

    def __getitem__(self, name: str) -> Any:
        if name in self._values:
            return self._values[name]
        found = [key for key in self._values if key.endswith("." + name)]
        if len(found) != 1:
            raise self._lacks(name, found)
        return self._values[found[0]]

    def _lacks(self, name: str, found: list[str]) -> KeyError:
        near = found or difflib.get_close_matches(name, self._values, 1)
        advice = f"write \"{near[0]}\"" if near else "list(config) has the names"
        fault = f"the config has no value {name!r}"
        error = exception("not_found", fault, key=name, advice=advice, in_model=True)
        assert isinstance(error, KeyError)
        return error

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # copy and pickle ask for attributes before there are any.
            if not name.startswith("_"):
                try:
                    return self[name]
                except KeyError as error:
                    if name in type(self).__annotations__:
                        return None
                    raise AttributeError(str(error)) from None
            raise AttributeError(name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name.rpartition(".")[2] for name in self._values)]

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        width = max(map(len, self._values), default=0)
        rows = (f"  {name:<{width}}  {value!r}" for name, value in self._values.items())
        return "\n".join(("Config", *rows))
