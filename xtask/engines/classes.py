"""Writes engines/transformers and engines/mlx-lm from the installed transformers and mlx-lm.

    classes.py            write the files
    classes.py --check    exit with status 1 if a file differs from what would be written

transformers: every class of a language model, its keys and their defaults; of the model types that families have, those
that conversions depend on; names that config.json may state; the classes that read vocab.json with merges.txt. mlx-lm: every class,
and the keys that config.json must state, because mlx-lm's class requires them or assumes another value than transformers' class.
"""

import ast
import dataclasses
import importlib
import inspect
import json
import re
import warnings
from importlib.metadata import version
from pathlib import Path

import lines

warnings.filterwarnings("ignore")

from mlx_lm.utils import MODEL_REMAPPING  # noqa: E402
import transformers  # noqa: E402
from transformers import PreTrainedConfig  # noqa: E402
from transformers.activations import ACT2FN  # noqa: E402
from transformers.conversion_mapping import get_checkpoint_conversion_mapping  # noqa: E402
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS, RotaryEmbeddingConfigMixin  # noqa: E402
from transformers.models.auto import modeling_auto  # noqa: E402
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES  # noqa: E402
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES, tokenizer_class_from_name  # noqa: E402

TASKS = {"causal": "CAUSAL_LM", "masked": "MASKED_LM", "seq2seq": "SEQ_TO_SEQ_CAUSAL_LM"}


def exceptions(program):
    """The hand-written facts: the attributes of first lines, and the lines below them, by model_type."""
    attributes, facts = {}, {}
    for (name, *words), rest in lines.blocks(f"{program}/exceptions.txt"):
        attributes.setdefault(name, {}).update(word.split("=") for word in words)
        facts.setdefault(name, []).extend(rest)
    return attributes, facts


SAME_CLASS, FIXED = exceptions("transformers")
MLX_MODULES, READ_ELSEWHERE = exceptions("mlx-lm")
# The fields that causal classes of transformers read.
FIELDS = {name: fields for (name, *_), fields in lines.blocks("transformers/read.txt")}
ASSUMED = {key for (key,) in READ_ELSEWHERE.pop("*")}

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
    num_mtp_layers dropout_rate initializer_factor attn_config use_mamba_kernels use_mambapy
""".split()
IGNORED_ENDS = ("dropout", "pdrop", "drop")


def config_class(model_type):
    """The class of a model_type in transformers, or None."""
    name = SAME_CLASS.get(model_type, {}).get("class", model_type)
    return CONFIG_MAPPING[name] if name in CONFIG_MAPPING else None


def model_types():
    """The values of model_type that families have, but for those of wrappers: their text model has another."""
    for name in lines.model_types():
        cls = config_class(name)
        if cls is None or "text_config" not in getattr(cls, "sub_configs", {}):
            yield name


MODEL_TYPES = list(model_types())


def stated(cls):
    """The keys that a class of transformers reads, and their defaults."""
    values = {}
    for field in dataclasses.fields(cls):
        value = field.default
        if value is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        values[field.name] = None if value is dataclasses.MISSING else value
    theta = getattr(cls, "default_theta", None)
    if isinstance(theta, dict) and set(theta) == {"global", "local"}:
        values["rope_theta"] = float(theta["global"])
        values["rope_local_base_freq"] = float(theta["local"])
    elif isinstance(theta, dict):
        values["default_theta"] = theta
    elif isinstance(theta, (int, float)) and "rope_parameters" in values:
        values["rope_theta"] = float(theta)
    return values


def of_transformers(model_type):
    """The values that transformers takes for keys that config.json omits, or None if it has no class."""
    cls = config_class(model_type)
    fixed = {key: json.loads(value) for key, value in FIXED.get(model_type, [])}
    return None if cls is None else stated(cls) | fixed


def mlx_module(model_type):
    usual = {"module": MODEL_REMAPPING.get(model_type, model_type), "class": "ModelArgs"}
    found = usual | MLX_MODULES.get(model_type, {})
    try:
        return importlib.import_module(f"mlx_lm.models.{found['module']}"), found["class"]
    except (Exception, SystemExit):  # a module may require a package that is not installed
        return None, None


def of_mlx_lm(model_type):
    """The keys of mlx-lm's class and their defaults, or None if there is no class."""
    module, name = mlx_module(model_type)
    cls = getattr(module, name, None) if module else None
    if cls is None:
        return None
    parameters = inspect.signature(cls).parameters.values()
    return {p.name: p.default for p in parameters if p.name not in ("model_type", "rope_traditional")}


def mlx_classes():
    """The values of model_type that mlx-lm has a class for."""
    folder = Path(importlib.import_module("mlx_lm.models").__path__[0])
    modules = [path.stem for path in folder.glob("*.py") if re.search(r"^class Model\(", path.read_text(), re.M)]
    return set(modules) | {name for name, module in MODEL_REMAPPING.items() if module in modules}


