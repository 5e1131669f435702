"""Writes tests/fixtures/lora: small models, LoRA adapters, and what peft makes of both.

Needs torch, transformers, peft, safetensors, numpy and gguf. Run it in the root of the repository:

    python3 xtask/oracles/lora.py [CASE...]

Each case is a folder with `base` (a checkpoint), `adapter` (as peft saves it) and
`merged.safetensors`: the tensors that `merge_and_unload` changes. `llama/adapter.gguf` is the same
adapter in the form of llama.cpp's convert_lora_to_gguf.py.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, GPT2Config, GptOssConfig, LlamaConfig, Qwen3MoeConfig

OUT = Path("tests/fixtures/lora")

LLAMA = dict(
    vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
    tie_word_embeddings=False,
)
GPT2 = dict(vocab_size=24, n_embd=16, n_layer=1, n_head=2, n_positions=8)
EXPERTS = dict(
    vocab_size=24, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, head_dim=8,
    num_experts_per_tok=2, max_position_embeddings=64, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=0,
)
# Both are wrappers of one module, of which PEFT saves no name.
PARAMETERS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]

CASES = {
    "llama": (LlamaConfig(**LLAMA), torch.bfloat16, LoraConfig(
        r=4, lora_alpha=6,
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "down_proj", "embed_tokens", "lm_head"],
        rank_pattern={"k_proj": 2}, alpha_pattern={"down_proj": 3, r".*\.1\.self_attn\.q_proj": 5},
    )),
    "llama-rslora": (LlamaConfig(**LLAMA), torch.float32, LoraConfig(
        r=3, lora_alpha=5, use_rslora=True, target_modules=["q_proj", "up_proj"],
    )),
    "gpt2": (GPT2Config(**GPT2), torch.float32, LoraConfig(
        r=4, lora_alpha=9, fan_in_fan_out=True, target_modules=["c_attn", "c_proj", "c_fc"],
    )),
    "qwen3moe": (Qwen3MoeConfig(intermediate_size=16, moe_intermediate_size=12, num_experts=3, **EXPERTS), torch.float32, LoraConfig(
        r=2, lora_alpha=4, target_modules=["q_proj"], target_parameters=PARAMETERS,
    )),
    # The experts of this class have their inputs first.
    "gpt-oss": (GptOssConfig(intermediate_size=16, num_local_experts=3, layer_types=["full_attention"], **EXPERTS), torch.float32, LoraConfig(
        r=2, lora_alpha=4, target_modules=["q_proj"], target_parameters=PARAMETERS,
    )),
}


def main():
    torch.manual_seed(15)
    for name in sys.argv[1:] or CASES:
        config, dtype, lora = CASES[name]
        folder = OUT / name
        shutil.rmtree(folder, ignore_errors=True)
        base = AutoModelForCausalLM.from_config(config, dtype=dtype)
        base.save_pretrained(folder / "base")
        with_adapter = get_peft_model(base, lora)
        for parameter_name, parameter in with_adapter.named_parameters():
            if "lora_" in parameter_name:
                torch.nn.init.normal_(parameter, std=0.2)
                if lora.target_parameters:
                    # PEFT adds the products of experts in another order: the sums of these are exact in any.
                    parameter.data = (parameter.data * 64).round() / 64
        with_adapter.save_pretrained(folder / "adapter")
        (folder / "adapter/README.md").unlink(missing_ok=True)
        base = AutoModelForCausalLM.from_pretrained(folder / "base", dtype=dtype)
        merged = PeftModel.from_pretrained(base, folder / "adapter").merge_and_unload()
        with tempfile.TemporaryDirectory() as temporary:
            merged.save_pretrained(temporary)
            after = load_file(Path(temporary) / "model.safetensors")
        before = load_file(folder / "base/model.safetensors")
        changed = {k: v.contiguous() for k, v in after.items() if not torch.equal(v, before[k])}
        save_file(changed, folder / "merged.safetensors")
        print(name, len(changed), "tensors changed", file=sys.stderr)
        if name == "llama":
            to_gguf(folder)
    for file in OUT.rglob("generation_config.json"):
        file.unlink()


def to_gguf(folder):
    """Writes the adapter as convert_lora_to_gguf.py does: rows of q and k in pairs."""
    names = {
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.down_proj": "ffn_down",
    }
    heads = {"attn_q": LLAMA["num_attention_heads"], "attn_k": LLAMA["num_key_value_heads"]}
    writer = gguf.GGUFWriter(folder / "adapter.gguf", "llama")
    writer.add_string("general.type", "adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", 6.0)
    for name, tensor in sorted(load_file(folder / "adapter/adapter_model.safetensors").items()):
        module, mark, matrix = name.removeprefix("base_model.model.").partition(".lora_")
        if not mark:
            continue  # peft saves the base's embedding beside a changed one
        values = tensor.float().numpy()
        side = "lora_a" if matrix.split(".")[0].endswith("A") else "lora_b"
        if module == "model.embed_tokens":
            target = "token_embd"
            values = values.T if side == "lora_a" else values
        elif module == "lm_head":
            target = "output"
        else:
            _, _, layer, kind = module.split(".", 3)
            target = names[kind]
            if target in heads and side == "lora_b":
                rows, rank = values.shape
                apart = values.reshape(heads[target], 2, rows // heads[target] // 2, rank)
                values = apart.swapaxes(1, 2).reshape(rows, rank)
            target = f"blk.{layer}.{target}"
        writer.add_tensor(f"{target}.weight.{side}", np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
