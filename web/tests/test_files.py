"""The page without the program: models are files that are dropped on it, and the library runs in the browser. Its
answers are those of the program, byte by byte."""

import json
import os
import pathlib
import re
import struct
import time
import urllib.parse
import urllib.request
import zlib

import brotli
import pytest

from conftest import GGUF, HF, MLX, ROOT, Watched, ask, choose, dump, gguf, opened, serving, until

FIXTURES = pathlib.Path(os.environ.get("WEIGHBRIDGE_FIXTURES", "no-fixtures"))
LIBRARY = ROOT / "target" / "viewer" / "weighbridge.wasm"


def of_program(address, question):
    """The answer of the program to the same question."""
    try:
        with urllib.request.urlopen(f"{address}api/{question}") as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        answer = json.load(error)
        return {"message": answer["message"], "kind": answer["kind"]}


def comparable(answer):
    """An answer without paths, of which a browser knows only the ends, and without the memory of running the model, which
    only the program measures."""
    if isinstance(answer, dict):
        return {key: comparable(value) for key, value in answer.items() if key not in ("path", "file", "files", "memory")}
    if isinstance(answer, list):
        return [comparable(value) for value in answer]
    if isinstance(answer, int) and abs(answer) >= 1 << 53:
        # The page keeps these as texts.
        return str(answer)
    # Sources of values name files too.
    return re.sub(r"\S*/", "", answer) if isinstance(answer, str) else answer


def test_the_library_is_small():
    data = LIBRARY.read_bytes()
    packed = len(brotli.compress(data))
    print(f"weighbridge.wasm: {len(data)} bytes, {len(zlib.compress(data, 9))} with zlib, {packed} with brotli")
    # The text of the families and of the facts about engines is a part of it, and grows with each.
    assert packed <= 760_000


def test_dropped_files(browser, static):
    """A real drop, as the browser gets it from the system, of a file and of a folder."""
    watched = Watched(browser)
    page = watched.open(static)
    assert page.locator("h1").inner_text() == "Drop a model here"
    box = page.locator(".drop").bounding_box()
    session = watched.context.new_cdp_session(page)
    data = {"items": [], "files": [str(ROOT / GGUF), str(ROOT / MLX)], "dragOperationsMask": 1}
    for kind in ["dragEnter", "dragOver", "drop"]:
        session.send("Input.dispatchDragEvent", {"type": kind, "x": box["x"] + 50, "y": box["y"] + 50, "data": data})
        if kind == "dragOver":
            until(page, "document.documentElement.classList.contains('dropping')")
    models = opened(page, 2)
    assert [model["container"] for model in models] == ["mlx", "gguf"], models
    assert page.locator("h1").inner_text() == "Compare"
    watched.settled()
    assert page.locator(".facts dd").first.inner_text() != "–"
    watched.check()
    watched.close()


def test_every_view_without_the_program(browser, static):
    watched = Watched(browser)
    page = watched.open(static)
    choose(page, [HF], folder=True)
    opened(page, 1)
    page.goto(f"{static}#/open")
    choose(page, [GGUF])
    models = opened(page, 2)
    assert [model["container"] for model in models] == ["safetensors", "gguf"]
    routes = [
        "/0/overview", "/1/tensors", "/1/tensors?values=1", "/0/tensors?fold=1", "/1/layers", "/1/tokens?search=the", "/open",
        "/1/tensor/blk.0.attn_q.weight", "/1/tensor/output_norm.weight", "/1/tensor/blk.0.attn_q.weight?rows=0-16&columns=0-14",
        "/0/findings", "/compare/0/1", "/compare/0/1/layers.0.attention.q.weight",
    ]
    for route in routes:
        page = watched.open(static, route)
        watched.settled()
        assert page.locator("h1").count() == 1 and page.locator("h1").inner_text() != "This cannot be shown", route
        assert page.locator("main .notice:has(strong:text-is('Error'))").count() == 0, page.locator("main").inner_text()
        assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0, route
    watched.check()
    watched.close()


