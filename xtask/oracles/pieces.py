"""Makes tokenizers of scored pieces, and the tokens that Hugging Face's `tokenizers` gives for some texts.

    pieces.py FOLDER

FOLDER/NAME.json is `{"tokenizer": the tokenizer.json, "texts": [[text, tokens], ...]}`. `reference/tests/pieces` has those that
the tests compare with. FOLDER/NAME.model is a model of sentencepiece, and FOLDER/NAME.tokens.json the tokens that sentencepiece
itself gives, without those around a text. With `--rules nmt_nfkc` the replacements are sentencepiece's own, which are too many for the repository.
"""

import base64
import io
import json
import sys
import tempfile
from pathlib import Path

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer

TRAINED_ON = "the tall truck on a windy morning was full of bells and the horse pulled it to a weighbridge in the town"
TEXTS = [
    "the tall truck", "  the   tall  truck ", "the bells\nand\tthe horse", "Ａ ﬁne ① weighbridge", "e\u0301te\u0301 caf\u00e9", "the 山 truck 山山",
    "zzz", "", " ", "the\u00a0truck", "x\u200bthe", "\u1112\u1161\u11ab the", "🙂 the 👩\u200d👩\u200d👧 horse", "thethethe", "<unk> the</s> horse",
]
# Characters, and what they are replaced with, as sentencepiece reads them.
RULES = {"Ａ": "a", "ﬁ": "fi", "①": "1", "\u00a0": " ", "\n": " ", "\t": " ", "e\u0301": "é", "\u200b": "", "\u1112\u1161\u11ab": "\ud55c", "\u1112\u1161": "\ud558"}


def model(rules, fallback, kind="unigram", **more):
    words = TRAINED_ON.split()
    texts = [" ".join(words[(n * k) % len(words)] for k in range(1, 9)) for n in range(1, 60)]
    out = io.BytesIO()
    options = dict(normalization_rule_name=rules) if rules else {}
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as table:
        if not rules:
            number = lambda text: " ".join(f"{ord(letter):X}" for letter in text)
            table.writelines(f"{number(text)}\t{number(by)}\n" for text, by in RULES.items())
            table.flush()
            options = dict(normalization_rule_tsv=table.name)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts), model_writer=out, vocab_size=400 if fallback else 90, model_type=kind,
            hard_vocab_limit=False, minloglevel=2, byte_fallback=fallback,
            **{**dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1), **options, **more},
        )
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(out.getvalue())
    return proto


def document(proto, splits, fallback):
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    charsmap = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
    precompiled = {"type": "Precompiled", "precompiled_charsmap": charsmap}
    squeeze = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    strip = {"type": "Strip", "strip_left": False, "strip_right": True}
    added = [dict(id=id, content=text, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
             for id, text in enumerate(["<pad>", "</s>", "<unk>"])]
    ending = {"id": "</s>", "ids": [1], "tokens": ["</s>"]}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": precompiled if splits else {"type": "Sequence", "normalizers": [precompiled, strip, squeeze]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, space]} if splits else space,
        "post_processor": {
            "type": "TemplateProcessing", "special_tokens": {"</s>": ending},
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        },
        "decoder": space,
        "model": {
            "type": "Unigram", "unk_id": 2, "byte_fallback": fallback,
            "vocab": [[piece.piece, piece.score] for piece in proto.pieces],
        },
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    rules = sys.argv[sys.argv.index("--rules") + 1] if "--rules" in sys.argv else None
    for name, splits, fallback in (("split", True, False), ("squeezed", False, False), ("bytes", True, True)):
        made = document(model(rules, fallback), splits, fallback)
        tokenizer = Tokenizer.from_str(json.dumps(made))
        texts = [[text, tokenizer.encode(text).ids] for text in TEXTS]
        (folder / f"{name}.json").write_text(json.dumps({"tokenizer": made, "texts": texts}, indent=1) + "\n")
    # As of T5, of a model with bytes, and of Llama 2: pairs, no replacements, and spaces left as they are.
    of_llama = dict(pad_id=-1, unk_id=0, bos_id=1, eos_id=2, normalization_rule_name="identity", remove_extra_whitespaces=False)
    for name, made in (
        ("t5", model(rules, False)),
        ("bytes", model(rules, True)),
        ("llama", model("identity", True, "bpe", **of_llama, split_digits=True)),
    ):
        whole = made.SerializeToString()
        processor = sentencepiece.SentencePieceProcessor(model_proto=whole)
        # Names of tokens within a text are another matter, and tokenizers replaces no cluster of more than five bytes.
        texts = [[text, processor.encode(text)] for text in TEXTS if "<unk>" not in text and "\u1112" not in text]
        (folder / f"{name}.model").write_bytes(whole)
        (folder / f"{name}.tokens.json").write_text(json.dumps(texts, indent=1) + "\n")
