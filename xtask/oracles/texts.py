"""Draws tokenizers and texts, and compares the program's tokens with those of Hugging Face's `tokenizers`.

    texts.py PROGRAM MODEL [--seed N] [--count N] [--texts N] [--llama COMMAND]

A draw is a tokenizer.json: a model of one kind, trained on a few words, with normalizers, splitters, a decoder and added tokens that
are chosen by chance. It takes the place of that of MODEL, a small model. Texts are drawn from its vocabulary, from classes of
Unicode, from runs of white space, and from added tokens. Compared are the tokens of each text, and the text of the tokens; and those
of llama.cpp, which COMMAND writes, by default llama.py. A difference is printed with the smallest text that shows it, and with the parts of the tokenizer. The exit status is 1 if anything
differs that the program did not refuse.
"""

import argparse
import importlib.util
import json
import random
import shutil
import subprocess
import sys
import tempfile
import unicodedata
from collections import Counter
from pathlib import Path

import tokenizers
import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CORPUS = [
    "the quick brown fox jumps over the lazy dog", "The weighbridge weighs wagons, and waggons weigh 1234567 kg!", "naïve café Straße ÅNGSTRÖM ﬁne", "don't we'll I'M it's",
    "def f(x):\n    return x ** 2\t# square\n\n", "数据 模型 日本語 テキスト 한국어", "Привет мир, как дела?", "مرحبا بالعالم", "  two  spaces   three    four ", "a\r\nb\u00a0c\u3000d", "👩‍👩‍👧 🏳️‍🌈 e\u0301",
]  # fmt: skip
# Patterns of published models.
PATTERNS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "o200k": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "deepseek": r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}  # fmt: skip
BLOCK = "▁"
ROWS = 1024
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", "\u00a0", "\u2009", "\u3000", "\u2028", "\u0085", "\v", "\f", "\u200b"]
CATEGORIES = ["Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Cc", "Cf", "Co"]


def characters():
    """Characters of each category, of the first planes: those that have it in the oldest tables too, which `tokenizers` has."""
    found = {}
    for code in [*range(0x3100), *range(0x4E00, 0x4F00), *range(0xAC00, 0xAC80), *range(0xE000, 0xE010), *range(0xF900, 0x10000), *range(0x1D400, 0x1D440), *range(0x1F300, 0x1F680), *range(0x20000, 0x20020)]:
        category = unicodedata.category(chr(code))
        if category == unicodedata.ucd_3_2_0.category(chr(code)):
            found.setdefault(category, []).append(chr(code))
    return found


CHARACTERS = characters()


def of(r, chance, value):
    return value if r.random() < chance else None


def normalizer(r, kind):
    """Steps before a text is split."""
    if kind == "word_piece":
        flags = {key: r.choice([True, False]) for key in ("clean_text", "handle_chinese_chars", "lowercase")}
        return normalizers.BertNormalizer(**flags, strip_accents=r.choice([None, True, False]))
    steps = [
        of(r, 0.3, r.choice([normalizers.NFC(), normalizers.NFKC(), normalizers.NFD(), normalizers.NFKD()])),
        of(r, 0.2, normalizers.Lowercase()), of(r, 0.1, normalizers.StripAccents()), of(r, 0.1, normalizers.Strip(r.choice([True, False]), True)),
        of(r, 0.2, normalizers.Replace(*r.choice([("''", '"'), (Regex(r" {2,}"), " "), (Regex(r"\s+"), " "), ("``", '"')]))),
    ]  # fmt: skip
    if kind == "bytes_of_pieces":
        steps += [of(r, 0.7, normalizers.Prepend(BLOCK)), normalizers.Replace(" ", BLOCK)]
    return normalizers.Sequence([step for step in steps if step])


def splitter(r, kind):
    """How a text is split, and how the pieces are joined again."""
    if kind == "byte_level":
        pattern, behavior = r.choice(sorted(PATTERNS)), r.choice(["isolated", "isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"])
        steps = [of(r, 0.2, pre_tokenizers.Digits(r.choice([True, False]))), of(r, 0.1, pre_tokenizers.Punctuation(r.choice(["isolated", "contiguous", "merged_with_previous"])))]
        whole = r.random() < 0.4
        steps += [] if whole else [pre_tokenizers.Split(Regex(PATTERNS[pattern]), behavior, invert=behavior == "removed")]
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=r.choice([True, False]), use_regex=whole))
        return pre_tokenizers.Sequence([step for step in steps if step]), decoders.ByteLevel()
    if kind == "word_piece":
        return pre_tokenizers.BertPreTokenizer(), decoders.WordPiece("##", r.choice([True, False]))
    if kind == "bytes_of_pieces":
        steps = [decoders.Replace(BLOCK, " "), decoders.ByteFallback(), decoders.Fuse(), of(r, 0.7, decoders.Strip(" ", 1, 0))]
        return None, decoders.Sequence([step for step in steps if step])
    scheme = r.choice(["always", "first", "never"])
    space = pre_tokenizers.Metaspace(BLOCK, scheme, r.choice([True, False]))
    steps = [of(r, 0.3, pre_tokenizers.WhitespaceSplit()), space, of(r, 0.2, pre_tokenizers.Digits(True)), of(r, 0.1, pre_tokenizers.Punctuation())]
    return pre_tokenizers.Sequence([step for step in steps if step]), decoders.Metaspace(BLOCK, scheme)


