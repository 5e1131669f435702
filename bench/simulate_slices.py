"""Simulates workers that run the slices of a plan, some of which fail.

    weighbridge plan convert SRC DST -o plan.json
    python3 bench/simulate_slices.py plan.json --slices 4000 --workers 1000 --failures 0.05

The work of a slice is that of the plan's own numbers: bytes copied, and values quantized or converted as
the bytes that take as long. A worker that fails has done a random part of its slice, which is lost, and the
slice goes to the end of the queue. Prints how the work is balanced, and how much time is lost.
"""

import argparse
import heapq
import json
import random


def pieces(plan):
    """The work of each piece, as `Slices` counts it: pieces of a tensor are taken to be equal."""
    for file in plan["files"]:
        if file["header_bytes"]:
            yield file["header_bytes"]
        for tensor in file["tensors"]:
            if tensor["pieces"] is None:
                raise SystemExit("a plan for an object store, whose pieces are parts: plan for files")
            for _ in range(tensor["pieces"]):
                yield tensor["work"] / tensor["pieces"]


def cut(work, slices):
    """The work of each slice: those pieces whose work starts in its part of all work."""
    total, before = sum(work), 0.0
    sums = [0.0] * slices
    for piece in work:
        sums[min(int(before * slices / total), slices - 1)] += piece
        before += piece
    return sums


def simulate(sums, workers, failures, rng):
    """The time until the last slice is done, and the work that was lost."""
    queue, busy, lost, end = list(range(len(sums))), [], 0.0, 0.0
    free = [0.0] * workers
    heapq.heapify(free)
    while queue or busy:
        if queue:
            slice_, start = queue.pop(0), heapq.heappop(free)
            failed = rng.random() < failures
            spent = sums[slice_] * (rng.random() if failed else 1.0)
            heapq.heappush(busy, (start + spent, slice_, failed, spent))
            if queue and free:
                continue
        time, slice_, failed, spent = heapq.heappop(busy)
        heapq.heappush(free, time)
        if failed:
            lost += spent
            queue.append(slice_)
        end = max(end, time)
    return end, lost


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plan")
    parser.add_argument("--slices", type=int, default=4000)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--failures", type=float, default=0.05, help="share of runs that fail")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with open(options.plan, encoding="utf-8") as file:
        plan = json.load(file)["plan"]
    work = list(pieces(plan))
    sums = cut(work, options.slices)
    mean = sum(sums) / len(sums)
    print(f"{len(work)} pieces in {len(sums)} slices")
    print(f"largest slice: {max(sums) / mean:.3f} of the mean; smallest: {min(sums) / mean:.3f}")
    rng = random.Random(options.seed)
    end, lost = simulate(sums, options.workers, options.failures, rng)
    ideal = sum(sums) / options.workers
    print(f"work lost to failures: {100 * lost / sum(sums):.1f} %")
    print(f"time: {end / ideal:.3f} of the ideal, without failures and with perfect balance")


if __name__ == "__main__":
    main()
