"""Draws quantized checkpoints, and compares the program's values with those of the package that packed them.

    schemes.py PROGRAM [--seed N] [--count N] [PACKAGE...]
    schemes.py --fixtures

A draw is a small Llama with random weights, in a drawn dtype, and a quantization whose numbers are drawn from those of the package's
own class. The package packs it on a CPU, transformers saves it, the program converts it to F32, and each tensor is compared with what
the package dequantizes. A difference is one line; the exit status is 1 if there is one that the program did not refuse.
`--fixtures` writes tests/fixtures/hfq/torchao-*, three such models with the hashes of their values.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from importlib.metadata import version
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TQDM_DISABLE="1")
warnings.filterwarnings("ignore")

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

FIXTURES = Path(__file__).parents[2] / "tests/fixtures/hfq"
SMALL = dict(num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, vocab_size=48, max_position_embeddings=128)
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def plain(folder, dtype, seed=3, width=64, network=96):
    """A model that is not quantized."""
    torch.manual_seed(seed)
    config = LlamaConfig(hidden_size=width, intermediate_size=network, head_dim=width // 2, **SMALL)
    LlamaForCausalLM(config).to(dtype).save_pretrained(folder)


def torchao_values(tensor):
    """The values of a tensor as f32: torchao computes in f32, and rounds only its result."""
    kind = type(tensor).__name__
    if kind in ("Int8Tensor", "Float8Tensor"):
        return tensor.dequantize(output_dtype=torch.float32)
    if kind == "IntxUnpackedToInt8Tensor":
        attributes = {name: getattr(tensor, name) for name in tensor.tensor_attribute_names}
        arrays = {name: getattr(tensor, name) for name in tensor.tensor_data_names}
        return type(tensor)(**arrays, **{**attributes, "dtype": torch.float32}).dequantize()
    return (tensor.dequantize() if hasattr(tensor, "tensor_data_names") else tensor).to(torch.float32)


def saved_torchao(source, target, config, dtype=torch.bfloat16):
    from transformers import TorchAoConfig

    model = AutoModelForCausalLM.from_pretrained(source, quantization_config=TorchAoConfig(config), dtype=dtype)
    model.save_pretrained(target)
    return model


def torchao(r, source, target, dtype):
    from torchao import quantization as q

    group = q.PerGroup(r.choice([32, 64]))
    integers = dict(granularity=r.choice([group, q.PerAxis(0)]), mapping_type=r.choice(list(q.MappingType)))
    config = r.choice([
        lambda: q.Int8WeightOnlyConfig(granularity=r.choice([q.PerRow(), q.PerTensor()]), version=2),
        lambda: q.Int8DynamicActivationInt8WeightConfig(version=2),
        lambda: q.Float8WeightOnlyConfig(weight_dtype=r.choice([torch.float8_e4m3fn, torch.float8_e5m2]), version=2),
        lambda: q.IntxWeightOnlyConfig(weight_dtype=getattr(torch, f"int{r.randint(1, 8)}"), scale_dtype=r.choice([None, torch.float32, torch.float16]), **integers),
        lambda: q.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=group, weight_mapping_type=integers["mapping_type"]),
    ])()  # fmt: skip
    model = saved_torchao(source, target, config, dtype)
    return config, {key: torchao_values(tensor) for key, tensor in model.state_dict().items()}


def drawn_args(r):
    """The numbers of a scheme of compressed-tensors."""
    kind = r.choice(["int", "int", "float"])
    if kind == "float" and r.random() < 0.4:
        own = r.choice([("tensor_group", 16, torch.float8_e4m3fn), ("group", 32, torch.uint8)])
        return dict(type=kind, num_bits=4, symmetric=True, **dict(zip(("strategy", "group_size", "scale_dtype"), own)))
    args = dict(type=kind, num_bits=8 if kind == "float" else r.choice([2, 3, 4, 5, 6, 7, 8]), strategy=r.choice(["tensor", "channel", "group", "group", "block"]), symmetric=kind == "float" or r.choice([True, False]))
    if args["strategy"] == "group":
        args["group_size"] = r.choice([16, 32, 64])
    return args | ({"block_structure": [32, 32]} if args["strategy"] == "block" else {})


def settle(module, weights):
    """Sets the scales and the other arrays of a module from its weight."""
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    weight, (rows, columns) = module.weight.data, module.weight.shape
    shape, over = {
        "tensor": ((-1,), 0), "channel": ((rows, columns), 1), "group": ((rows, -1, weights.group_size or 1), 2), "tensor_group": ((rows, -1, weights.group_size or 1), 2),
        "block": ((rows // 32, 32, columns // 32, 32), (1, 3)),
    }[weights.strategy]  # fmt: skip
    groups, own = weight.reshape(shape), {}
    low, high = groups.amin(over), groups.amax(over)
    if hasattr(module, "weight_global_scale"):
        own["weight_global_scale"] = generate_gparam(weight.amin(), weight.amax())
    own["weight_scale"], own["weight_zero_point"] = calculate_qparams(low, high, weights, own.get("weight_global_scale"))
    for name, value in own.items():
        if (array := getattr(module, name, None)) is not None:
            array.data = value.to(array.dtype).reshape(array.shape)


def compressed_tensors(r, source, target, dtype):
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme, QuantizationStatus, apply_quantization_config
    from compressed_tensors.quantization.lifecycle.forward import fake_quantize

    args = drawn_args(r)
    weights = QuantizationArgs(**args)
    ignored = ["lm_head", *(["re:.*down_proj"] if r.random() < 0.3 else [])]
    inputs = QuantizationArgs(num_bits=8, type=args["type"], strategy="token", dynamic=True) if args["num_bits"] == 8 and r.random() < 0.5 else None
    config = QuantizationConfig(config_groups={"group_0": QuantizationScheme(targets=["Linear"], weights=weights, input_activations=inputs)}, ignore=ignored)
    model = AutoModelForCausalLM.from_pretrained(source, dtype=dtype)
    apply_quantization_config(model, config, show_progress=False)
    values = {key: tensor for key, tensor in model.state_dict().items() if key.endswith("weight")}
    for name, module in model.named_modules():
        if hasattr(module, "weight_scale"):
            settle(module, weights)
            module.quantization_status = QuantizationStatus.FROZEN
            zero, whole = (getattr(module, f"weight_{key}", None) for key in ("zero_point", "global_scale"))
            values[name + ".weight"] = fake_quantize(module.weight, module.weight_scale, zero, weights, global_scale=whole)
    values = {key: tensor.detach().to(torch.float32).clone() for key, tensor in values.items()}
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    model.save_pretrained(target)
    compressor.update_config(target)
    return (args, ignored), values


def bitsandbytes(r, source, target, dtype):
    from bitsandbytes import functional
    from transformers import BitsAndBytesConfig

    of_four = dict(
        bnb_4bit_quant_type=r.choice(["nf4", "fp4"]), bnb_4bit_use_double_quant=r.choice([True, False]), bnb_4bit_quant_storage=r.choice([torch.uint8, torch.bfloat16, torch.float16, torch.float32]),
        bnb_4bit_compute_dtype=r.choice(DTYPES),
    )  # fmt: skip
    skipped = r.choice([None, ["lm_head", "down_proj"]])
    eight = r.random() < 0.3
    config = BitsAndBytesConfig(load_in_8bit=eight, load_in_4bit=not eight, llm_int8_skip_modules=skipped, **({} if eight else of_four))
    model = AutoModelForCausalLM.from_pretrained(source, quantization_config=config, dtype=dtype, device_map="cpu")
    model.save_pretrained(target)
    values = {}
    for name, weight in model.named_parameters():
        if type(weight).__name__ == "Params4bit":
            weight.quant_state.dtype = torch.float32
            values[name] = functional.dequantize_4bit(weight.data, weight.quant_state)
        elif type(weight).__name__ == "Int8Params":
            values[name] = weight.data.to(torch.float32) * (weight.SCB.unsqueeze(1) * (1 / 127))
        else:
            values[name] = weight.data.to(torch.float32)
    return config.to_diff_dict(), values


def numbers(r, weight, bits, group, symmetric):
    """Scales and zero points of groups in the rows of a weight."""
    groups = weight.reshape(weight.shape[0], -1, group)
    low, high = groups.amin(2).clamp(max=0), groups.amax(2).clamp(min=0)
    if symmetric:
        return ((2 * groups.abs().amax(2)) / (2**bits - 1)).half().float(), 2 ** (bits - 1)
    scales = ((high - low) / (2**bits - 1)).half().float()
    return scales, (-low / scales).round().clamp(1, 2**bits - 1)


def reordered(packed, bits, order):
    """Packed rows in another order."""
    shifts = torch.arange(0, 32, bits)
    numbers = (packed.unsqueeze(1).long() >> shifts[:, None]) & (2**bits - 1)
    numbers = numbers.flatten(0, 1)[order].unflatten(0, (-1, len(shifts)))
    return (numbers << shifts[:, None]).sum(1).to(torch.int32)


def auto_round(r, source, target, dtype):
    """The layouts of GPTQ, of AWQ, and that of the package, each module by itself."""
    from auto_round.export.export_to_awq.utils import WQLinear_GEMM, dequantize_gemm
    from auto_round_extension.torch import qlinear_torch, qlinear_torch_zp

    layout = r.choice(["gptq", "gptq_v2", "awq", "auto_round", "auto_round:auto_gptq", "auto_round:auto_awq"])
    bits, group, symmetric = r.choice([4] if "awq" in layout else [2, 3, 4, 8]), r.choice([16, 32, 64, -1]), r.choice([True, False])
    # Groups of columns that follow each other in another order than the stored one, unless they are static.
    sorts, static = (layout.startswith("gptq") and r.random() < 0.5 for _ in range(2))
    config = {"quant_method": layout.split(":")[0].split("_v2")[0].replace("_", "-"), "bits": bits, "group_size": group, "sym": symmetric} | {
        "gptq": {"desc_act": sorts, "static_groups": static, "checkpoint_format": layout}, "awq": {"zero_point": not symmetric, "version": "gemm"}, "auto": {"data_type": "int", "packing_format": layout},
    }[layout.split("_")[0]]  # fmt: skip
    model = AutoModelForCausalLM.from_pretrained(source, dtype=dtype)
    stored, values = {}, {name: tensor.to(torch.float32) for name, tensor in model.state_dict().items()}
    for name, module in model.named_modules():
        if not isinstance(module, torch.nn.Linear) or name == "lm_head":
            continue
        rows, columns = module.weight.shape
        module = module.float()
        # The packages pack columns in order: packed rows are put in their places, for widths that do not cross words.
        order = torch.randperm(columns) if sorts and not static and bits != 3 else torch.arange(columns)
        module.weight.data = module.weight.data[:, order]
        scales, zeros = numbers(r, module.weight.data, bits, columns if group < 0 else group, symmetric)
        if "awq" in layout:
            made = WQLinear_GEMM.from_linear(module, bits, group, scales=scales.t().contiguous(), zeros=zeros if symmetric else zeros.t().contiguous())
            values[name + ".weight"] = dequantize_gemm(made.qweight, made.qzeros, made.scales.float(), bits, made.group_size).t()
        else:
            of = qlinear_torch if layout in ("gptq_v2", "auto_round") else qlinear_torch_zp
            made = of.QuantLinear(bits, group, columns, rows, bias=False)
            made.device = "cpu"
            made.pack(module, scales, zeros)
            kept, made.scales = made.scales, made.scales.float()
            places = order.argsort()
            values[name + ".weight"] = made(torch.eye(columns)).t()[:, places]
            made.scales = kept
            if layout.startswith("gptq"):
                stored[f"{name}.g_idx"] = places.to(torch.int32) // made.group_size
                made.qweight = reordered(made.qweight, bits, places) if bits != 3 else made.qweight
        stored |= {f"{name}.{key}": tensor.contiguous() for key, tensor in made.state_dict().items()}
    stored |= {name: tensor.contiguous() for name, tensor in model.state_dict().items() if name.removesuffix("weight") + "qweight" not in stored and name != "lm_head.weight"}
    target.mkdir()
    save_file(stored, target / "model.safetensors", {"format": "pt"})
    written = json.loads((source / "config.json").read_text()) | {"quantization_config": config}
    (target / "config.json").write_text(json.dumps(written))
    return config, {name: tensor.contiguous() for name, tensor in values.items()}


PACKAGES = {"torchao": torchao, "compressed-tensors": compressed_tensors, "bitsandbytes": bitsandbytes, "auto-round": auto_round}


def different(expected, path, dtype):
    """The first tensor with other values than the package's, which rounds to the model's dtype."""
    found = {}
    for file in path.glob("*.safetensors"):
        found |= load_file(file)
    for name, values in expected.items():
        if name not in found:
            if name == "lm_head.weight":
                continue
            return f"{name} is missing"
        about = torch.finfo(dtype)
        near = about.eps * (values.abs() + about.tiny)
        wrong = ((found[name].to(torch.float32) - values).abs() > near).sum().item()
        if found[name].shape != values.shape or wrong:
            return f"{name}: {wrong} of {values.numel()} values"
    return None


def compared(program, package, r):
    """What a draw shows: nothing if the package does not make it, right, refused or wrong."""
    with tempfile.TemporaryDirectory() as folder:
        source, target, out = (Path(folder, name) for name in ("plain", "packed", "out"))
        dtype = r.choice(DTYPES)
        # bitsandbytes' kernel for CPUs requires rows of whole blocks.
        plain(source, dtype, r.randrange(1 << 30), r.choice([64, 128]), r.choice([128, 192]))
        try:
            config, values = PACKAGES[package](r, source, target, dtype)
        except Exception as error:
            return "unmade", f"{type(error).__name__}: {error}"
        words = [program, "convert", target, out, "--to", "safetensors", "--dtype", "F32"]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        if done.returncode:
            return "refused", f"{config}: {done.stderr.strip().splitlines()[0]}"
        fault = different(values, out, dtype)
        return ("wrong", f"{dtype} {config}: {fault}") if fault else ("right", "")


def write_fixtures():
    import torchao as package
    import transformers
    from torchao.quantization import Float8WeightOnlyConfig, Int8DynamicActivationInt8WeightConfig, IntxWeightOnlyConfig, MappingType, PerGroup

    configs = {
        "torchao-int8": Int8DynamicActivationInt8WeightConfig(version=2),
        "torchao-float8": Float8WeightOnlyConfig(version=2),
        "torchao-int4-unpacked": IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32), mapping_type=MappingType.ASYMMETRIC),
    }
    with tempfile.TemporaryDirectory() as source:
        plain(source, torch.bfloat16)
        for name, config in configs.items():
            folder = FIXTURES / name
            shutil.rmtree(folder, ignore_errors=True)
            model = saved_torchao(source, folder, config)
            (folder / "generation_config.json").unlink()
            tensors = {}
            for key, tensor in model.state_dict().items():
                flat = torchao_values(tensor).contiguous()
                tensors[key] = {"kind": type(tensor).__name__, "shape": list(flat.shape), "f32_sha256": hashlib.sha256(flat.numpy().tobytes()).hexdigest()}
            writer = f"torchao {package.__version__} by transformers {transformers.__version__}"
            expected = {"dir": name, "writer": writer, "tensors": tensors}
            (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
            (folder / "model.safetensors").chmod(0o644)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", nargs="?")
    parser.add_argument("packages", nargs="*")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--fixtures", action="store_true")
    options = parser.parse_intermixed_args()
    if options.fixtures:
        return write_fixtures()
    totals = Counter()
    for package in options.packages or PACKAGES:
        print(f"seed {options.seed}, {options.count} draws, {package} {version(package)}", flush=True)
        for number in range(options.count):
            result, line = compared(options.program, package, random.Random(f"{options.seed} {package} {number}"))
            totals[package, result] += 1
            if line:
                print(f"{package} {number} {result} {line[:300]}", flush=True)
    for (package, result), count in sorted(totals.items()):
        print(f"{package:<20} {result:<8} {count}")
    sys.exit(1 if any(result == "wrong" for _, result in totals) else 0)


if __name__ == "__main__":
    main()
