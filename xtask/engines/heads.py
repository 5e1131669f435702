"""Writes engines/transformers/heads.txt: the parameters of the heads that transformers' classes have for other tasks than
generating text.

    heads.py [--check]

Each class is built without memory for its weights. Its head are the parameters that the model within it lacks, and those of a
pooler that its scores depend on. A parameter that a flag of config.json can remove, or that is tied to another one, is not counted.
"""

import re
import warnings
from functools import cache
from importlib.metadata import version

import lines

warnings.filterwarnings("ignore")

import torch  # noqa: E402
from classes import stated  # noqa: E402
from transformers import PreTrainedConfig  # noqa: E402
from transformers.initialization import no_init_weights  # noqa: E402
from transformers.models.auto import modeling_auto  # noqa: E402
from transformers.utils import logging  # noqa: E402

logging.set_verbosity_error()

# The heads of the last two predict words, which a model of texts' vectors does not need.
TASKS = ["SEQUENCE_CLASSIFICATION", "TOKEN_CLASSIFICATION", "QUESTION_ANSWERING", "MULTIPLE_CHOICE", "NEXT_SENTENCE_PREDICTION"]
OF_WORDS = ["MASKED_LM", "PRETRAINING"]
# Other classes generate text, or need more than a text.
TEXT = re.compile(r"For(SequenceClassification|TokenClassification|QuestionAnswering\w*|MultipleChoice|NextSentencePrediction|MaskedLM|PreTraining)$")
# Classes whose config states no usable sizes.
SIZES = {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 99}
SMALL = [{"num_hidden_layers": 2, "pad_token_id": 0}, {"num_hidden_layers": 2}, {}, {"num_hidden_layers": 2, "pad_token_id": 0} | SIZES]


# Flags of every class, none of which decides about parameters.
COMMON = {*stated(PreTrainedConfig), "use_cache", "tie_word_embeddings"}


def built(model, config, **flags):
    """A model of a class without memory; None if the class refuses every small config."""
    for small in SMALL:
        try:
            with torch.device("meta"), no_init_weights():
                return model(config(**small, **flags))
        except Exception:
            continue
    return None


@cache
def alone(config, flag, value):
    """The parameters of the model alone."""
    mapping = modeling_auto.MODEL_MAPPING
    made = built(mapping[config], config, **({flag: value} if flag else {})) if config in mapping else None
    return None if made is None else {name for name, _ in made.named_parameters()}


def head(model, config, flag=None, value=None):
    """The parameters of a class outside of the model within it, and those of a pooler; None if it cannot be built."""
    made = built(model, config, **({flag: value} if flag else {}))
    if made is None:
        return None
    inner = getattr(made, made.base_model_prefix, made)
    bare = lambda name: name.removeprefix(made.base_model_prefix + ".")  # noqa: E731
    tied = getattr(made, "all_tied_weights_keys", None) or {}
    tied = {*tied, *tied.values()}
    own = alone(config, flag, value) or {name for name, _ in inner.named_parameters()}
    names = {name for name, _ in made.named_parameters() if bare(name) not in own and name not in tied}
    poolers = {name for name, _ in made.named_parameters() if "pooler." in name} - names
    return names | (poolers if poolers and is_used(made, poolers) else set())


def is_used(made, names):
    """Whether the scores of a model depend on parameters."""
    shape = (1, 2, 8) if type(made).__name__.endswith("MultipleChoice") else (1, 8)
    try:
        scores = made(input_ids=torch.zeros(shape, dtype=torch.long, device="meta"))[0]
        found = torch.autograd.grad(scores.sum(), [made.get_parameter(name) for name in sorted(names)], allow_unused=True)
    except Exception:
        return False
    return all(of is not None for of in found)


def kept(model, config):
    """The parameters of a head that no flag removes."""
    names = head(model, config)
    for flag, default in sorted(stated(config).items()) if names else ():
        decides = isinstance(default, bool) and flag not in COMMON
        other = head(model, config, flag, not default) if decides else None
        names = names & other if other is not None else names
    return names


def blocks():
    alike = {}
    for task in TASKS + OF_WORDS:
        for config, models in getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING", {}).items():
            for model in models if isinstance(models, tuple) else (models,):
                if not TEXT.search(model.__name__):
                    continue
                names = kept(model, config)
                # A class whose layers are not those of the model alone.
                if names and not any(re.search(r"\.\d+\.", name) for name in names):
                    alike.setdefault((task in OF_WORDS, tuple(sorted(names))), set()).add(model.__name__)
    for (of_words, names), models in sorted(alike.items(), key=lambda block: sorted(block[1])):
        yield ",".join(sorted(models)) + (" words" if of_words else ""), names


if __name__ == "__main__":
    files = lines.Files()
    about = "Parameters of the heads of classes for other tasks than generating text; `words`: the head predicts words."
    files.put("transformers/heads.txt", f"transformers {version('transformers')}", about, blocks())
    files.finish()
