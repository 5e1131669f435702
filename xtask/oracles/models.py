"""Makes tiny models with random weights by transformers' classes, each with the logits that the class computes.

    models.py FOLDER [--match REGEX]

Each model is a directory FOLDER/NAME with config.json, model.safetensors (F32, as the class saves it) and logits.safetensors:
tokens, their logits, and the greedy continuation of 16 tokens; of encoders their last hidden states. Of a model with an encoder
and a decoder, `encoder_tokens` are what the encoder reads. The logits are computed in F64 with eager attention and rounded.
A seed is kept if F32 gives the same within 1e-4 of the standard deviation, and the best token of each step of the continuation
leads by at least 1% of it. The weights mean nothing.

Models whose class no package has are made without logits, for the comparison with llama.cpp's converter.

The models are those of families that the fixtures in WEIGHBRIDGE_FIXTURES lack. The folder is given to the tests as
WEIGHBRIDGE_MODELS: `reference/tests/it/logits.rs` runs them from all containers.
"""

import io
import json
import re
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

import sentencepiece  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import (  # noqa: E402
    AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForImageTextToText, AutoModelForSeq2SeqLM, T5EncoderModel,
    UMT5EncoderModel, logging,
)

logging.set_verbosity_error()
logging.disable_progress_bar()

SMALL = dict(
    vocab_size=256, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96,
    max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=None,
)
LATENT = dict(
    q_lora_rank=24, kv_lora_rank=32, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=16, n_routed_experts=4,
    num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=32, first_k_dense_replace=1, n_group=1, topk_group=1,
)

# Encoders of text, of which the hidden states are kept instead.
ENCODERS = ["nomic_bert"]

# Models with an encoder and a decoder, which have names of their own for the numbers above, and encoders of such models alone.
PAIR = dict(
    vocab_size=256, d_model=64, d_kv=16, d_ff=96, num_layers=3, num_heads=4, relative_attention_num_buckets=8,
    decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
)
ALONE = {"t5-encoder": T5EncoderModel, "umt5-encoder": UMT5EncoderModel}

# Models with images, of which the numbers below are those of the language model, and those of the rest.
IMAGES = {
    "qwen3_vl_moe": dict(vision_config=dict(
        depth=1, hidden_size=32, intermediate_size=32, num_heads=2, patch_size=4, out_hidden_size=64,
        num_position_embeddings=16, deepstack_visual_indexes=[0],
    )),
    "llama4": dict(vision_config=dict(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=128, vision_output_dim=32, image_size=16,
        patch_size=4, projector_input_dim=32, projector_output_dim=32,
    )),
}

