"""Writes src/arch/family/class_defaults.rs, tests/data/mlx_lm_required.json and
tests/data/transformers_defaults.json from the installed transformers and mlx-lm.

    engine_defaults.py            write the files
    engine_defaults.py --check    exit with status 1 if a file differs from what would be written

transformers: the values that a config class takes for keys that config.json omits.
mlx-lm: the keys that config.json must state, because mlx-lm's class requires them or assumes another
value than transformers' class.
"""

import dataclasses
import importlib
import inspect
import json
import re
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

warnings.filterwarnings("ignore")

from mlx_lm.utils import MODEL_REMAPPING  # noqa: E402
from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "src/arch/family/class_defaults.rs"
REQUIRED = ROOT / "tests/data/mlx_lm_required.json"
OMITTED_KEYS = ROOT / "tests/data/transformers_defaults.json"

# Values of model_type, in the order of the families' files.
MODEL_TYPES = """
    llama mistral mixtral ministral ministral3 smollm3 internlm3 minicpm nanbeige xverse arcee internlm2 olmo granite
    granitemoe granitemoeshared granitemoehybrid deepseek qwen2 qwen2_vl_text qwen2_5_vl_text qwen2_moe qwen3 qwen3_vl_text
    qwen3_moe qwen3_next qwen3_5_text qwen3_5_moe_text gemma gemma2 gemma3_text gemma3n_text gemma4_text phi3
    gpt_oss deepseek_v2 deepseek_v3 deepseek_v32 kimi_k2 glm4 glm4_moe olmo2 olmo3 olmoe cohere cohere2
    starcoder2 falcon gpt2 bert roberta xlm-roberta camembert whisper minicpm3 modernbert phi
    stablelm nemotron seed_oss ernie4_5 ernie4_5_moe exaone4 hunyuan_v1_dense nomic_bert
    exaone llama4_text qwen3_vl_moe_text phimoe hunyuan_v1_moe lfm2 lfm2_moe apertus jamba mamba mamba2 t5 mt5
    umt5
""".split()

# Models without a class of their own in transformers, and the class that runs them.
SAME_CLASS = {"kimi_k2": "deepseek_v3"}

# Modules of mlx-lm that hold the class of a text model under another name.
MLX_MODULES = {
    "qwen3_5_text": ("qwen3_5", "TextModelArgs"),
    "qwen3_5_moe_text": ("qwen3_5", "TextModelArgs"),
    "gemma3n_text": ("gemma3n", "TextConfig"),
    "qwen2_vl_text": ("qwen2", "ModelArgs"),
    "qwen2_5_vl_text": ("qwen2", "ModelArgs"),
    "qwen3_vl_text": ("qwen3", "ModelArgs"),
    "qwen3_vl_moe_text": ("qwen3_moe", "ModelArgs"),
    "llama4_text": ("llama4", "TextArgs"),
}

# What the code of a class does without asking its config (modeling_*.py of transformers).
FIXED = {
    "deepseek_v3": {"scoring_func": "sigmoid", "topk_method": "noaux_tc"},
    "deepseek_v32": {"scoring_func": "sigmoid", "topk_method": "noaux_tc"},
    "kimi_k2": {"scoring_func": "sigmoid", "topk_method": "noaux_tc"},
    "qwen2_moe": {"mlp_only_layers": []},
    "qwen3_moe": {"mlp_only_layers": []},
    "qwen3_vl_moe_text": {"norm_topk_prob": True, "mlp_only_layers": []},
    "qwen3_next": {"mlp_only_layers": [], "partial_rotary_factor": 0.25},
    "qwen3_5_text": {"partial_rotary_factor": 0.25},
    "qwen3_5_moe_text": {"norm_topk_prob": True, "partial_rotary_factor": 0.25},
    "phi3": {"partial_rotary_factor": 1.0},
    "glm4": {"partial_rotary_factor": 0.5},
    "glm4_moe": {"partial_rotary_factor": 0.5, "scoring_func": "sigmoid", "topk_method": "noaux_tc"},
}

