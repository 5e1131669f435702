"""`compare` beside llama.cpp's perplexity tool.

    perplexity.py WEIGHBRIDGE LLAMA_PERPLEXITY FOLDER

converts the sample to F32, quantizes it, and runs both programs over the same text. llama.cpp multiplies with activations
that it quantizes, so that it runs the values of the quantized file, in F32, with a cache in F32. It stores the
predictions of the first model in 16 bits.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = ROOT / "reference/assets/comparison.txt"
CONTEXT = "128"
# What both call the figure, and how far they may differ: a part of the larger, and a number.
FIGURES = [
    ("perplexity", r"Mean PPL\(Q\) +: +([\d.]+)", 1e-5, 0),
    ("perplexity_error", r"Mean PPL\(Q\) +: +[\d.]+ ± +([\d.]+)", 1e-5, 0),
    ("mean", r"Mean +KLD: +([\d.]+)", 1e-3, 2e-6),
    ("mean_error", r"Mean +KLD: +[\d.]+ ± +([\d.]+)", 1e-2, 1e-6),
    ("median", r"Median +KLD: +([\d.]+)", 0, 1e-5),
    ("p90", r"90.0% +KLD: +([\d.]+)", 0, 6e-5),
    ("p99", r"99.0% +KLD: +([\d.]+)", 0, 6e-5),
    ("p99_9", r"99.9% +KLD: +([\d.]+)", 0, 6e-5),
    ("max", r"Maximum KLD: +([\d.]+)", 0, 1e-4),
    ("rms_probability_difference", r"RMS Δp +: +([\d.]+)", 0, 6e-4),
    ("same_top_1", r"Same top p: +([\d.]+)", 0, 0.15),
]


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{words}: {done.stderr[-2000:]}")
    return done.stdout + done.stderr


def main():
    program, llama, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    first, kept = folder / "f32.gguf", folder / "kept"
    run(program, "convert", ROOT / "assets/sample/hf", first, "--dtype", "F32")
    same = ["-c", CONTEXT, "-ctk", "f32", "-ctv", "f32", "-fa", "off", "--kl-divergence-base", kept]
    run(llama, "-m", first, "-f", TEXT, *same)
    faults = 0
    for name in ("Q8_0", "Q4_K_M", "Q4_0"):
        quantized, values = folder / f"{name}.gguf", folder / f"{name}-F32.gguf"
        run(program, "quantize", first, quantized, "--type", name)
        run(program, "convert", quantized, values, "--dtype", "F32")
        theirs = run(llama, "-m", values, *same, "--kl-divergence")
        ours = json.loads(run(program, "compare", first, quantized, "--context", CONTEXT, "--json"))["models"][1]
        ours.update(ours["divergence"])
        for figure, pattern, part, more in FIGURES:
            found, expected = ours[figure], float(re.search(pattern, theirs)[1])
            if figure in ("same_top_1", "rms_probability_difference"):
                found *= 100
            fine = abs(found - expected) <= part * expected + more
            faults += not fine
            print(f"{name:8} {figure:28} {found:<20.8g} {expected:<20.8g} {'' if fine else 'DIFFERS'}")
    sys.exit(f"{faults} figures differ" if faults else 0)


if __name__ == "__main__":
    main()