# The name, the model_type, and numbers that differ from SMALL.
GRANITE = dict(
    intermediate_size=96, shared_intermediate_size=96, mamba_n_heads=8, mamba_d_head=16, mamba_n_groups=1, mamba_d_state=8,
    embedding_multiplier=2.0, attention_multiplier=0.2, residual_multiplier=0.5, logits_scaling=3.0,
)
MODELS = {
    "deepseek_v2-bias": ("deepseek_v2", dict(num_key_value_heads=4, **LATENT, attention_bias=True, topk_method="greedy")),
    "deepseek_v3-bias": ("deepseek_v3", dict(num_key_value_heads=4, **LATENT, attention_bias=True)),
    # llama.cpp chooses the factors by the length of its context, which is a multiple of 256, and not by that of the text.
    "minicpm3-usual": ("minicpm3", dict(
        num_key_value_heads=4, max_position_embeddings=512, q_lora_rank=24, kv_lora_rank=32, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=16,
        rope_parameters=dict(
            rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[1.0, 1.5, 2.0, 2.5],
            original_max_position_embeddings=512,
        ),
    )),
    "phi": ("phi", dict(num_key_value_heads=4, partial_rotary_factor=0.5)),
    "stablelm": ("stablelm", dict(partial_rotary_factor=0.25, use_qkv_bias=True)),
    "stablelm-parallel": ("stablelm", dict(
        num_key_value_heads=4, partial_rotary_factor=0.25, use_parallel_residual=True, qk_layernorm=True,
    )),
    "nemotron": ("nemotron", dict(head_dim=16, partial_rotary_factor=0.5)),
    "seed_oss": ("seed_oss", dict(head_dim=32)),
    "hunyuan_v1_dense": ("hunyuan_v1_dense", dict(head_dim=16)),
    "hunyuan_v1_dense-alpha": ("hunyuan_v1_dense", dict(
        head_dim=32, max_position_embeddings=32768,
        rope_parameters=dict(
            rope_type="dynamic", rope_theta=10000.0, alpha=50.0, factor=1.0, beta_fast=32, beta_slow=1, mscale=1.0,
            mscale_all_dim=1.0,
        ),
    )),
    "ernie4_5": ("ernie4_5", dict(head_dim=16)),
    "ernie4_5_moe": ("ernie4_5_moe", dict(
        num_hidden_layers=3, moe_num_experts=4, moe_k=2, moe_num_shared_experts=1, moe_layer_start_index=1,
        moe_layer_interval=1, moe_layer_end_index=-1, moe_intermediate_size=32,
    )),
    "nomic_bert": ("nomic_bert", dict(num_key_value_heads=None, pad_token_id=0, type_vocab_size=2)),
    "t5": ("t5", dict(PAIR, num_decoder_layers=2)),
    "t5-gated": ("t5", dict(PAIR, d_kv=24, feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
    "mt5": ("mt5", dict(PAIR, num_decoder_layers=1)),
    "umt5": ("umt5", dict(PAIR)),
    "t5-encoder": ("t5", dict(PAIR, feed_forward_proj="gated-gelu")),
    "umt5-encoder": ("umt5", dict(PAIR)),
    "ministral": ("ministral", dict(
        num_hidden_layers=4, head_dim=16, sliding_window=8, layer_types=["sliding_attention"] * 3 + ["full_attention"],
    )),
    "llama4": ("llama4", dict(
        num_hidden_layers=4, head_dim=16, intermediate_size=32, intermediate_size_mlp=96, num_local_experts=4,
        num_experts_per_tok=1,
    )),
    "qwen3_vl_moe": ("qwen3_vl_moe", dict(
        head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[4, 2, 2], mrope_interleaved=True),
    )),
    "llama4_text": ("llama4_text", dict(
        num_hidden_layers=4, head_dim=16, intermediate_size=32, intermediate_size_mlp=96, num_local_experts=4,
        num_experts_per_tok=1, interleave_moe_layer_step=2,
        rope_parameters=dict(
            rope_type="llama3", rope_theta=500000.0, factor=16.0, low_freq_factor=1.0, high_freq_factor=1.0,
            original_max_position_embeddings=8192,
        ),
    )),
    "llama4_text-chunks": ("llama4_text", dict(
        num_hidden_layers=5, head_dim=16, intermediate_size=32, intermediate_size_mlp=96, num_local_experts=4,
        num_experts_per_tok=1, attention_chunk_size=8, floor_scale=4,
    )),
    "phimoe": ("phimoe", dict(num_local_experts=4, num_experts_per_tok=2, attention_bias=True, lm_head_bias=True)),
    "hunyuan_v1_moe": ("hunyuan_v1_moe", dict(head_dim=16, num_experts=4, moe_topk=2)),
    "lfm2": ("lfm2", dict(num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"], block_multiple_of=32)),
    "lfm2-whole": ("lfm2", dict(
        num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"], block_auto_adjust_ff_dim=False,
    )),
    "lfm2_moe": ("lfm2_moe", dict(
        num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"], num_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=32, num_dense_layers=1,
    )),
    "apertus": ("apertus", dict(
        hidden_act="xielu",
        rope_parameters=dict(
            rope_type="llama3", rope_theta=12000000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=8192,
        ),
    )),
    "jamba": ("jamba", dict(
        num_hidden_layers=4, num_experts=4, num_experts_per_tok=2, expert_layer_period=2, expert_layer_offset=1,
        attn_layer_period=4, attn_layer_offset=2, mamba_d_state=8, mamba_dt_rank=6,
    )),
    "granitemoehybrid": ("granitemoehybrid", dict(
        **{**GRANITE, "mamba_n_groups": 2}, num_hidden_layers=4, layer_types=["mamba", "mamba", "attention", "mamba"], num_local_experts=4,
        num_experts_per_tok=2, position_embedding_type="nope",
    )),
    "granitemoehybrid-dense": ("granitemoehybrid", dict(
        **GRANITE, num_hidden_layers=3, layer_types=["mamba", "attention", "mamba"], num_local_experts=0,
        num_experts_per_tok=0, position_embedding_type="nope", tie_word_embeddings=False,
    )),
    "granitemoehybrid-attention": ("granitemoehybrid", dict(
        **GRANITE, layer_types=["attention"] * 2, num_local_experts=0, num_experts_per_tok=0,
        position_embedding_type="rope",
    )),
    "mamba": ("mamba", dict(intermediate_size=128, state_size=8, time_step_rank=6)),
    "mamba2": ("mamba2", dict(num_heads=8, head_dim=16, n_groups=2, state_size=8, tie_word_embeddings=False)),
    "exaone4-full": ("exaone4", dict(
        sliding_window=None, sliding_window_pattern=None, layer_types=["full_attention"] * 2,
        rope_parameters=dict(
            rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=64,
        ),
    )),
    "exaone4": ("exaone4", dict(
        num_hidden_layers=4, sliding_window=8, sliding_window_pattern=4,
        layer_types=["sliding_attention"] * 3 + ["full_attention"],
    )),
}


# Models that have a tokenizer.
WITH_PIECES = ["mt5"]


def pieces():
    """A `spiece.model` with the special tokens of T5."""
    words = "the a tall truck horse bell morning windy full of pulled was".split()
    texts = [" ".join(words[(n * k) % len(words)] for k in range(1, 7)) for n in range(1, 40)]
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=out, vocab_size=40, model_type="unigram", pad_id=0, eos_id=1, unk_id=2,
        bos_id=-1, normalization_rule_name="nmt_nfkc", hard_vocab_limit=False, minloglevel=2,
    )
    return out.getvalue()


def remote():
    """Models whose class no package has: config.json, and the names and shapes of published checkpoints."""
    body = dict(
        model_type="bert", hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, vocab_size=256,
        max_position_embeddings=128, layer_norm_eps=1e-12, hidden_act="gelu", type_vocab_size=2, pad_token_id=0,
        position_embedding_type="alibi", feed_forward_type="geglu",
    )
    auto = "jinaai/jina-bert-implementation--modeling_bert.JinaBert"
    names = {"AutoModel": auto + "Model", "AutoModelForMaskedLM": auto + "ForMaskedLM"}

    def norm(name):
        return {f"{name}.weight": (64,), f"{name}.bias": (64,)}

    def linear(name, rows=64, columns=64):
        return {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}

    def jina(code):
        yield {"embeddings.word_embeddings.weight": (256, 64), "embeddings.token_type_embeddings.weight": (2, 64)}
        yield norm("embeddings.LayerNorm")
        for layer in ("encoder.layer.0", "encoder.layer.1"):
            for part in ("query", "key", "value"):
                yield linear(f"{layer}.attention.self.{part}")
            yield linear(f"{layer}.attention.output.dense")
            yield norm(f"{layer}.attention.output.LayerNorm")
            yield {f"{layer}.mlp.{'up_gated_layer' if code else 'gated_layers'}.weight": (192, 64)}
            yield linear(f"{layer}.mlp.{'down_layer' if code else 'wo'}", 64, 96)
            own = ["layer_norm_1", "layer_norm_2", "attention.self.layer_norm_q", "attention.self.layer_norm_k"]
            for name in own if code else ["mlp.layernorm"]:
                yield norm(f"{layer}.{name}")
        yield linear("pooler.dense")

    def nomic(mixture):
        yield {"embeddings.word_embeddings.weight": (256, 64), "embeddings.token_type_embeddings.weight": (2 - mixture, 64)}
        yield norm("emb_ln")
        for number in range(2):
            layer = f"encoder.layers.{number}"
            if not mixture:
                yield {**norm(f"{layer}.norm1"), **norm(f"{layer}.norm2"), f"{layer}.attn.Wqkv.weight": (192, 64)}
                yield {f"{layer}.attn.out_proj.weight": (64, 64), f"{layer}.mlp.fc2.weight": (64, 96)}
                yield {f"{layer}.mlp.fc11.weight": (96, 64), f"{layer}.mlp.fc12.weight": (96, 64)}
                continue
            yield linear(f"{layer}.attn.Wqkv", 192)
            yield linear(f"{layer}.attn.out_proj")
            yield {**norm(f"{layer}.norm1"), **norm(f"{layer}.norm2")}
            if number % 2 == 0:
                yield {**linear(f"{layer}.mlp.fc1", 96), **linear(f"{layer}.mlp.fc2", 64, 96)}
                continue
            yield {f"{layer}.mlp.experts.mlp.w{part}": (4 * 96, 64) for part in (1, 2)}
            yield {f"{layer}.mlp.experts.bias": (64,), f"{layer}.mlp.router.layer.weight": (4, 64)}

    for name, mixture in (("nomic_bert-moe", True), ("nomic_bert-published", False)):
        config = dict(
            model_type="nomic_bert", architectures=["NomicBertModel"], n_embd=64, n_layer=2, n_head=4, n_inner=96, vocab_size=256,
            causal=False, max_trained_positions=2048, prenorm=False, qkv_proj_bias=mixture, mlp_fc1_bias=mixture,
            mlp_fc2_bias=mixture, rotary_emb_fraction=1.0, rotary_emb_interleaved=False, rotary_emb_scale_base=None,
        )
        if mixture:
            config.update(
                n_positions=2048, activation_function="gelu", layer_norm_epsilon=1e-5, moe_every_n_layers=2, moe_top_k=2,
                num_experts=4, rotary_emb_base=10000.0, type_vocab_size=1, pad_token_id=1,
            )
        else:
            config.update(
                n_positions=8192, activation_function="swiglu", layer_norm_epsilon=1e-12, rotary_emb_base=1000, type_vocab_size=2,
                pad_token_id=0,
            )
        yield name, config, {key: shape for part in nomic(mixture) for key, shape in part.items()}
    for name, code in (("jina-v2", False), ("jina-v2-code", True)):
        config = dict(body, architectures=["JinaBertForMaskedLM" if code else "JinaBertModel"], auto_map=names)
        yield name, config, {key: shape for part in jina(code) for key, shape in part.items()}


def make_remote(config, shapes, folder):
    generator = torch.Generator().manual_seed(0)
    arrays = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2))