# A config.json without these is damaged, and the error should say so.
STATED = ["vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads"]
# The published config.json of Gemma 3 4B omits this one.
OMITTED = {"gemma3_text": ["num_attention_heads"]}

# Keys that no conversion depends on: training, generation, labels, and sizes under other names.
IGNORED = """
    initializer_range use_cache bos_token_id eos_token_id model_type transformers_version return_dict
    output_hidden_states output_attentions dtype chunk_size_feed_forward is_encoder_decoder id2label label2id
    problem_type architectures pretraining_tp output_router_logits router_aux_loss_coef router_jitter_noise
    summary_type summary_use_proj summary_proj_to_labels summary_first_dropout reorder_and_upcast_attn init_std
    suppress_tokens begin_suppress_tokens apply_spec_augment n_layer n_head n_embd d_model encoder_layers
    decoder_layers encoder_attention_heads decoder_attention_heads decoder_ffn_dim encoder_ffn_dim
    max_source_positions max_target_positions classifier_proj_size median_filter_width use_weighted_layer_sum
    deterministic_flash_attn sparse_prediction sparse_pred_ignore_index initializer_cutoff_factor cls_token_id
    sep_token_id scale_embedding decoder_start_token_id num_mel_bins tie_word_embeddings add_cross_attention
    num_mtp_layers dropout_rate initializer_factor
""".split()
IGNORED_ENDS = ("dropout", "pdrop", "drop")

# Keys of the list below that mlx-lm reads elsewhere if config.json has the newer form.
READ_ELSEWHERE = {"gemma4_text": ["global_head_dim", "partial_rotary_factor", "sliding_window_pattern"]}

# Keys that mlx-lm has and transformers' class lacks, whose default in mlx-lm is right for one size only.
ASSUMED = """
    rope_theta head_dim sliding_window_pattern full_attention_interval global_head_dim partial_rotary_factor
    rope_local_base_freq final_logit_softcapping tie_word_embeddings
""".split()


def of_transformers(model_type):
    """The class's own values, or None if there is no class."""
    name = SAME_CLASS.get(model_type, model_type)
    if name not in CONFIG_MAPPING:
        return None
    cls = CONFIG_MAPPING[name]
    values = {}
    for field in dataclasses.fields(cls):
        value = field.default
        if value is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        values[field.name] = value
    rotates = "rope_parameters" in values
    theta = getattr(cls, "default_theta", None)
    if isinstance(theta, dict):
        values["rope_theta"] = float(theta["global"])
        values["rope_local_base_freq"] = float(theta["local"])
    elif isinstance(theta, (int, float)) and rotates:
        values["rope_theta"] = float(theta)
    values.update(FIXED.get(model_type, {}))
    return {key: None if value is dataclasses.MISSING else value for key, value in values.items()}


def of_mlx_lm(model_type):
    """The keys of mlx-lm's class and their defaults, or None if there is no class."""
    usual = (MODEL_REMAPPING.get(model_type, model_type), "ModelArgs")
    module, name = MLX_MODULES.get(model_type, usual)
    try:
        cls = getattr(importlib.import_module(f"mlx_lm.models.{module}"), name)
    except (Exception, SystemExit):  # a module may require a package that is not installed
        return None
    parameters = inspect.signature(cls).parameters.values()
    return {p.name: p.default for p in parameters if p.name not in ("model_type", "rope_traditional")}


def mlx_source(model_type):
    """The source of mlx-lm's module for a model_type; empty if it has none."""
    module, _ = MLX_MODULES.get(model_type, (MODEL_REMAPPING.get(model_type, model_type), ""))
    try:
        return inspect.getsource(importlib.import_module(f"mlx_lm.models.{module}"))
    except (Exception, SystemExit):
        return ""


def unties(model_type):
    """Whether mlx-lm's class has an output matrix of its own even if the model ties it to the embedding."""
    source = mlx_source(model_type)
    return "self.lm_head = " in source and not re.search(r"\bif\b.*tie_word_embeddings", source)