def computes_width(cls):
    """Whether transformers' class computes the width of a head from the others if config.json omits it."""
    try:
        return getattr(cls(hidden_size=96, num_attention_heads=4), "head_dim", None) == 24
    except Exception:
        return False


def text_models(name, cls):
    """The model_type of the text model that a class of transformers holds, as an attribute of its line."""
    if "text" in SAME_CLASS.get(name, {}):
        return []
    try:
        inner = cls().text_config.model_type
    except Exception:
        return []
    return [f"text={inner}"] if inner else []


def text_modules(model_type, classes):
    """The modules of the text models that mlx-lm's class for a model_type holds, as an attribute of its line."""
    if "text_config" not in (of_mlx_lm(model_type) or {}) or "text" in MLX_MODULES.get(model_type, {}):
        return []
    module, _ = mlx_module(model_type)
    imported = re.findall(r"^from \.(?: import ([\w, ]+)|(\w+) import)", inspect.getsource(module), re.M)
    names = [name for several, one in imported for name in (one or several).split(", ") if name in classes]
    return ["text=" + ",".join(dict.fromkeys(names))] if names else []


def text(value):
    """A value as JSON; an object of Python that has no JSON by its class."""
    return json.dumps(value, default=lambda other: type(other).__name__)


def value_lines(values):
    return [f"{key} {text(value)}" for key, value in sorted(values.items())]


def every_class():
    """Every class of a language model: its name, its models by task, and its keys."""
    tasks = {task: getattr(modeling_auto, f"MODEL_FOR_{name}_MAPPING_NAMES") for task, name in TASKS.items()}
    common = stated(PreTrainedConfig)
    yield PreTrainedConfig.__name__, value_lines(common)
    names = [name for name in CONFIG_MAPPING_NAMES if name.endswith("_text") or any(name in task for task in tasks.values())]
    for name in sorted({*names, *(name for name in MODEL_TYPES if name in CONFIG_MAPPING)}):
        cls = CONFIG_MAPPING[name]
        words = [name, f"config={cls.__name__}"]
        for task, models in tasks.items():
            model = models.get(name, ())
            words += [f"{task}={model}" for model in ([model] if isinstance(model, str) else model)]
        words += ["computes=head_dim"] if computes_width(cls) else []
        words += text_models(name, cls)
        own = {key: value for key, value in stated(cls).items() if key not in common or value != common[key]}
        yield " ".join(words), value_lines(own)


def defaults_of_classes():
    """The keys that every config has when transformers saves it, and those of a class that conversions depend on."""
    yield PreTrainedConfig.__name__, value_lines(PreTrainedConfig().to_dict())
    yield from map(defaults_of_class, MODEL_TYPES)


def defaults_of_class(model_type):
    """The keys of a class that conversions depend on."""
    values = of_transformers(model_type)
    if values is None:
        return f"{model_type} none", []
    skipped = [key for key in STATED if key not in OMITTED.get(model_type, [])] + IGNORED
    kept = {
        key: value
        for key, value in values.items()
        if key not in skipped and not key.startswith("_") and not key.endswith(IGNORED_ENDS) and "mask_" not in key
    }
    words = ["computes=head_dim"] if computes_width(config_class(model_type)) else []
    words += ["ties"] if values.get("tie_word_embeddings") is True else []
    return " ".join([model_type, *words]), value_lines(kept)


def names_in_configs():
    """The tables that transformers looks names of config.json up in."""
    yield "activations", sorted(ACT2FN)
    kinds = []
    for kind in ["default", *ROPE_INIT_FUNCTIONS]:
        check = getattr(RotaryEmbeddingConfigMixin, f"_validate_{kind}_rope_parameters", None)
        found = re.search(r"required_keys = \{(.*?)\}", inspect.getsource(check), re.S) if check else None
        keys = re.findall(r'"(\w+)"', found[1]) if found else []
        # The class itself sets these.
        own = ("rope_type", "rope_theta", "original_max_position_embeddings")
        kinds.append(" ".join([kind, *(key for key in keys if key not in own)]))
    yield "rope_types", sorted(set(kinds))


def byte_level(name):
    """How the class of this name splits text if it takes a vocabulary and merges, and merges bytes; else None."""
    try:
        cls = tokenizer_class_from_name(name)
        made = cls(vocab={"a": 0, "b": 1, "ab": 2}, merges=[("a", "b")])
        around = ["surrounds"] if len(made("ab")["input_ids"]) == 3 else []
        steps = json.loads(made.backend_tokenizer.to_str())
    except Exception:  # classes of other arguments, or of packages that are not installed
        return None
    if "ByteLevel" not in text(steps["pre_tokenizer"]) or steps["normalizer"] not in (None, {"type": "NFC"}):
        return None
    return (*around, *value_lines({key: steps[key] for key in ("normalizer", "pre_tokenizer") if steps[key]}))