def draw(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if "inv_freq" in name or "rope" in name or not tensor.is_floating_point():
            continue
        noise = torch.randn(tensor.shape, generator=generator)
        if name.endswith("A_log") or tensor.dim() == 0:
            continue
        if tensor.dim() == 1 and "norm" in name and name.endswith("weight"):
            noise = 1 + 0.1 * noise
        elif tensor.dim() == 1:
            noise = 0.1 * noise
        elif "embed" in name:
            noise = 0.5 * noise
        else:
            inputs = tensor.shape[-1] if tensor.dim() < 4 else tensor[0].numel()
            noise = noise / inputs**0.5
        tensor.data.copy_(noise)


# The tokens that the encoder of a pair reads; the decoder reads the others.
PREFIX = 14


def encodes(model):
    return model.config.model_type in ENCODERS or isinstance(model, tuple(ALONE.values()))


def logits_of(model, ids):
    with torch.no_grad():
        if encodes(model):
            return model(input_ids=torch.tensor([ids])).last_hidden_state[0]
        if model.config.is_encoder_decoder:
            text, ids = torch.tensor([ids[:PREFIX]]), torch.tensor([ids[PREFIX:]])
            return model(input_ids=text, decoder_input_ids=ids, use_cache=False).logits[0]
        return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


def make(name, folder):
    model_type, more = MODELS[name]
    numbers = more if "d_model" in more else {**SMALL, **more}
    if model_type in IMAGES:
        numbers = dict(text_config=numbers, **IMAGES[model_type])
    config = AutoConfig.for_model(model_type, **numbers)
    config._attn_implementation = "eager"
    pair = AutoModelForSeq2SeqLM if "d_model" in more else AutoModelForCausalLM
    auto = AutoModel if model_type in ENCODERS else AutoModelForImageTextToText if model_type in IMAGES else pair
    auto = ALONE.get(name, auto)
    for seed in range(100):
        torch.manual_seed(seed)
        model = auto(config) if name in ALONE else auto.from_config(config, attn_implementation="eager", experts_implementation="eager")
        model = model.float().eval()
        if "d_model" in more and more.get("tie_word_embeddings") is False:
            # The class ties the output matrix whatever it is told, unless a checkpoint has both.
            model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())
        draw(model, seed)
        model.save_pretrained(folder)
        load = dict(attn_implementation="eager", experts_implementation="eager")
        narrow = auto.from_pretrained(folder, dtype=torch.float32, **load).eval()
        wide = auto.from_pretrained(folder, dtype=torch.float32, **load).double().eval()
        tokens = torch.randint(3, SMALL["vocab_size"], (24,), generator=torch.Generator().manual_seed(seed)).tolist()
        expected = logits_of(wide, tokens)
        if (expected - logits_of(narrow, tokens)).abs().max() > 1e-4 * expected.std():
            continue
        if encodes(wide):
            hidden = {"tokens": torch.tensor(tokens), "last_hidden_state": expected.float().contiguous()}
            save_file(hidden, folder / "logits.safetensors")
            return seed
        generated, clear = [], True
        while clear and len(generated) < 16:
            best = logits_of(wide, tokens + generated)[-1].topk(2)
            clear = bool(best.values[0] - best.values[1] > 0.01 * expected.std())
            generated.append(int(best.indices[0]))
        if not clear:
            continue
        kept = {"tokens": torch.tensor(tokens), "logits": expected.float().contiguous(), "generated": torch.tensor(generated)}
        if wide.config.is_encoder_decoder:
            kept.update(encoder_tokens=torch.tensor(tokens[:PREFIX]), tokens=torch.tensor(tokens[PREFIX:]))
        save_file(kept, folder / "logits.safetensors")
        if name in WITH_PIECES:
            (folder / "spiece.model").write_bytes(pieces())
        for extra in ("generation_config.json",):
            (folder / extra).unlink(missing_ok=True)
        return seed
    raise RuntimeError("no seed fits")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    match = re.compile(sys.argv[sys.argv.index("--match") + 1] if "--match" in sys.argv else "")
    for name, config, shapes in remote():
        if match.search(name):
            folder = target / name
            folder.mkdir(parents=True, exist_ok=True)
            make_remote(config, shapes, folder)
    for name in MODELS:
        if match.search(name):
            folder = target / name
            folder.mkdir(parents=True, exist_ok=True)
            try:
                print(f"{name}: seed {make(name, folder)}", flush=True)
            except Exception as error:  # noqa: BLE001
                print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
