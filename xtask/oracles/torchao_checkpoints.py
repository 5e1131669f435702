"""Writes tests/fixtures/hfq/torchao-*: a small model that torchao quantized and transformers saved,
with the values that torchao gives back. Needs torch, torchao and transformers.

    python3 xtask/oracles/torchao_checkpoints.py
"""

import hashlib
import json
import shutil
import tempfile
from pathlib import Path

import torch
import torchao
import transformers
from torchao.quantization import (
    Float8WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    IntxWeightOnlyConfig,
    MappingType,
    PerGroup,
)
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, TorchAoConfig

FIXTURES = Path(__file__).parents[2] / "tests/fixtures/hfq"
CONFIGS = {
    "torchao-int8": Int8DynamicActivationInt8WeightConfig(version=2),
    "torchao-float8": Float8WeightOnlyConfig(version=2),
    "torchao-int4-unpacked": IntxWeightOnlyConfig(
        weight_dtype=torch.int4, granularity=PerGroup(32), mapping_type=MappingType.ASYMMETRIC
    ),
}


def values(tensor):
    """The values of a tensor as f32: torchao computes in f32, and rounds only its result."""
    kind = type(tensor).__name__
    if kind in ("Int8Tensor", "Float8Tensor"):
        return tensor.dequantize(output_dtype=torch.float32)
    if kind == "IntxUnpackedToInt8Tensor":
        attributes = {name: getattr(tensor, name) for name in tensor.tensor_attribute_names}
        arrays = {name: getattr(tensor, name) for name in tensor.tensor_data_names}
        return type(tensor)(**arrays, **{**attributes, "dtype": torch.float32}).dequantize()
    return tensor.to(torch.float32)


torch.manual_seed(3)
config = LlamaConfig(
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=32,
    vocab_size=48,
    max_position_embeddings=128,
    dtype="bfloat16",
)
with tempfile.TemporaryDirectory() as plain:
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(plain)
    for name, quantization in CONFIGS.items():
        model = AutoModelForCausalLM.from_pretrained(
            plain, quantization_config=TorchAoConfig(quantization), dtype=torch.bfloat16
        )
        folder = FIXTURES / name
        shutil.rmtree(folder, ignore_errors=True)
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink()
        tensors = {}
        for key, tensor in model.state_dict().items():
            flat = values(tensor).contiguous()
            tensors[key] = {
                "kind": type(tensor).__name__,
                "shape": list(flat.shape),
                "f32_sha256": hashlib.sha256(flat.numpy().tobytes()).hexdigest(),
            }
        writer = f"torchao {torchao.__version__} by transformers {transformers.__version__}"
        expected = {"dir": name, "writer": writer, "tensors": tensors}
        (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
        (folder / "model.safetensors").chmod(0o644)
