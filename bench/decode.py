"""Tokens a second of `run generate` beside llama.cpp, on a model of 1.24 billion random weights and the shape of Llama 3.2 1B.

    decode.py WEIGHBRIDGE FOLDER [--types Q8_0,Q4_K_M | --models FILE,…] [--threads 2] [--rounds 3] [--prompt 256] [--tokens 16]

FOLDER gets the model (2.5 GB, made once) and its quantizations; --models names GGUF files instead. llama.cpp is run through the
Python packages xllamacpp (built for AVX2) and llama_cpp (of llama-cpp-python, if pip built it from source, for this processor),
in the interpreters of XLLAMACPP and LLAMA_CPP, by default this one; what is not installed is left out. Making the model needs
numpy, gguf and ml_dtypes. Each round runs all cases in turn, and medians are printed. "Start" is from opening the file to the
first token of a short text. Peak memory is that of the process; of llama.cpp's, Python is a part.
"""

import argparse
import json
import math
import os
import re
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path

DIM, LAYERS, NETWORK, HEADS, KEYS, VOCABULARY = 2048, 16, 8192, 32, 8, 128256


def shapes():
    yield "model.embed_tokens.weight", (VOCABULARY, DIM)
    yield "model.norm.weight", (DIM,)
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        for name, rows, columns in [
            ("self_attn.q_proj", DIM, DIM), ("self_attn.k_proj", KEYS * 64, DIM), ("self_attn.v_proj", KEYS * 64, DIM),
            ("self_attn.o_proj", DIM, DIM), ("mlp.gate_proj", NETWORK, DIM), ("mlp.up_proj", NETWORK, DIM),
            ("mlp.down_proj", DIM, NETWORK),
        ]:
            yield f"{at}{name}.weight", (rows, columns)
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{at}{name}.weight", (DIM,)


def make(folder):
    import ml_dtypes
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    header, end = {}, 0
    for name, shape in shapes():
        start, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    random = np.random.default_rng(1)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, shape in shapes():
            values = random.standard_normal(shape, np.float32) * 0.02 if len(shape) == 2 else np.ones(shape, np.float32)
            file.write(values.astype(ml_dtypes.bfloat16).tobytes())
    config = dict(
        architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=DIM, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=KEYS, head_dim=64, intermediate_size=NETWORK, vocab_size=VOCABULARY,
        rms_norm_eps=1e-5, rope_theta=500000.0, max_position_embeddings=8192, tie_word_embeddings=True, hidden_act="silu",
        torch_dtype="bfloat16", bos_token_id=1, eos_token_id=2,
    )
    (folder / "config.json").write_text(json.dumps(config))


def with_tokenizer(source, target):
    """llama.cpp loads no model without a tokenizer."""
    import gguf

    reader, writer = gguf.GGUFReader(source), gguf.GGUFWriter(target, "llama")
    for field in reader.fields.values():
        if field.name.startswith(("GGUF.", "tokenizer.")) or field.name == "general.architecture":
            continue
        if field.types[0] == gguf.GGUFValueType.ARRAY:
            writer.add_array(field.name, field.contents())
        else:
            writer.add_key_value(field.name, field.contents(), field.types[0])
    words = [f"▁w{number}" for number in range(VOCABULARY - 259)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] + words)
    writer.add_token_scores([0.0] * 259 + [-float(number) for number in range(len(words))])
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * len(words))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def ours(options, path, _):
    """Tokens a second of the prompt and of the answer, seconds to the first token of a text, and the peak of memory in MiB."""
    environment = dict(os.environ, RAYON_NUM_THREADS=str(options.threads))

    def generated(*words):
        command = [options.weighbridge, "run", "generate", str(path), *words, "--ignore-eos"]
        begin = time.time()
        ran = subprocess.run(command, capture_output=True, check=True, env=environment)
        return ran.stderr.decode().splitlines()[-1], time.time() - begin

    start = generated("--prompt", "Hi", "--max-tokens", "1")[1]
    ids = ",".join(str(300 + number) for number in range(options.prompt))
    note = generated("--ids", ids, "--max-tokens", str(options.tokens + 1))[0]
    first = float(re.search(r"first token after ([\d.]+) s", note)[1])
    peak, unit = re.search(r"peak memory ([\d.]+) (MiB|GiB)", note).groups()
    rate = float(re.search(r"at ([\d.]+) a second", note)[1])
    return options.prompt / first, rate, start, float(peak) * (1024 if unit == "GiB" else 1)


