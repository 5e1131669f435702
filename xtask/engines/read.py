"""Writes engines/transformers/read.txt: the fields of its config that each causal class of transformers reads, and what they change.

    read.py [--check]

A small model of each class is made with a config that reports which fields the model's code reads, in the constructor and in
the forward pass. Each of these fields then gets another value, and the new model the weights of the first one.
"""

import copy
import itertools
import json
import random
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import lines

sys.path.append(str(Path(__file__).resolve().parents[1] / "oracles"))
warnings.filterwarnings("ignore")

import draws  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from transformers import AutoModelForCausalLM, CONFIG_MAPPING  # noqa: E402

# Modules whose code is the model's.
CODE = ("transformers.models.", "transformers.masking_utils", "transformers.modeling_rope_utils")
TOKENS = list(range(3, 27))
# Keys of older files with numbers of rotary embeddings.
ROPE = ("partial_rotary_factor", "rope_theta", "rope_scaling")
# A number that no class has.
NUMBER = 0.123


def watched(config, seen):
    """The config, which adds the names of the fields that the model's code reads to `seen`."""

    def read(self, name):
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller.startswith(CODE) and ".configuration_" not in caller:
            seen.add(config.attribute_map.get(name, name))
        return class_.__getattribute__(self, name)

    class_ = type(config)
    config.__class__ = type(class_.__name__, (class_,), {"__getattribute__": read})
    return config


def model_of(config):
    with draws.Alarm(20):
        with torch.device("meta"):
            count = sum(x.numel() for x in AutoModelForCausalLM.from_config(copy.copy(config)).parameters())
        if count > 4_000_000:
            raise ValueError(f"{count} weights")
        torch.manual_seed(7)
        model = AutoModelForCausalLM.from_config(config).float().eval()
        for weight in model.parameters():
            weight.data.mul_(3) if weight.dim() > 1 else weight.data.add_(torch.randn_like(weight) * 0.1)
        return model


def changes(name, own, key, model, expected, value=None, part=None):
    """What another value of a field, of a key with this default, or of one in the config of a part, changes: `tensors`, `logits`,
    or nothing."""
    try:
        value = getattr(model.config, key, value)
    except Exception:  # each layer has its own
        value = own.get(key)
    for other in draws.other_values(key, value, own, random.Random(key)):
        try:
            stated = {key: other} if part is None else {part: own.get(part, {}) | {key: other}}
            changed = model_of(CONFIG_MAPPING[name](**own | stated))
            shapes = [{key: x.shape for key, x in each.state_dict().items()} for each in (model, changed)]
            if shapes[0] != shapes[1]:
                return "tensors"
            changed.load_state_dict(model.state_dict())
            each = [draws.logits(changed, TOKENS), *draws.apart(changed, TOKENS)]
        except (draws.Late, Exception):
            continue
        if all(np.abs(logits - expected).max() > 1e-5 * expected.std() for logits in each):
            return "logits"
    return "nothing"


def by_position(name, usual):
    """The kinds of layers that a class derives for any number of them: the first ones, a period, and the last ones."""
    class_ = CONFIG_MAPPING[name]
    lists = [class_(num_hidden_layers=count).layer_types for count in range(8, 48)]
    for length, first, last in itertools.product(range(1, 13), range(4), range(2)):
        own = {"first": lists[-1][:first], "every": lists[-1][first : first + length], "last": lists[-1][len(lists[-1]) - last :]}
        if all(kinds == spread(own, len(kinds)) for kinds in lists):
            return own
    return usual


def spread(own, count):
    """The kinds of this number of layers."""
    between = count - len(own["first"]) - len(own["last"])
    return [*own["first"], *(own["every"][i % len(own["every"])] for i in range(between)), *own["last"]]


def default(name, key, usual):
    """The default of a field, as JSON."""
    listed = key == "layer_types" and isinstance(usual, list)
    return json.dumps(by_position(name, usual) if listed else usual)


def older_keys(name):
    """The keys of older files with numbers of rotary embeddings that the class does not read; `scaling` if it reads a number beside
    `rope_scaling`."""
    for key in ROPE[:2]:
        if not reads(name, **{key: NUMBER}):
            beside = reads(name, **{key: NUMBER}, rope_scaling={"rope_type": "linear", "factor": 2.0})
            yield f"{key} {'scaling' if beside else 'nothing'} null"
    if not reads(name, rope_scaling={"rope_type": "linear", "factor": NUMBER}):
        yield "rope_scaling nothing null"


def rotates_whole(name, own, usual):
    """Whether embeddings that are not scaled ignore the part of a head that they rotate, although the class states one."""
    if "partial_rotary_factor" not in str(usual):
        return False
    nested = [key for key, value in usual.items() if isinstance(value, dict)]
    each = []
    for part in (0.5, 1.0):
        rope = {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": part}
        try:
            each.append(model_of(CONFIG_MAPPING[name](**own | {"rope_parameters": {key: rope for key in nested} if nested else rope})))
        except (draws.Late, Exception):
            return False
    return np.abs(np.subtract(*(draws.logits(model, TOKENS) for model in each))).max() < 1e-5


def reads(name, **own):
    """Whether the number is among those of the rotary embeddings; also if the class does not accept the config."""
    try:
        return str(NUMBER) in str(CONFIG_MAPPING[name](**own).rope_parameters)
    except Exception:
        return True


def fields(name):
    """A line for each field that matters to more than training: its name, what it changes, and its default."""
    own = draws.usual(name)
    seen = set()
    model = model_of(watched(CONFIG_MAPPING[name](**own), seen))
    expected = draws.logits(model, TOKENS)
    model = model_of(CONFIG_MAPPING[name](**own))
    usual = CONFIG_MAPPING[name]().to_dict()
    parts = {part for part, *_ in draws.nested(usual)}
    for key in sorted(seen & set(usual) - parts):
        if not draws.APART.search(key):
            yield f"{key} {changes(name, own, key, model, expected)} {default(name, key, usual[key])}"
    for part, key, value in draws.nested(usual):
        if not draws.APART.search(key) and key not in CONFIG_MAPPING[name].attribute_map:
            yield f"{key} {changes(name, own, key, model, expected, value, part)} {json.dumps(value)}"
    for alias, key in CONFIG_MAPPING[name].attribute_map.items():
        if key in seen and alias not in usual:
            yield f"{alias} is {key}"
    for key, value in draws.constructor_keys(CONFIG_MAPPING[name], usual):
        if key not in ROPE and (changed := changes(name, own, key, model, expected, value)) != "nothing":
            yield f"{key} {changed} {json.dumps(value)}"
    if isinstance(usual.get("rope_parameters"), dict):
        yield from older_keys(name)
        if rotates_whole(name, own, usual["rope_parameters"]):
            yield "rope_parameters.partial_rotary_factor nothing null"


def blocks(names):
    for name in names:
        try:
            yield name, list(fields(name))
        except (draws.Late, Exception) as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:80]}", file=sys.stderr)


if __name__ == "__main__":
    names = [name for name in sorted(draws.CAUSAL) if name in CONFIG_MAPPING]
    files = lines.Files()
    about = "Fields of its config that a causal class reads, what they change, and their defaults."
    files.put("transformers/read.txt", f"transformers {version('transformers')}", about, blocks(names))
    files.finish()
