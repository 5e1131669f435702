"""Writes src/translate/kept/class_defaults.json: what transformers' config classes take for keys that a config.json
leaves out.

    class_defaults.py [--check]    --check compares with the file instead of writing it

The table has a row for each model_type that `weighbridge list architectures` could convert to GGUF and that transformers
has a class for. Keys that do not change what a model computes are left out. A null default means that the class derives
the value from others.
"""

import dataclasses
import json
import re
import sys
from pathlib import Path

import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "src/translate/kept/class_defaults.json"
# Training, losses, heads of classifiers, and how an implementation works.
INERT = re.compile(
    r"_token_id$|dropout|_pdrop$|^initializer_|^use_cache$|^router_(aux|jitter)|^output_router|^pretraining_tp$"
    r"|^summary_|^classifier_|^sparse_pred|^deterministic_|^reorder_and_upcast|^add_cross|^is_decoder$"
    r"|^num_mtp_layers$|^vocab_size|^max_position|^n_positions$|^tie_word|^original_max_position|^rope_parameters$"
    r"|^rope_interleave$|^decoder_bias$"
)


def model_types():
    rows = "\n".join(path.read_text() for path in sorted((ROOT / "src/arch/family").glob("*.rs")))
    named = re.findall(r'\bhf: &\[([^\]]*)\]', rows)
    return sorted({name for row in named for name in re.findall(r'"([a-z0-9_-]+)"', row)})


def rows():
    base = {field.name for field in dataclasses.fields(transformers.PretrainedConfig)}
    for name in model_types():
        try:
            config = CONFIG_MAPPING[name]
        except KeyError:
            continue
        row = {}
        for field in dataclasses.fields(config):
            if field.name in base or INERT.search(field.name) or field.default is dataclasses.MISSING:
                continue
            if isinstance(field.default, (bool, int, float, str, type(None))):
                row[field.name] = field.default
        theta = getattr(config, "default_theta", None)
        if isinstance(theta, (int, float)):
            row["rope_theta"] = theta
        try:
            rope = config().rope_parameters or {}
        except Exception:
            rope = {}
        if isinstance(rope.get("partial_rotary_factor"), float):
            row["partial_rotary_factor"] = rope["partial_rotary_factor"]
        yield name, row


text = ",\n".join(f'"{name}": {json.dumps(row, sort_keys=True)}' for name, row in rows())
text = "{\n" + text + "\n}\n"
if "--check" in sys.argv:
    if TABLE.read_text() != text:
        sys.exit("class_defaults.json differs from the classes of transformers " + transformers.__version__)
    print("class_defaults.json agrees with transformers", transformers.__version__)
else:
    TABLE.write_text(text)