SERVER = """
import json, resource, sys, time, xllamacpp
path, threads, prompt, tokens = sys.argv[1], *map(int, sys.argv[2:])
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel, params.warmup = path, 1024, 1, False
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
begin = time.time()
server = xllamacpp.Server(params)
answer = lambda prompt, tokens: server.handle_completions({"prompt": prompt, "n_predict": tokens, "temperature": 0, "ignore_eos": True, "cache_prompt": False})["timings"]
answer("Hi", 1)
start = time.time() - begin
for _ in range(2):
    timings = answer(list(range(300, 300 + prompt)), tokens + 1)
print(json.dumps([timings["prompt_per_second"], timings["predicted_per_second"], start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""

LIBRARY = """
import json, resource, sys, time, llama_cpp, numpy
path, threads, prompt, tokens = sys.argv[1], *map(int, sys.argv[2:])
begin = time.time()
llama = llama_cpp.Llama(path, n_ctx=1024, n_threads=threads, n_threads_batch=threads, verbose=False)
llama.eval(llama.tokenize(b"Hi"))
start = time.time() - begin
for _ in range(2):
    llama.reset()
    begin = time.time()
    llama.eval(list(range(300, 300 + prompt)))
    between = time.time()
    for _ in range(tokens):
        logits = numpy.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(llama.ctx, -1), (llama.n_vocab(),))
        llama.eval([int(logits.argmax())])
    rates = [prompt / (between - begin), tokens / (time.time() - between)]
print(json.dumps([*rates, start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""

PEERS = {"llama.cpp for AVX2": ("XLLAMACPP", "xllamacpp", SERVER), "llama.cpp for this processor": ("LLAMA_CPP", "llama_cpp", LIBRARY)}


def theirs(options, path, peer):
    variable, _, script = PEERS[peer]
    words = [str(path), *map(str, (options.threads, options.prompt, options.tokens))]
    ran = subprocess.run([os.environ.get(variable, sys.executable), "-c", script, *words], capture_output=True, check=True)
    return json.loads(ran.stdout.splitlines()[-1])


def there(peer):
    variable, module, _ = PEERS[peer]
    return subprocess.run([os.environ.get(variable, sys.executable), "-c", f"import {module}"], capture_output=True).returncode == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weighbridge")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--types", default="Q8_0,Q4_K_M")
    parser.add_argument("--models")
    for name, usual in (("threads", 2), ("rounds", 3), ("prompt", 256), ("tokens", 16)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    options = parser.parse_args()
    models = [Path(path) for path in options.models.split(",")] if options.models else list(made(options))
    peers = [peer for peer in PEERS if there(peer)]
    cases = {f"{path.stem}, {name}": (run, path, name) for path in models for name, run in [("ours", ours), *((peer, theirs) for peer in peers)]}
    found = {name: [] for name in cases}
    for _ in range(options.rounds):
        for name, (run, path, peer) in cases.items():
            found[name].append(run(options, path, peer))
            time.sleep(1)
    for name, runs in found.items():
        prompt, answer, start, peak = [statistics.median(values) for values in zip(*runs)]
        size = cases[name][1].stat().st_size / 2**20
        print(f"{name}: prompt {prompt:.1f}, answer {answer:.2f} tokens a second, start {start:.2f} s, peak memory {peak:.0f} MiB, file {size:.0f} MiB")


def made(options):
    """Files of the types, of a model that is made once."""
    if not (options.folder / "model/config.json").exists():
        make(options.folder / "model")
    for name in options.types.split(","):
        path = options.folder / f"{name}.gguf"
        if not path.exists():
            plain = options.folder / f"{name}-plain.gguf"
            subprocess.run([options.weighbridge, "quantize", str(options.folder / "model"), str(plain), "--type", name], check=True, capture_output=True)
            with_tokenizer(plain, path)
            plain.unlink()
        yield path


if __name__ == "__main__":
    main()