def ties(model_type):
    """Whether mlx-lm's class always computes logits with the embedding, and has no output matrix."""
    source = mlx_source(model_type)
    return "as_linear(" in source and not re.search(r"\bself\.\w+ = nn\.Linear\([^)]*vocab_size", source)


def without_biases(model_type):
    """The flags with which transformers' class has biases, where mlx-lm's class never has any."""
    values, mlx = of_transformers(model_type), of_mlx_lm(model_type)
    if not values or not mlx:
        return []
    source = mlx_source(model_type)
    if "bias=True" in source or "bias" in mlx or "qkv_bias" in mlx:
        return []
    return [flag for flag in ("attention_bias", "mlp_bias", "use_bias") if flag in values and flag not in mlx]


def classes():
    """The values of model_type that mlx-lm has a class for."""
    folder = Path(importlib.import_module("mlx_lm.models").__path__[0])
    modules = [path.stem for path in folder.glob("*.py") if re.search(r"^class Model\(", path.read_text(), re.M)]
    return sorted(set(modules) | {name for name, module in MODEL_REMAPPING.items() if module in modules})


def computes_width(model_type):
    """Whether transformers' class computes the width of a head from the others if config.json omits it."""
    name = SAME_CLASS.get(model_type, model_type)
    if name not in CONFIG_MAPPING:
        return False
    try:
        return getattr(CONFIG_MAPPING[name](hidden_size=96, num_attention_heads=4), "head_dim", None) == 24
    except Exception:
        return False


def constant(value):
    """A `Constant` of src/arch/variant.rs, or None for a value that it cannot hold."""
    if isinstance(value, bool):
        return f"Flag({str(value).lower()})"
    if isinstance(value, int):
        if value < 0:
            return None
        return f"Count({value:_})" if value >= 10_000 else f"Count({value})"
    if isinstance(value, float):
        whole, dot, rest = repr(value).partition(".")
        return f"Real({int(whole):_}{dot}{rest})" if dot and value >= 10_000 else f"Real({value!r})"
    if isinstance(value, str):
        return f'Word("{value}")'
    return "Empty" if isinstance(value, (list, tuple)) and not value else None


def row(model_type):
    values, mlx = of_transformers(model_type), of_mlx_lm(model_type)
    known = {key: value for key, value in (values or {}).items() if value is not None}
    stated = [key for key in STATED if key not in OMITTED.get(model_type, [])]
    kept = {
        key: constant(value)
        for key, value in (values or {}).items()
        if key not in stated and key not in IGNORED and not key.startswith("_")
        and not key.endswith(IGNORED_ENDS) and "mask_" not in key
    }
    omitted = ", ".join(f'("{key}", {value})' for key, value in sorted(kept.items()) if value)
    derived = ", ".join(f'"{key}"' for key, value in sorted(kept.items()) if not value)

    def must_be_stated(key, default):
        if key in STATED or key in READ_ELSEWHERE.get(model_type, []):
            return False
        required = default is inspect.Parameter.empty
        differs = key in known and known[key] != default
        return required or differs or (values is not None and key not in known and key in ASSUMED)

    needed = [key for key, default in (mlx or {}).items() if must_be_stated(key, default)]
    needed = ", ".join(f'"{key}"' for key in sorted(needed))
    return (
        f'    ClassDefaults {{ model_type: "{model_type}",\n'
        f"        transformers: &[{omitted}],\n"
        f"        derived: &[{derived}],\n"
        f"        mlx_lm: &[{needed}],\n"
        f"        mlx_lm_reads_rope: {str('rope_parameters' in (mlx or {})).lower()} }},\n"
    )