def tokenizer_classes():
    """The classes of tokenizers that merge bytes, with the values of model_type that they are for."""
    models = {}
    for model_type, name in TOKENIZER_MAPPING_NAMES.items():
        models.setdefault((name or "").removesuffix("Fast"), []).append(model_type)
    alike = {}
    for name in sorted({name for name in [*dir(transformers), *models] if name.endswith("Tokenizer")}):
        if rest := byte_level(name):
            alike.setdefault(rest, []).extend([name, *sorted(models.get(name, []))])
    for rest, names in alike.items():
        words = [word for word in rest if word == "surrounds"]
        yield " ".join([",".join(names), *words]), [line for line in rest if line not in words]


def starts(name):
    """Starts of names in files that a class or the classes of a model type rename, and what they have instead."""
    for rule in get_checkpoint_conversion_mapping(name) or []:
        for source, target in zip(getattr(rule, "source_patterns", []), getattr(rule, "target_patterns", [])):
            found = re.fullmatch(r"\^((?:\w|\\?\.)+?)(\(\?!.*\))?(?:\\?\.)?", source)
            if found and re.fullmatch(r"[\w.]+", target):
                start = found[1].replace("\\", "")
                # Names that the rule does not apply to stay as they are.
                yield from ((f"{start}.{kept}",) * 2 for kept in re.findall(r"\w+", found[2] or ""))
                yield start, target.removesuffix(".")


def module_names():
    """For each model type, the starts of names in files that its class has under other names."""
    classes = {}
    for task in (modeling_auto.MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES, modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES):
        classes.update(task)
    for model_type, name in sorted(classes.items()):
        name = name if isinstance(name, str) else name[0]
        renamed = {}
        for start, target in [*starts(name)] or [*starts(model_type)]:
            renamed.setdefault(start, target)
            # The model within the class renames what follows.
            for further, instead in starts(re.sub(r"For\w+$", "Model", name)):
                held = target.removeprefix("model.")
                if further.startswith(f"{held}."):
                    renamed.setdefault(start + further.removeprefix(held), f"model.{instead}")
        if renamed:
            yield model_type, [f"{start} {target}" for start, target in sorted(renamed.items())]


def source_of(module, apart=("base", "cache")):
    """The code of a module of mlx-lm with that of the modules that it takes classes from."""
    source = inspect.getsource(module)
    for name in re.findall(r"^from \.(?: import )?(\w+)", source, re.M):
        if name not in apart:
            source += inspect.getsource(importlib.import_module(f"mlx_lm.models.{name}"))
    return source


def ignored_by_mlx_lm(model_type, module):
    """The fields that change the logits of transformers' class, and that the code of mlx-lm's class does not read."""
    source, elsewhere = source_of(module), {key for (key,) in READ_ELSEWHERE.get(model_type, [])}
    fields = [key for key, change, *_ in FIELDS.get(model_type, []) if change == "logits" and key not in elsewhere]
    # The kinds of layers and the numbers of rotary embeddings have several spellings.
    fields = [key for key in fields if key not in ("layer_types", "rope_parameters", "sliding_window_pattern", "no_rope_layers")]
    unread = [key for key in fields if not is_read(key, source)]
    if any(key == "rope_parameters" for key, *_ in FIELDS.get(model_type, [])):
        own = source_of(module, ("base", "cache", "rope_utils"))
        # What checks the numbers does not compute with them.
        checks = r"( *)if self\.rope_scaling:\n\1 +required_keys.*\n(\1 .*\n|\n)*"
        own = re.sub(checks, "", own)
        # A class may read nothing but the base in `rope_parameters`.
        if re.search(r"\.rope_scaling\b|scaling_config|[\"']factor[\"']|\.rope_parameters[,)]", own):
            unread += [f"rope.{key}" for key in ("attention_factor", "truncate") if not is_read(key, source)]
        else:
            unread.append("rope.factor")
        if not re.search(r"partial_rotary_factor|rotary_dim|rotary_pct|rope_pct|head_dim // 2", own):
            unread.append("rope.partial_rotary_factor")
    return unread


def is_read(key, source):
    return re.search(rf"[.\"']{key}\b", source)


def derives_head_width(arguments, source):
    """Whether the code computes the width of a head from the others, whatever config.json states."""
    sizes = {"hidden_size", "num_attention_heads"} <= set(arguments) and "kv_lora_rank" not in arguments
    return sizes and re.search(r"\bhead_dim = .*//", source) and not re.search(r"(?<!self)[.\"']head_dim\b", source)


