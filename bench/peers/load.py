"""Loads a safetensors file once with one of the Python loaders, and prints seconds, peak memory in
bytes, and 0. Started by benches/load.rs, whose documentation says what is counted."""

import mmap
import os
import sys
import time


def torch(path):
    from safetensors.torch import load_file

    def load():
        # The tensors of load_file borrow from a map of the file.
        return {name: tensor.clone() for name, tensor in load_file(path).items()}

    return load


def mlx(path):
    import mlx.core as mx

    def load():
        tensors = mx.load(path)
        mx.eval(tensors)
        return tensors

    return load


def runai(path, keep=True):
    from runai_model_streamer import SafetensorsStreamer

    def load():
        kept = {}
        with SafetensorsStreamer() as streamer:
            streamer.stream_file(path)
            for name, tensor in streamer.get_tensors():
                # The streamer reuses its buffer.
                kept[name] = tensor.clone() if keep else None
        return kept

    return load


LOADERS = {
    "torch": torch,
    "mlx": mlx,
    "runai": runai,
    "runai, not kept": lambda path: runai(path, keep=False),
}


def take_and_return(length):
    """As in src/machine.rs: the memory that will be needed is there."""
    memory = mmap.mmap(-1, length + (-length) % (2 << 20) + (2 << 20))
    memory.madvise(mmap.MADV_HUGEPAGE)
    block = b"\1" * (8 << 20)
    while memory.tell() + len(block) <= len(memory):
        memory.write(block)
    memory.close()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def peak():
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("VmHWM:"))
    return 1024 * int(line.split()[1])


def main():
    case, path = sys.argv[1:]
    load = LOADERS[case](path)
    take_and_return(os.path.getsize(path))
    start = time.perf_counter()
    tensors = load()
    seconds = time.perf_counter() - start
    peak_bytes = peak()
    if len(tensors) != 146:
        sys.exit(f"{len(tensors)} tensors instead of 146")
    print(seconds, peak_bytes, 0, flush=True)
    # Freeing the memory is not measured.
    os._exit(0)


main()