def text():
    rows = "".join(row(model_type) for model_type in MODEL_TYPES)
    computed = "".join(f'    "{model_type}",\n' for model_type in MODEL_TYPES if computes_width(model_type))
    untied = "".join(f'    "{model_type}",\n' for model_type in MODEL_TYPES if unties(model_type))
    tied = "".join(f'    "{model_type}",\n' for model_type in MODEL_TYPES if ties(model_type))
    usual = [name for name in MODEL_TYPES if (of_transformers(name) or {}).get("tie_word_embeddings") is True]
    usual = "".join(f'    "{model_type}",\n' for model_type in usual)
    unbiased = "".join(
        f'    ("{model_type}", "{flag}"),\n' for model_type in MODEL_TYPES for flag in without_biases(model_type)
    )
    names = "".join(f'    "{name}",\n' for name in classes())
    return f"""//! What the classes of transformers {version("transformers")} take for keys that `config.json` omits, and the keys that
//! mlx-lm {version("mlx-lm")} requires. Written by `xtask/oracles/engine_defaults.py`; do not edit.

use crate::arch::variant::Constant::{{self, Count, Empty, Flag, Real, Word}};

/// The defaults of the classes of one `model_type`.
#[derive(Debug)]
pub(crate) struct ClassDefaults {{
    pub(crate) model_type: &'static str,
    /// Keys of `config.json`, and the value that transformers' class takes if they are omitted.
    pub(crate) transformers: &'static [(&'static str, Constant)],
    /// Further keys that transformers' class reads: those that it takes as unset or derives from others
    /// if they are omitted.
    pub(crate) derived: &'static [&'static str],
    /// Keys that `config.json` must state for mlx-lm: it requires them, or assumes another value
    /// than transformers.
    pub(crate) mlx_lm: &'static [&'static str],
    /// Whether mlx-lm's class reads the newer `rope_parameters`.
    pub(crate) mlx_lm_reads_rope: bool,
}}

#[rustfmt::skip]
pub(super) static CLASS_DEFAULTS: &[ClassDefaults] = &[
{rows}];

/// Values of `model_type` whose class in mlx-lm has an output matrix of its own, even if the model ties
/// it to the embedding.
#[rustfmt::skip]
pub(super) static MLX_LM_UNTIED: &[&str] = &[
{untied}];

/// Values of `model_type` whose class in mlx-lm always computes logits with the embedding, and has no output
/// matrix.
#[rustfmt::skip]
pub(super) static MLX_LM_TIED: &[&str] = &[
{tied}];

/// Values of `model_type` whose class in transformers ties the output matrix to the embedding unless
/// `config.json` says otherwise.
#[rustfmt::skip]
pub(super) static TIED_BY_DEFAULT: &[&str] = &[
{usual}];

/// Values of `model_type` whose class in mlx-lm never builds biases, and the flag with which transformers'
/// class does.
#[rustfmt::skip]
pub(super) static MLX_LM_UNBIASED: &[(&str, &str)] = &[
{unbiased}];

/// Values of `model_type` that mlx-lm has a class for.
#[rustfmt::skip]
pub(super) static MLX_LM_CLASSES: &[&str] = &[
{names}];

/// Values of `model_type` whose class in transformers computes the width of a head from the others if
/// `config.json` omits it.
#[rustfmt::skip]
pub(super) static COMPUTED_WIDTHS: &[&str] = &[
{computed}];
"""


def required():
    """The keys without a default in mlx-lm's classes, by model_type."""
    keys = {}
    for model_type in MODEL_TYPES:
        arguments = of_mlx_lm(model_type) or {}
        needed = [key for key, value in arguments.items() if value is inspect.Parameter.empty]
        if needed:
            keys[model_type] = sorted(needed)
    rows = ",\n".join(f'"{name}": {json.dumps(names)}' for name, names in keys.items())
    return "{\n" + rows + "\n}\n"


def defaults():
    """The values that transformers' classes take for omitted keys, by model_type."""
    simple = (bool, int, float, str)
    values = {name: of_transformers(name) or {} for name in MODEL_TYPES}
    rows = ",\n".join(
        f'"{name}": {json.dumps({k: v for k, v in sorted(row.items()) if isinstance(v, simple)})}'
        for name, row in values.items()
        if row
    )
    return "{\n" + rows + "\n}\n"


if __name__ == "__main__":
    for target, content in ((TARGET, text()), (REQUIRED, required()), (OMITTED_KEYS, defaults())):
        if "--check" not in sys.argv:
            target.write_text(content)
        elif target.read_text() != content:
            sys.exit(f"{target} differs from the installed packages: run {Path(__file__).name}")