def trained(r, kind, parts):
    """A tokenizer, trained on some words."""
    size, special = r.choice([300, 400, 500]), ["<unk>", "<s>", "</s>"]
    if kind == "unigram":
        tokenizer, trainer = Tokenizer(models.Unigram()), trainers.UnigramTrainer(vocab_size=size, unk_token="<unk>", special_tokens=special, show_progress=False)
    elif kind == "word_piece":
        tokenizer, trainer = Tokenizer(models.WordPiece(unk_token="<unk>", max_input_chars_per_word=r.choice([8, 100]))), trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False)
    else:
        alphabet = pre_tokenizers.ByteLevel.alphabet() if kind == "byte_level" else []
        bytes_too = [f"<0x{byte:02X}>" for byte in range(256)] if kind == "bytes_of_pieces" else []
        more = {"byte_fallback": True, "fuse_unk": r.choice([True, False]), "unk_token": "<unk>"} if bytes_too else {"ignore_merges": r.choice([True, False])}
        tokenizer = Tokenizer(models.BPE(**more))
        trainer = trainers.BpeTrainer(vocab_size=size + len(bytes_too), special_tokens=special + bytes_too, initial_alphabet=alphabet, show_progress=False)
    tokenizer.normalizer, (split, joined) = parts
    if split:
        tokenizer.pre_tokenizer = split
    tokenizer.decoder = joined
    tokenizer.train_from_iterator(CORPUS, trainer)
    if kind == "bytes_of_pieces":
        # Bytes are plain tokens.
        document = json.loads(tokenizer.to_str())
        document["added_tokens"] = [token for token in document["added_tokens"] if not token["content"].startswith("<0x")]
        tokenizer = Tokenizer.from_str(json.dumps(document))
    return tokenizer


def draw(r):
    """A tokenizer of some kind, and the names of its added tokens."""
    kind = r.choice(["byte_level", "byte_level", "bytes_of_pieces", "unigram", "word_piece"])
    tokenizer = trained(r, kind, (normalizer(r, kind), splitter(r, kind)))
    for name in ("<|turn|>", "[MASK]", "weigh", "  "):
        if r.random() < 0.5:
            flags = {key: r.random() < 0.25 for key in ("lstrip", "rstrip", "single_word")}
            special = r.choice([True, False])
            (tokenizer.add_special_tokens if special else tokenizer.add_tokens)([AddedToken(name, normalized=r.choice([True, False]), special=special, **flags)])
    if r.random() < 0.5:
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>" if r.random() < 0.5 else "<s> $A", special_tokens=[("<s>", 1), ("</s>", 2)])
    return kind, tokenizer


def text(r, tokenizer, pieces):
    """A text of several sources."""
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    parts = []
    for _ in range(r.randint(1, 8)):
        source = r.random()
        if source < 0.35:
            parts.append(r.choice(pieces))
        elif source < 0.5:
            parts.append(r.choice(CORPUS).split(" ")[0] if r.random() < 0.5 else r.choice(CORPUS))
        elif source < 0.65:
            parts.append("".join(r.choice(SPACES) for _ in range(r.randint(1, 3))))
        elif source < 0.8:
            parts.append(r.choice(added))
        else:
            parts.append("".join(r.choice(CHARACTERS[r.choice(CATEGORIES)]) for _ in range(r.randint(1, 4))))
        parts.append(r.choice(["", " "]))
    return "".join(parts).replace("\0", "")


def spelled(tokenizer):
    """The same tokenizer with added tokens that decode to what they are. Since 0.23, `tokenizers` gives what the normalizer makes of those
    that it finds in normalized text, and does not know such a text as that of a special token."""
    document = json.loads(tokenizer.to_str())
    for token in document["added_tokens"]:
        token["normalized"] = False
    return Tokenizer.from_str(json.dumps(document))


def encoded(tokenizer, text):
    """The tokens of a text; nothing of one at which `tokenizers` aborts."""
    try:
        return tokenizer.encode(text).ids
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        return None


