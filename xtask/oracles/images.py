"""Makes tiny models with images by transformers' classes, and checks what weighbridge makes of them.

    images.py FOLDER PROGRAM [--match REGEX]

Each model is a directory FOLDER/NAME with config.json, model.safetensors (F32, names as published), the documents of an image
processor and logits.safetensors: tokens and the logits that the class computes without an image. The weights mean nothing.

- `convert --to gguf`: llama.cpp computes the same logits from the language model, and a note names the second file;
- `convert --mmproj`: llama.cpp's libmtmd loads the file beside it;
- `convert --to safetensors` and `--to mlx`: the vision model is in the directory, byte for byte; transformers finds every tensor
  of its class in what comes back from MLX.

identical.py compares the GGUF files with those of llama.cpp's converter. A conversion that is refused must name mmproj. The exit
status is 1 if anything is wrong.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import AutoConfig, AutoModelForImageTextToText, logging  # noqa: E402

logging.set_verbosity_error()
logging.disable_progress_bar()
torch.set_num_threads(1)

TEXT = dict(
    vocab_size=320, hidden_size=128, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, intermediate_size=192,
    max_position_embeddings=256, head_dim=32, bos_token_id=0, eos_token_id=1, pad_token_id=None, tie_word_embeddings=False,
)
VISION = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=2, image_size=56, patch_size=14)
# llama.cpp gives pairs of interleaved sections beyond three times the first one the position 0.
SECTIONS = dict(rope_type="default", rope_theta=10000.0, mrope_section=[6, 5, 5])
# GLM rotates half of a head.
HALF = dict(SECTIONS, mrope_section=[3, 3, 2], partial_rotary_factor=0.5)
TOKENS = dict(image_token_id=310, video_token_id=309, vision_start_token_id=308, vision_end_token_id=307)
PIXTRAL = dict(VISION, model_type="pixtral", head_dim=32)
DEEP = dict(
    depth=3, hidden_size=64, intermediate_size=96, num_heads=2, out_hidden_size=128, patch_size=16, num_position_embeddings=16,
    deepstack_visual_indexes=[0, 2],
)
LINEAR = dict(
    num_hidden_layers=4, linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=32, linear_value_head_dim=32,
)
CLIP = dict(VISION, model_type="clip_vision_model", projection_dim=64)

# The name, the model_type, numbers of the language model, of the vision model, and at the top.
MODELS = {
    "gemma3": ("gemma3", dict(TEXT, model_type="gemma3_text", query_pre_attn_scalar=32, sliding_window=16, tie_word_embeddings=True),
        dict(VISION, model_type="siglip_vision_model", vision_use_head=False), dict(mm_tokens_per_image=4, tie_word_embeddings=True)),
    "mistral3": ("mistral3", dict(TEXT, model_type="mistral", sliding_window=None), PIXTRAL, dict(image_token_index=310, spatial_merge_size=2)),
    "llava-pixtral": ("llava", dict(TEXT, model_type="mistral", sliding_window=None), PIXTRAL,
        dict(image_token_index=310, vision_feature_layer=-1, vision_feature_select_strategy="full")),
    "llava-clip": ("llava", dict(TEXT, model_type="llama"), CLIP, dict(image_token_index=310)),
    "qwen2_vl": ("qwen2_vl", dict(TEXT, rope_parameters=SECTIONS), dict(depth=3, embed_dim=64, hidden_size=128, num_heads=2, mlp_ratio=2), TOKENS),
    "qwen2_5_vl": ("qwen2_5_vl", dict(TEXT, rope_parameters=SECTIONS),
        dict(depth=4, hidden_size=64, intermediate_size=96, num_heads=2, out_hidden_size=128, fullatt_block_indexes=[1, 3], window_size=56), TOKENS),
    "qwen3_vl": ("qwen3_vl", dict(TEXT, rope_parameters=dict(SECTIONS, mrope_interleaved=True)), DEEP, TOKENS),
    "qwen3_5": ("qwen3_5", dict(TEXT, **LINEAR), dict(DEEP, deepstack_visual_indexes=[]), TOKENS),
    "smolvlm": ("smolvlm", dict(TEXT, model_type="llama"), dict(VISION, model_type="smolvlm_vision"), dict(image_token_id=310, scale_factor=2)),
    "gemma4": ("gemma4", dict(TEXT, pad_token_id=0, vocab_size_per_layer_input=320), dict(VISION, head_dim=32, num_key_value_heads=2, patch_size=4, position_embedding_size=16),
        dict(audio_config=dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=2, output_proj_dims=48))),
    "internvl": ("internvl", dict(TEXT, model_type="qwen2"), dict(VISION, image_size=[56, 56], patch_size=[14, 14]), dict(image_token_id=310)),
    "glm4v": ("glm4v", dict(TEXT, pad_token_id=0, rope_parameters=HALF), dict(depth=3, hidden_size=64, intermediate_size=96, num_heads=2, out_hidden_size=128, image_size=56), TOKENS),
    "glm_ocr": ("glm_ocr", dict(TEXT, pad_token_id=0, rope_parameters=HALF), dict(depth=3, hidden_size=64, intermediate_size=96, num_heads=2, out_hidden_size=128, image_size=56), TOKENS),
    "lfm2_vl": ("lfm2_vl", dict(TEXT, block_ff_dim=192, layer_types=["conv", "full_attention", "conv"]),
        dict(VISION, model_type="siglip2_vision_model", patch_size=16, num_patches=16, vision_use_head=False), dict(projector_hidden_size=80, image_token_id=310)),
    # llama.cpp aborts if every layer of Llama 4 rotates; the fourth does not.
    "llama4": ("llama4", dict(TEXT, num_hidden_layers=4, intermediate_size_mlp=192, num_local_experts=2), dict(VISION, intermediate_size=256,
        projector_input_dim=64, projector_output_dim=64, vision_output_dim=64), dict(image_token_index=310)),
}

# What the published files of a model have instead of the start of a name that transformers 5 saves.
PUBLISHED = {
    "gemma3": [("vision_tower.", "vision_tower.vision_model.")],
    "lfm2_vl": [("model.vision_tower.", "model.vision_tower.vision_model.")],
}


def fill(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if weight.dim() > 1:
                weight.copy_(noise * weight[0].numel() ** -0.5)
            elif name.endswith("bias"):
                weight.copy_(noise * 0.1)
            elif "A_log" not in name:
                weight.add_(noise * 0.1)


def logits_of(model, tokens):
    # Llama 4's class of transformers 5.24 fails without images; the language model in it computes the same.
    run = model.language_model if model.config.model_type == "llama4" else model
    with torch.no_grad():
        return run(input_ids=tokens[None], use_cache=False).logits[0]


def make(name, folder):
    model_type, text, vision, outer = MODELS[name]
    seed = sum(map(ord, name))
    torch.manual_seed(seed)
    config = AutoConfig.for_model(model_type, text_config=text, vision_config=vision, **outer)
    model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    fill(model, seed)
    tokens = torch.randint(3, 300, (40,), generator=torch.Generator().manual_seed(seed))
    logits = logits_of(model, tokens).float()
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    arrays = load_file(folder / "model.safetensors")
    for start, instead in PUBLISHED.get(name, []):
        arrays = {instead + key[len(start) :] if key.startswith(start) else key: array for key, array in arrays.items()}
    save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})
    save_file({"tokens": tokens, "logits": logits.contiguous()}, folder / "logits.safetensors")
    processor = {"image_mean": [0.5, 0.25, 0.125], "image_std": [0.5, 0.75, 0.625], "size": {"longest_edge": 112}}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    (folder / "processor_config.json").write_text(json.dumps({"image_seq_length": 4}))
    if "pixtral" in name or name == "mistral3":
        known = {"added_tokens_decoder": {"305": {"content": "[IMG_BREAK]", "special": True}}}
        (folder / "tokenizer_config.json").write_text(json.dumps(known))


FAULTS = []


def said(ok, what, why=""):
    if not ok:
        FAULTS.append(what)
    print(f"{'ok' if ok else 'FAIL'} {what}{': ' + str(why)[:300] if why else ''}", flush=True)


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    return done.returncode, (done.stderr + done.stdout).strip()


CHILD = """
import ctypes, sys, numpy as np, llama_cpp as L
file, projector, ids, out = sys.argv[1:]
ids = [int(i) for i in ids.split(",")]
m = L.Llama(file, n_ctx=256, logits_all=True, verbose=True, n_threads=1, type_k=0, type_v=0, flash_attn=False)
m.eval(ids)
np.save(out, np.array(m.scores[: len(ids)]))
if projector:
    from llama_cpp import mtmd_cpp as M
    params = M.mtmd_context_params_default()
    params.use_gpu, params.n_threads, params.warmup = False, 1, True
    context = M.mtmd_init_from_file(projector.encode(), m.model, params)
    print("LOADED" if context and M.mtmd_support_vision(context) else "NOT LOADED")