def has_output_matrix(source):
    """Whether the code makes an output matrix whatever the config says, not in a branch."""
    tree = ast.parse(source)
    targets = lambda node: node.targets if isinstance(node, ast.Assign) else [node.target]
    is_one = lambda node: isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Call) and getattr(targets(node)[0], "attr", "") in ("lm_head", "embed_out")
    made = lambda tree: set(filter(is_one, ast.walk(tree)))
    branches = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    return bool(made(tree).difference(*map(made, branches))) and 'pop("lm_head")' not in source


def has_biases(source):
    """Whether the code makes a matrix that may have a bias."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "Linear"]
    given = [{word.arg: getattr(word.value, "value", None) for word in call.keywords}.get("bias") for call in calls]
    return any(bias is not False for bias in given)


def of_mlx_class(model_type, classes):
    """What mlx-lm's class does otherwise than transformers', and the keys that config.json must state for it."""
    values, arguments = of_transformers(model_type), of_mlx_lm(model_type) or {}
    module, _ = mlx_module(model_type)
    source = inspect.getsource(module) if module else ""
    words = [] if model_type in classes else ["inner"]
    if has_output_matrix(source) or MLX_MODULES.get(model_type, {}).get("head") == "own":
        words.append("untied")
    if "as_linear(" in source and not re.search(r"nn\.Linear\([^)]*vocab_size", source):
        words.append("tied")
    if source and not has_biases(source_of(module)):
        words.append("unbiased")
    elif values and arguments and not ("bias=True" in source or "bias" in arguments or "qkv_bias" in arguments):
        flags = ("attention_bias", "mlp_bias")
        words += [f"unbiased={flag}" for flag in flags if flag in values and not re.search(rf"\.{flag}\b", source_of(module))]
    if values and re.search(r"\.(o_proj|out_proj|dense) = nn\.Linear\((?:[^()]|\([^()]*\))*bias=(\w+\.)?attention_bias", source):
        words.append("biased=output")
    ignored = ignored_by_mlx_lm(model_type, module) if values and arguments else []
    words += ["ignores=" + ",".join(ignored)] if ignored else []
    words += ["heads=derived"] if module and derives_head_width(arguments, source_of(module)) else []
    words += ["reads=rope_parameters"] if "rope_parameters" in arguments else []
    aliases = config_class(model_type).attribute_map if values else {}
    known = {name: value for key, value in (values or {}).items() if value is not None for name in (key, aliases.get(key, key))}
    elsewhere = [*STATED, *(key for (key,) in READ_ELSEWHERE.get(model_type, []))]
    needed = []
    for key, default in sorted(arguments.items()):
        required = default is inspect.Parameter.empty
        differs = key in known and known[key] != default
        assumed = key not in known and key in ASSUMED
        if required and key in STATED:
            needed.append(f"{key} required stated")
        elif key not in elsewhere and (required or differs or assumed):
            needed.append(f"{key} {'required' if required else text(default)}")
    return " ".join([model_type, *words]), needed


def wrapper(name, classes):
    """A class of a model type that no family has: one that holds a text model may require its config, `text_config`."""
    module, args = mlx_module(name)
    words = [name, *text_modules(name, classes)]
    try:
        getattr(module, args).from_dict({"model_type": name})
    except Exception as error:
        words += ["wraps"] if "'text_config'" in str(error) else []
    return " ".join(words), []


def mlx_blocks():
    classes = mlx_classes()
    known = {name for name in MODEL_TYPES if of_mlx_lm(name) is not None}
    # Classes of this name run another architecture.
    others = {name for name, facts in MLX_MODULES.items() if facts.get("class") == "none"}
    for name in sorted((classes | known) - others):
        yield of_mlx_class(name, classes) if name in MODEL_TYPES else wrapper(name, classes)


if __name__ == "__main__":
    files = lines.Files()
    from_transformers, mlx_lm = f"transformers {version('transformers')}", f"mlx-lm {version('mlx-lm')}"
    about = "Classes of language models: their config, their models by task, and the defaults of their keys."
    files.put("transformers/classes.txt", from_transformers, about, every_class())
    about = "Defaults of the keys that conversions depend on."
    files.put("transformers/defaults.txt", from_transformers, about, defaults_of_classes())
    about = "Names that config.json may state: activations, and kinds of rope scaling with the keys that they require."
    files.put("transformers/names.txt", from_transformers, about, names_in_configs())
    about = "Starts of the names in files that classes of vision and audio models have under other names; the longest that fits applies."
    files.put("transformers/modules.txt", from_transformers, about, module_names())
    about = "Classes that read vocab.json with merges.txt, which state no steps, and the values of model_type that they are for."
    files.put("transformers/tokenizers.txt", from_transformers, about, tokenizer_classes())
    about = "Classes, and the keys that config.json must state with the defaults of mlx-lm."
    files.put("mlx-lm/classes.txt", mlx_lm, about, mlx_blocks())
    files.finish()