class Program:
    """The tokens of the program, for one tokenizer."""

    def __init__(self, program, model, tokenizer):
        self.program, self.folder = program, Path(tempfile.mkdtemp())
        # Every token has a row.
        tensors = load_file(Path(model) / "model.safetensors")
        for name in [name for name in tensors if "embed_tokens" in name or "lm_head" in name]:
            tensors[name] = torch.zeros(ROWS, tensors[name].shape[1])
        save_file(tensors, self.folder / "model.safetensors", {"format": "pt"})
        config = json.loads((Path(model) / "config.json").read_text())
        (self.folder / "config.json").write_text(json.dumps(config | {"vocab_size": ROWS}))
        tokenizer.save(str(self.folder / "tokenizer.json"))

    def run(self, option, values):
        """A list for each value, or what was said."""
        words = [word for value in values for word in (f"{option}={value}",)]
        done = subprocess.run([self.program, "run", "tokens", str(self.folder), "--json", *words], capture_output=True, text=True, timeout=120)
        if done.returncode:
            return done.stderr.strip().splitlines()[0] if done.stderr.strip() else f"status {done.returncode}"
        return json.loads(done.stdout)["texts"]

    def llama_cpp(self, command, texts, expected):
        """What llama.cpp makes of the tokenizer in GGUF, and the first difference that the program does not tell of."""
        file, given, out = (self.folder / name for name in ("model.gguf", "texts.json", "tokens.json"))
        made = subprocess.run([self.program, "convert", self.folder, file], capture_output=True, text=True, timeout=120)
        if made.returncode:
            return "refused", []
        given.write_text(json.dumps(texts))
        if subprocess.run([*command.split(), file, given, out], capture_output=True, timeout=300).returncode:
            return "wrong", ["llama.cpp does not load it"]
        rows = zip(texts, json.loads(out.read_text()), expected)
        differences = [f"llama.cpp: {one!r}: {got}, but {ids}" for one, got, ids in rows if got != ids]
        told = "llama.cpp" in made.stderr
        return ("told", []) if differences and told else ("wrong" if differences else "right", differences[:1])

    def close(self):
        shutil.rmtree(self.folder)


def smallest(differs, text):
    """The text without the characters that the difference does not need."""
    step = max(len(text) // 2, 1)
    while step:
        start = 0
        while start < len(text):
            less = text[:start] + text[start + step :]
            if less and differs(less):
                text = less
            else:
                start += step
        step //= 2
    return text


def compared(options, number):
    """What a drawn tokenizer shows: right, refused, or the differences."""
    r = random.Random(f"{options.seed} {number}")
    kind, tokenizer = draw(r)
    pieces = [piece for piece in tokenizer.get_vocab() if piece]
    texts = [drawn for drawn in (text(r, tokenizer, pieces) for _ in range(options.texts)) if drawn and encoded(tokenizer, drawn) is not None]
    ours = Program(options.program, options.model, tokenizer)
    try:
        found = ours.run("--text", texts)
        if isinstance(found, str):
            return kind, "refused", [found]

        def wrong(one):
            each = ours.run("--text", [one])
            return isinstance(each, str) or encoded(tokenizer, one) not in (None, [token["id"] for token in each[0]["tokens"]])

        differences = []
        for drawn, row in zip(texts, found):
            if [token["id"] for token in row["tokens"]] != tokenizer.encode(drawn).ids:
                least = smallest(wrong, drawn)
                got = ours.run("--text", [least])
                got = got if isinstance(got, str) else [token["id"] for token in got[0]["tokens"]]
                differences.append(f"{least!r}: {got}, but {tokenizer.encode(least).ids} {tokenizer.encode(least).tokens}")
        ids = [[r.randrange(tokenizer.get_vocab_size()) for _ in range(r.randint(1, 12))] for _ in range(4)]
        ids += [tokenizer.encode(drawn).ids for drawn in texts[:4]]
        decoder = spelled(tokenizer)
        for tokens in filter(None, ids):
            back = ours.run("--ids", [",".join(map(str, tokens))])
            expected = decoder.decode(tokens, skip_special_tokens=True)
            if isinstance(back, str) or back[0]["text"] != expected:
                differences.append(f"{tokens} {[tokenizer.id_to_token(token) for token in tokens]}: {back if isinstance(back, str) else back[0]['text']!r}, but {expected!r}")
        result = "wrong" if differences else "right"
        if options.llama:
            each, more = ours.llama_cpp(options.llama, texts, [tokenizer.encode(drawn).ids for drawn in texts])
            return kind, f"{result}, llama.cpp {each}", [*more, *differences]
        return kind, result, differences
    finally:
        ours.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--texts", type=int, default=40)
    own = f"{sys.executable} {Path(__file__).with_name('llama.py')}" if importlib.util.find_spec("llama_cpp") else None
    parser.add_argument("--llama", default=own, help="a command that is given a GGUF file, a .json file with texts and one to write their tokens to")
    options = parser.parse_args()
    print(f"seed {options.seed}, {options.count} tokenizers, {options.texts} texts each, tokenizers {tokenizers.__version__}")
    totals = Counter()
    for number in range(options.count):
        kind, result, lines = compared(options, number)
        totals[kind, result] += 1
        for line in lines[:3]:
            print(f"{number} {kind} {result} {line[:300]}", flush=True)
    for (kind, result), count in sorted(totals.items()):
        print(f"{kind:<16} {result:<8} {count}")
    sys.exit(1 if any("wrong" in result for _, result in totals) else 0)


if __name__ == "__main__":
    main()
