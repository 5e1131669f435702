"""Makes small tokenizers of each kind, and the texts that Hugging Face's `tokenizers` decodes random tokens to.

    decoders.py FILE [SEED] [COUNT]

FILE is `{"tokenizers": version, "cases": [{"name", "tokenizer": the tokenizer.json, "texts": [[tokens, text], ...]}, ...]}`. Special tokens are
skipped. `tests/data/decoders.json` is what the tests compare with.
"""

import json
import random
import sys

import tokenizers
from tokenizers import AddedToken, Tokenizer, decoders, models

BLOCK = "\u2581"
WORDS = ["the", "truck", "on", "a", "bridge", ".", ",", "'s", "n't", "do not", "日本", "é", "🙂", "<", "0x41", "!"]
# Bytes of characters of two to four bytes, and some that are no UTF-8.
SOME_BYTES = [f"<0x{byte:02X}>" for byte in [0x41, 0x0A, 0xC3, 0xA9, 0xE6, 0x97, 0xA5, 0xF0, 0x9F, 0x99, 0x82, 0xFF, 0x80]]


def letters():
    """GPT-2's letters, by byte."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {**{byte: chr(byte) for byte in visible}, **{byte: chr(256 + at) for at, byte in enumerate(hidden)}}


def spelled(text):
    return "".join(letters()[byte] for byte in text.encode())


def numbered(words):
    return {word: at for at, word in enumerate(dict.fromkeys(words))}


def pieces():
    return ["<unk>", "<s>", "</s>", *SOME_BYTES, BLOCK, BLOCK * 2, BLOCK * 4, *WORDS, *(BLOCK + word for word in WORDS), "\n"]


def bpe(words, decoder, **more):
    tokenizer = Tokenizer(models.BPE(vocab=numbered(words), merges=[], **more))
    tokenizer.decoder = decoder
    return tokenizer


def blocks(*more):
    return decoders.Sequence([decoders.Replace(BLOCK, " "), decoders.ByteFallback(), decoders.Fuse(), *more])


def cases():
    fallback = dict(unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    special = ["<unk>", "<s>", "</s>"]
    user = [AddedToken("<turn>"), AddedToken("two  spaces"), AddedToken(BLOCK * 3)]
    yield "llama", bpe(pieces(), blocks(decoders.Strip(" ", 1, 0)), **fallback), special, user
    yield "gemma", bpe(pieces(), blocks(), **fallback), special, user
    yield "strip-both", bpe(pieces(), blocks(decoders.Strip(" ", 2, 1)), **fallback), special, user
    unigram = lambda: Tokenizer(models.Unigram([(word, -1.0) for word in numbered(pieces())], 0, False))
    for scheme in ["always", "first", "never"]:
        tokenizer = unigram()
        tokenizer.decoder = decoders.Metaspace(BLOCK, scheme)
        yield f"metaspace-{scheme}", tokenizer, special, user
    tokenizer = unigram()
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(BLOCK, "always")])
    yield "metaspace-and-bytes", tokenizer, special, user
    byte_level = [*letters().values(), *map(spelled, [*WORDS, " the", " truck", "\n\n", "  ", "🙂", "\u200d"]), "<|end|>", "山 "]
    yield "byte-level", bpe(byte_level, decoders.ByteLevel()), ["<|end|>"], [AddedToken("<|turn|>"), AddedToken("two  spaces")]
    word_piece = ["[UNK]", "[CLS]", "[SEP]", *WORDS, *("##" + word for word in WORDS), "##", "'", "##ing"]
    for cleanup in [True, False]:
        tokenizer = Tokenizer(models.WordPiece(numbered(word_piece), unk_token="[UNK]"))
        tokenizer.decoder = decoders.WordPiece("##", cleanup)
        yield f"word-piece-{cleanup}".lower(), tokenizer, ["[UNK]", "[CLS]", "[SEP]"], [AddedToken("<turn>")]
    yield "suffix", bpe([*WORDS, *(word + "</w>" for word in WORDS), "<s>"], decoders.BPEDecoder("</w>")), ["<s>"], []
    yield "ctc", bpe([*WORDS, "<pad>", "|", "a", "b"], decoders.CTC("<pad>", "|", True)), [], []
    yield "none", Tokenizer(models.BPE(vocab=numbered([*WORDS, "<s>"]), merges=[])), ["<s>"], []


def main():
    path, seed, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1, int(sys.argv[3]) if len(sys.argv) > 3 else 10
    chance = random.Random(seed)
    found = []
    for name, tokenizer, special, user in cases():
        tokenizer.add_special_tokens(special)
        tokenizer.add_tokens(user)
        size = tokenizer.get_vocab_size()
        byte_tokens = [tokenizer.token_to_id(byte) for byte in SOME_BYTES]
        texts = []
        for number in range(count):
            tokens = [chance.randrange(size) for _ in range(chance.randrange(1, 16))]
            # The bytes of "é", "日" and an emoji, and half of one.
            if None not in byte_tokens and number % 3 == 0:
                for start, end in chance.sample([(2, 4), (4, 7), (7, 11), (7, 9)], 2):
                    at = chance.randrange(len(tokens) + 1)
                    tokens[at:at] = byte_tokens[start:end]
            try:
                texts.append([tokens, tokenizer.decode(tokens, skip_special_tokens=True)])
            except BaseException as error:
                # `Strip` of tokenizers 0.23.3 panics if it removes more characters than there are.
                if type(error).__name__ != "PanicException":
                    raise
        found.append({"name": name, "tokenizer": json.loads(tokenizer.to_str()), "texts": texts})
    document = {"tokenizers": tokenizers.__version__, "cases": found}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")


main()