def test_the_workbench_without_the_program(browser, static, quantized):
    """The rules and errors are those of the page with the program."""
    watched = Watched(browser)

    def shown(address):
        page = watched.open(address, "/compare/0/all?limit=8")
        watched.settled()
        page.wait_for_selector("section:has(h2:text-is('Ten worst tensors')) figure path")
        legend = page.locator(".legend").first.inner_text()
        return page.locator("pre.text").inner_text(), legend, page.locator("[data-table] .t-row").all_inner_texts()

    with serving(HF, *quantized) as (address, _):
        expected = shown(address)
    page = watched.open(static)
    choose(page, [HF], folder=True)
    opened(page, 1)
    page.goto(f"{static}#/open")
    choose(page, quantized)
    until(page, "document.querySelectorAll('.legend li').length > 0", timeout=60)
    opened(page, 4)
    rules, legend, rows = shown(static)
    assert rules == expected[0] and len(rules.splitlines()) > 3
    assert sorted(legend.split("\n")) == sorted(expected[1].split("\n"))
    assert len(rows) == len(expected[2])
    watched.check()
    watched.close()


def test_files_that_are_no_models(browser, static):
    watched = Watched(browser)
    page = watched.open(static, "/open")
    choose(page, [GGUF, "README.md", "Cargo.toml"])
    page.wait_for_selector("h1:text-is('Open models')")
    assert page.locator(".notice").count() == 1
    watched.check()
    watched.close()


def raw_blocks(folder):
    """GGUF files with the blocks that ggml wrote, one for each dtype: the golden files."""
    codes = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "Q8_1": 9, "Q2_K": 10, "Q3_K": 11, "Q4_K": 12,
             "Q5_K": 13, "Q6_K": 14, "Q8_K": 15, "IQ2_XXS": 16, "IQ2_XS": 17, "IQ3_XXS": 18, "IQ1_S": 19, "IQ4_NL": 20, "IQ3_S": 21,
             "IQ2_S": 22, "IQ4_XS": 23, "I8": 24, "I16": 25, "I32": 26, "I64": 27, "F64": 28, "IQ1_M": 29, "BF16": 30, "TQ1_0": 34,
             "TQ2_0": 35, "MXFP4": 39, "NVFP4": 40}
    made = []
    for path in sorted((FIXTURES / "golden/ggml").glob("*.safetensors")):
        code = codes.get(path.stem)
        if code is None:
            continue
        data = path.read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + length])
        tensors = []
        for kind in ["", "_imatrix", "_random"]:
            if f"raw{kind}" in header and f"expected{kind}" in header:
                first, end = header[f"raw{kind}"]["data_offsets"]
                tensors.append((f"t{kind}", header[f"expected{kind}"]["shape"], data[8 + length + first : 8 + length + end]))
        made.append(blocks(folder / f"{path.stem}.gguf", code, tensors))
    return made


def blocks(path, code, tensors):
    """Writes a GGUF file of tensors with the blocks of one dtype."""
    text = lambda name: struct.pack("<Q", len(name)) + name.encode()
    head, data = [b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 0)], bytearray()
    for name, shape, stored in tensors:
        dims = list(reversed(shape))
        head.append(text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, code, len(data)))
        data += stored + bytes(-len(stored) % 32)
    header = b"".join(head)
    path.write_bytes(header + bytes(-len(header) % 32) + bytes(data))
    return path


def bits(values):
    """The bits of values, but for NaN, of which JSON has one."""
    return ["nan" if value != value else struct.pack("<f", value) for value in values]


