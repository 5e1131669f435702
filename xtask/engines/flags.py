"""Writes engines/transformers/flags.txt and projectors.txt: the flags of config.json that decide which parameters a class of
transformers has.

    flags.py [--check]

Each class of the model types that families have is built without memory for its weights, with each flag as its default has
it and the other way round. The second file has those of projectors, of the classes with a vision or audio model.
"""

import re
import warnings
from importlib.metadata import version

import lines

warnings.filterwarnings("ignore")

import torch  # noqa: E402
from classes import MODEL_TYPES, config_class, stated  # noqa: E402
from transformers.models.auto import modeling_auto  # noqa: E402

TASKS = ["CAUSAL_LM", "MASKED_LM", "SEQ_TO_SEQ_CAUSAL_LM"]
WRAPPING = ["IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM"]
# Few layers; of these, the config is taken whose model has the most kinds of parameters.
SMALL = [{"num_hidden_layers": 4}, {}, {"num_hidden_layers": 2, "layer_types": ["conv", "full_attention"]}]


def model_class(cls, tasks=TASKS):
    """The model of a config class."""
    for task in tasks:
        mapping = getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING")
        if cls in mapping:
            found = mapping[cls]
            return found[0] if isinstance(found, tuple) else found
    return None


def parameters(cls, small, flags, tasks=TASKS):
    """The kinds of parameters of a model with these flags; None if the class refuses them."""
    try:
        with torch.device("meta"):
            model = model_class(cls, tasks)(cls(**small, **flags))
    except Exception:
        return None
    return {re.sub(r"\.\d+\.", ".{n}.", name) for name, _ in model.named_parameters()}


def flags_of(cls):
    """Each flag that decides which parameters a class has, and the parameters that it has if the flag is true, or false."""
    small = max(SMALL, key=lambda small: len(parameters(cls, small, {}) or ()))
    usual = parameters(cls, small, {})
    for flag, default in sorted(stated(cls).items()) if usual else ():
        other = parameters(cls, small, {flag: not default}) if isinstance(default, bool) else None
        if other is not None:
            with_flag, without = (usual, other) if default else (other, usual)
            for value, names in (("true", with_flag - without), ("false", without - with_flag)):
                yield from (f"{flag} {value} {name}" for name in sorted(names))


def blocks():
    for model_type in MODEL_TYPES:
        cls = config_class(model_type)
        if cls is not None and model_class(cls) is not None:
            yield model_type, list(flags_of(cls))


def projectors():
    """Each class with flags of a projector, and its parameters that are there only if the flag is true."""
    classes = {cls for task in WRAPPING for cls in getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING")}
    for cls in sorted(classes, key=lambda cls: cls.model_type):
        usual = parameters(cls, {}, {}, WRAPPING) if any("projector" in key for key in stated(cls)) else None
        lines = []
        for flag, default in sorted(stated(cls).items()) if usual else ():
            is_flag = isinstance(default, bool) and "projector" in flag
            other = parameters(cls, {}, {flag: not default}, WRAPPING) if is_flag else None
            if other is not None:
                names = (usual - other) if default else (other - usual)
                lines += [f"{flag} {str(default).lower()} {name}" for name in sorted(names)]
        if lines:
            yield cls.model_type, lines


if __name__ == "__main__":
    files = lines.Files()
    about = "Parameters that a class has only if a flag of config.json is true, or false."
    files.put("transformers/flags.txt", f"transformers {version('transformers')}", about, blocks())
    about = "Parameters of a projector that a class has only if a flag of config.json is true: the flag, its default, the name."
    files.put("transformers/projectors.txt", f"transformers {version('transformers')}", about, projectors())
    files.finish()
