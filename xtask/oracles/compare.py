"""Computes the figures of `weighbridge compare` from the logits of transformers.

    compare.py PROGRAM SAMPLE

PROGRAM is the program; SAMPLE a folder with `hf`, a directory of Hugging Face, and other forms of
the same model. Each form is converted to an F32 directory, which transformers runs over the same
windows of tokens. Perplexities, means and shares must agree to 1e-4; the divergence of a single
position, which rounding of the logits moves, to 1e-3.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

TEXT = pathlib.Path(__file__).parents[2] / "reference/assets/comparison.txt"


def log_probabilities(folder, windows):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        return [torch.log_softmax(model(w[None]).logits[0].double(), -1) for w in windows]


def figures(base, other, windows):
    """The definitions of llama.cpp's perplexity tool, in numpy's terms."""
    surprise, kl, change, same, top = [], [], [], [], []
    for a, b, window in zip(base, other, windows):
        places = torch.arange(len(window) // 2, len(window) - 1)
        following = window[places + 1]
        a, b = a[places], b[places]
        p = lambda x: x.gather(1, following[:, None])[:, 0]
        surprise.append(-p(b))
        kl.append((a.exp() * (a - b)).sum(-1))
        change.append(p(b).exp() - p(a).exp())
        same.append(a.argmax(-1) == b.argmax(-1))
        tops = [x.topk(5, dim=-1).indices.sort(-1).values for x in (a, b)]
        top.append((tops[0] == tops[1]).all(-1))
    surprise, kl, change = (torch.cat(x) for x in (surprise, kl, change))
    same, top = (torch.cat(x).double().mean() for x in (same, top))
    error = surprise.std(unbiased=True) / len(surprise) ** 0.5
    quantile = lambda part: kl.quantile(part)
    return {
        "perplexity": surprise.mean().exp(),
        "perplexity_error": surprise.mean().exp() * error,
        "mean": kl.mean(),
        "mean_error": kl.std(unbiased=True) / len(kl) ** 0.5,
        "median": quantile(0.5),
        "p90": quantile(0.9),
        "p99": quantile(0.99),
        "p99_9": quantile(0.999),
        "max": kl.max(),
        "same_top_1": same,
        "same_top_5": top,
        "rms_probability_difference": (change**2).mean().sqrt(),
    }


def main(program, sample):
    sample = pathlib.Path(sample)
    forms = [sample / "hf", *sorted(p for p in sample.iterdir() if p.suffix == ".gguf")]
    forms += sorted(p for p in sample.iterdir() if p.name.startswith("mlx-"))
    tokenizer = AutoTokenizer.from_pretrained(sample / "hf")
    ids = tokenizer(TEXT.read_text(), return_tensors="pt").input_ids[0]
    report = subprocess.run([program, "compare", *forms, "--json"], capture_output=True, check=True)
    report = json.loads(report.stdout)
    context = report["context"]
    windows = [ids[at : at + context] for at in range(0, len(ids) - context + 1, context)]
    assert report["tokens"] == len(windows) * context, (report["tokens"], len(ids))
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        base = None
        for number, (form, found) in enumerate(zip(forms, report["models"])):
            copy = pathlib.Path(folder) / str(number)
            words = ["convert", form, copy, "--to", "safetensors", "--dtype", "F32"]
            subprocess.run([program, *words], check=True, capture_output=True)
            own = log_probabilities(copy, windows)
            base = base or own
            found = found | (found.pop("divergence", None) or {})
            for key, value in figures(base, own, windows).items():
                if key not in found:
                    continue
                value = value.item()
                single = key in ("median", "max") or key.startswith("p9")
                if abs(found[key] - value) > (1e-3 if single else 1e-4) * abs(value) + 1e-9:
                    faults += 1
                    print(f"{form.name}: {key} is {found[key]}, but {value} by transformers")
            print(f"{form.name}: perplexity {found['perplexity']:.4f}, mean KL {found.get('mean', 0):.3e}")
    print(f"{len(forms)} forms, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