def check_values(page, model, path, tensors):
    """Compares all values with those of `dump`, number by number."""
    for at, name in tensors:
        shape = ask(page, f"tensor?model={model}&at={at}")["shape"]
        columns = shape[-1] if shape else 1
        rows = 1
        for dim in shape[:-1]:
            rows *= dim
        found = []
        step = max(1, (1 << 20) // max(1, columns))
        for row in range(0, rows, step):
            end = min(rows, row + step)
            grid = ask(page, f"grid?model={model}&at={at}&height={end - row}&width={columns}&rows={row}-{end}&columns=0-{columns}")
            # A cell of one number has its bits. Of a NaN or an infinity the mean is none, and the magnitude tells.
            found += [float(most) if mean == "NaN" else float(mean) for mean, most in zip(grid["mean"], grid["max"])]
        expected = dump(path, name)
        expected = [abs(value) if value in (float("inf"), float("-inf")) else value for value in expected]
        assert bits(found) == bits(expected), f"{path}: {name}"


def check_same(page, address, model, number):
    """Compares the answers to all questions about a model. Gives the names of its tensors."""
    name = {"model": model}
    theirs = {"model": number}
    names = of_program(address, f"tensors?model={number}").get("name", [])
    questions = ["overview", "tensors", "tokens", "findings", "statistics?from=0", "statistics?from=0&bins=33&low=-0.01&high=0.02"]
    for at in range(len(names)):
        questions += [f"tensor?at={at}", f"standouts?at={at}", f"grid?at={at}&height=64&width=64", f"grid?at={at}&height=8&width=8&rows=0-4&columns=0-5"]
    for question in questions:
        path, _, query = question.partition("?")
        ours = ask(page, f"{path}?{urllib.parse.urlencode(name)}&{query}")
        expected = of_program(address, f"{path}?{urllib.parse.urlencode(theirs)}&{query}")
        assert comparable(ours) == comparable(expected), question
    return names


def test_values_of_every_dtype_are_those_of_the_program(browser, static, tmp_path):
    if not FIXTURES.exists():
        pytest.skip("no fixtures")
    files = [*raw_blocks(tmp_path), *sorted((FIXTURES / "gguf/quant").glob("*.gguf")), FIXTURES / "gguf/misc/alltypes.gguf"]
    assert len(files) > 50
    watched = Watched(browser)
    page = watched.open(static)
    choose(page, files)
    models = opened(page, len(files))
    by_name = {model["path"]: at for at, model in enumerate(models)}
    dtypes, values = set(), 0
    with serving(*files) as (address, _):
        for number, path in enumerate(files):
            model = by_name[path.name]
            names = check_same(page, address, model, number)
            table = ask(page, f"tensors?model={model}")
            dtypes |= set(table["dtypes"])
            small = path.parent == tmp_path
            readable = [(at, name) for at, name in enumerate(names) if ask(page, f"tensor?model={model}&at={at}")["unreadable"] is None]
            check_values(page, model, path, readable if small else readable[:2])
            values += len(readable)
    print(f"{len(files)} files, {values} tensors, {len(dtypes)} dtypes: {' '.join(sorted(dtypes))}")
    assert len(dtypes) >= 33, dtypes
    watched.check()
    watched.close()


@pytest.mark.slow
def test_every_fixture_is_that_of_the_program(browser, static):
    """The folders, and the files that the tests above and below have not compared."""
    if not FIXTURES.exists():
        pytest.skip("no fixtures")
    folders = [config.parent for kind in ("hf", "hfq", "mlx") for config in sorted((FIXTURES / kind).glob("*/config.json"))]
    files = [path for path in sorted(FIXTURES.glob("gguf/*/*.gguf")) if path.parent.name not in ("quant", "split")]
    files += [path for path in sorted((FIXTURES / "real").iterdir()) if path.suffix in (".bin", ".gguf", ".safetensors")]
    assert len(folders) > 30 and len(files) > 15, (len(folders), len(files))
    watched, tensors = Watched(browser), 0
    with serving(*folders, *files) as (address, _):
        for number, path in enumerate(folders + files):
            page = watched.open(static)
            page.reload()
            page.wait_for_selector("input[type=file]", state="attached")
            choose(page, [path], folder=path.is_dir())
            opened(page, 1)
            names = check_same(page, address, 0, number)
            readable = [(at, name) for at, name in enumerate(names) if ask(page, f"tensor?model=0&at={at}")["unreadable"] is None]
            check_values(page, 0, path, readable[-2:])
            tensors += len(names)
    print(f"{len(folders)} folders, {len(files)} files, {tensors} tensors")
    watched.check()
    watched.close()


def test_shards_and_pairs(browser, static):
    shards = sorted((FIXTURES / "gguf/split").glob("*.gguf"))
    if not shards:
        pytest.skip("no fixtures")
    watched = Watched(browser)
    page = watched.open(static)
    choose(page, [*shards, ROOT / GGUF])
    models = opened(page, 2)
    page.goto(f"{static}#/open")
    page.wait_for_selector("input[type=file]", state="attached")
    choose(page, [MLX], folder=True)
    models = opened(page, 3)
    sample, mlx = [next(at for at, model in enumerate(models) if model["path"] == name) for name in ("sample-Q8_0.gguf", "mlx-4bit")]
    with serving(shards[0], GGUF, MLX) as (address, _):
        check_same(page, address, next(at for at in range(3) if at not in (sample, mlx)), 0)
        for question in ["pairs?", "differences?", "differences?pair=3&", "clipping?pair=3&", "grid?pair=3&side=difference&", "statistics?pair=3&side=b&"]:
            ours = ask(page, f"{question}a={sample}&b={mlx}")
            expected = of_program(address, f"{question}a=1&b=2")
            assert comparable(ours) == comparable(expected), question
    watched.check()
    watched.close()


def test_beyond_four_gigabytes(browser, static, tmp_path):
    """A file of 6 GiB, most of which is a hole. What is looked at is read, and nothing else; work ends when it is no
    longer wanted."""
    rows, columns = 5 << 18, 1024
    values = [0.5, -1.5, 3.25, 8.0] * 64
    text = lambda name: struct.pack("<Q", len(name)) + name.encode()
    large = rows * columns * 4
    head = b"GGUF" + struct.pack("<IQQ", 3, 2, 0)
    head += text("large") + struct.pack("<IQQIQ", 2, columns, rows, 0, 0) + text("last") + struct.pack("<IQIQ", 1, len(values), 0, large)
    head += bytes(-len(head) % 32)
    path = tmp_path / "large.gguf"
    with open(path, "wb") as file:
        file.write(head)
        file.seek(len(head) + large - 4 * columns)
        file.write(struct.pack("<1024f", *range(columns)))
        file.write(struct.pack(f"<{len(values)}f", *values))
    assert path.stat().st_size > 5 << 30
    watched = Watched(browser)
    page = watched.open(static)
    choose(page, [path])
    opened(page, 1)
    [last] = ask(page, "statistics?model=0&at=1")["tensors"]
    assert (last["elements"], last["min"]["value"], last["max"]["value"]) == (256, -1.5, 8.0)
    corner = ask(page, f"grid?model=0&at=0&height=2&width=4&rows={rows - 2}-{rows}&columns=1020-1024")
    assert corner["mean"] == [0.0, 0.0, 0.0, 0.0, 1020.0, 1021.0, 1022.0, 1023.0]
    # The statistics of the large tensor take long. The page answers meanwhile, and ends them when it goes on.
    page = watched.open(static, "/0/tensor/large")
    page.wait_for_selector(".busy:has-text('%')", timeout=30_000)
    longest = page.evaluate("""async () => {
        let [longest, last] = [0, performance.now()];
        for (let step = 0; step < 60; step += 1) {
            await new Promise(requestAnimationFrame);
            longest = Math.max(longest, performance.now() - last);
            last = performance.now();
        }
        return longest;
    }""")
    print(f"the longest frame while 5 GiB are read took {longest:.0f} ms")
    begun = time.monotonic()
    page = watched.open(static, "/0/tensor/last")
    watched.settled()
    taken = time.monotonic() - begun
    print(f"another tensor is shown after {taken:.1f} s")
    page.wait_for_selector("dd:has-text('−1.5')")
    watched.check()
    watched.close()


def vocabulary(path, size):
    """A GGUF with a vocabulary, 700 tensors and little else."""
    tokens = [f"▁token{number}" for number in range(size)]
    merges = [f"▁tok {number}" for number in range(size)]
    keys = {"general.architecture": "llama", "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": merges,
            "tokenizer.ggml.token_type": [1] * size}
    return gguf(path, keys, [(f"blk.{n}.attn_q.weight", [1.0]) for n in range(700)])


def test_a_large_vocabulary(browser, static, tmp_path):
    path = vocabulary(tmp_path / "vocabulary.gguf", 256_000)
    assert 9_000_000 <= path.stat().st_size < 14_000_000, path.stat().st_size
    watched = Watched(browser)
    page = watched.open(static)
    begun = time.monotonic()
    choose(page, [path])
    opened(page, 1)
    taken = time.monotonic() - begun
    print(f"a header of {path.stat().st_size >> 20} MiB is opened and shown after {taken:.2f} s")
    begun = time.monotonic()
    found = ask(page, "tokens?model=0&search=token25599")
    taken = time.monotonic() - begun
    print(f"{found['total']} of 256,000 tokens are found after {taken:.2f} s")
    assert found["total"] == 11
    watched.check()
    watched.close()