"""


def by_llama(program, file, projector, expected, folder):
    """The logits, and whether libmtmd loads the second file."""
    architecture = run(program, "meta", "get", file, "general.architecture")[1].split()[-1].strip('"')
    # The models have no tokenizer, which llama.cpp must be told.
    for setting in ("tokenizer.ggml.model=str:no_vocab", f"{architecture}.vocab_size=u32:{expected['logits'].shape[1]}"):
        run(program, "meta", "set", file, setting, "--force")
    out = folder / "logits.npy"
    out.unlink(missing_ok=True)
    ids = ",".join(str(int(token)) for token in expected["tokens"])
    status, words = run(sys.executable, "-c", CHILD, file, projector or "", ids, out)
    if not out.exists():
        lines = [line for line in words.splitlines() if re.search("error|assert|abort|fail", line)]
        return None, lines[0] if lines else f"status {status}"
    logits = expected["logits"].numpy()
    difference = float(np.abs(np.load(out) - logits).max() / logits.std())
    lines = [line for line in words.splitlines() if re.search("error|ASSERT|fail|unable", line) and "warmup" not in line]
    # For some kinds, libmtmd looks for tokens in the vocabulary, which these models do not have.
    if "LLAMA_VOCAB_TYPE_NONE" in words:
        return difference, "needs a vocabulary"
    return difference, "LOADED" if "\nLOADED" in words else lines[-1] if lines else f"status {status}"


def arrays_of(folder):
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        if path.name != "logits.safetensors":
            found.update(load_file(path))
    return found


def towers(folder):
    words = ("vision", "visual", "projector", "connector")
    return {key: array for key, array in arrays_of(folder).items() if any(word in key for word in words)}


def check(name, folder, program):
    expected = load_file(folder / "logits.safetensors")
    with tempfile.TemporaryDirectory() as room:
        room = Path(room)
        source, file, projector = room / "hf", room / "model.gguf", room / "mmproj.gguf"
        source.mkdir()
        for path in folder.iterdir():
            if path.name != "logits.safetensors":
                (source / path.name).symlink_to(path.resolve())
        status, words = run(program, "convert", source, projector, "--mmproj")
        written = status == 0
        said(written or (status == 4 and "mmproj" in words), f"{name} mmproj", "" if written else words)
        status, words = run(program, "convert", source, file)
        said(status == 0 and "mmproj" in words, f"{name} gguf", "" if status == 0 else words)
        if status == 0:
            difference, loaded = by_llama(program, file, projector if written else None, expected, room)
            said(difference is not None and difference <= 2e-2, f"{name} logits by llama.cpp", difference or loaded)
            if written:
                said(loaded in ("LOADED", "needs a vocabulary"), f"{name} mmproj by llama.cpp", loaded)
        theirs = towers(source)
        for container in ("safetensors", "mlx"):
            target = room / container
            status, words = run(program, "convert", source, target, "--to", container)
            if status:
                said(status == 4, f"{name} {container}", words)
                continue
            ours = {key.removeprefix("model."): array for key, array in towers(target).items()}
            same = all(torch.equal(ours[key.removeprefix("model.")], array) for key, array in theirs.items() if key.removeprefix("model.") in ours)
            said(same and len(ours) == len(theirs), f"{name} {container}", f"{len(theirs)} tensors of the vision model, {len(ours)} written")
            said((target / "preprocessor_config.json").exists(), f"{name} {container} documents")
        back = room / "back"
        if (room / "mlx").exists():
            status, words = run(program, "convert", room / "mlx", back, "--to", "safetensors")
            if status:
                return said(status == 4, f"{name} back from mlx", words)
            model, info = AutoModelForImageTextToText.from_pretrained(
                back, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
            )
            logits = logits_of(model.eval(), expected["tokens"])
            difference = float((logits - expected["logits"]).abs().max() / expected["logits"].std())
            missing = [key for key in info["missing_keys"] if "lm_head" not in key]
            said(difference < 2e-3 and not missing, f"{name} back from mlx", f"{difference:.1e} {missing[:3]}")


parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("program", type=Path)
parser.add_argument("--match", default="")
options = parser.parse_args()
for name in MODELS:
    if re.search(options.match, name):
        folder = options.folder / name
        if not (folder / "logits.safetensors").exists():
            make(name, folder)
        check(name, folder, options.program.resolve())
print(f"{len(FAULTS)} faults")
sys.exit(1 if FAULTS else 0)
