"""Every view, on models in every container: nothing fails, nothing is asked of anybody else, and the numbers are
those of the other verbs."""

import json
import os
import pathlib
import re
import urllib.parse

import pytest

from conftest import GGUF, HF, MLX, SHOTS, Watched, dump, program, report, serving, until

FIXTURES = pathlib.Path(os.environ.get("WEIGHBRIDGE_FIXTURES", "no-fixtures"))
MODELS = [
    HF, GGUF, MLX,
    *[path for name in (
        "gguf/model/llama-f16.gguf", "gguf/split/mixtral-split-00001-of-00003.gguf", "hf/qwen3-bf16-sharded",
        "hf/mixtral-bf16", "hf/bert-f32", "hf/whisper-f32", "hf/deepseek-fp8-block128", "hfq/gptq-4bit-g128-actorder",
        "hfq/bnb-nf4-dq", "hfq/ct-nvfp4", "hfq/gptoss-mxfp4", "mlx/mixtral-mxfp4", "mlx/qwen3-mixed-modes",
        "real/for-tests-silero-v6.2.0-ggml.bin", "real/voices.safetensors",
    ) if (path := FIXTURES / name).exists()],
]
VIEWS = ["overview", "tensors", "tensors?values=1", "tensors?fold=1", "layers", "layers?statistic=bits", "findings", "tokens"]


def check_shown(page):
    assert page.locator("h1").count() == 1
    assert page.locator("h1").inner_text() != "This cannot be shown", page.locator("main").inner_text()
    assert page.locator("main .notice:has(strong:text-is('Error'))").count() == 0, page.locator("main").inner_text()
    wider = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert wider <= 0, f"the page is {wider} px wider than the window"


@pytest.mark.slow
@pytest.mark.parametrize("path", MODELS, ids=lambda path: str(path).split("fixtures/")[-1])
def test_every_view_of_every_container(watched, path):
    with serving(path) as (address, _):
        for view in VIEWS:
            page = watched.open(address, f"/0/{view}")
            watched.settled()
            check_shown(page)
        names = [tensor["name"] for tensor in report("inspect", path)["tensors"]]
        for name in {*names[:2], *names[-2:], *names[:: max(1, len(names) // 4)]}:
            page = watched.open(address, f"/0/tensor/{urllib.parse.quote(name, safe='')}")
            watched.settled()
            check_shown(page)
            assert page.locator("h1").inner_text() == name
            watched.check()


@pytest.mark.slow
def test_ollama(watched):
    if not (FIXTURES / "ollama/store").exists():
        pytest.skip("no fixtures")
    env = {"OLLAMA_MODELS": str(FIXTURES / "ollama/store")}
    names = [model["name"] for model in json.loads(program("models", "--json", env=env).stdout)["models"]]
    assert names
    shown = 0
    for name in names[:4]:
        if program("inspect", name, env=env).returncode != 0:
            continue
        with serving(name, env=env) as (address, _):
            for view in VIEWS:
                check_shown(watched.open(address, f"/0/{view}"))
        shown += 1
    assert shown


def fact(page, label):
    value = page.locator(f"main .facts div:has(dt:text-is('{label}')) dd").first.inner_text()
    return float(re.match(r"[−\d.,e]+", value)[0].replace("−", "-").replace(",", ""))


def test_numbers_are_those_of_dump(watched, sample):
    for model, path, name in [(1, GGUF, "blk.0.attn_q.weight"), (2, MLX, "model.layers.1.mlp.up_proj.weight"), (0, HF, "model.norm.weight")]:
        page = watched.open(sample, f"/{model}/tensor/{name}")
        watched.settled()
        values = dump(path, name)
        mean = sum(values) / len(values)
        deviation = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
        for label, expected in [("Mean", mean), ("Deviation", deviation), ("Least", min(values)), ("Largest", max(values))]:
            assert abs(fact(page, label) - expected) <= abs(expected) * 6e-4 + 1e-12, (name, label)
        quantiles = page.locator("section:has(h2:text-is('Quantiles')) tbody tr").all_inner_texts()
        middle = next(text for text in quantiles if text.startswith("50 %")).split("\t")[-1].replace("−", "-")
        median = sorted(values)[len(values) // 2]
        assert abs(float(middle) - median) <= abs(median) * 0.02 + 1e-4


def test_single_numbers_are_those_of_dump(watched, sample):
    page = watched.open(sample, "/1/tensor/blk.1.ffn_down.weight?rows=7-9&columns=30-36")
    watched.settled()
    values = dump(GGUF, "blk.1.ffn_down.weight")
    page.locator(".heat canvas").scroll_into_view_if_needed()
    box = page.locator(".heat canvas").bounding_box()
    for i in range(2):
        for j in range(6):
            page.mouse.move(box["x"] + box["width"] * (j + 0.5) / 6, box["y"] + box["height"] * (i + 0.5) / 2)
            text = page.locator(".heat + .readout").inner_text()
            place, number = re.match(r"row (\d+), column (\d+), block \d+ with scale 0.00\d+: (.+)", text).group(0, 3)
            assert f"row {7 + i}, column {30 + j}," in place
            expected = values[(7 + i) * 512 + 30 + j]
            assert abs(float(number) - expected) <= abs(expected) * 1e-6, text


def test_sub_blocks_of_single_numbers(watched):
    path = FIXTURES / "gguf/quant/llama-Q4_K_M.gguf"
    if not path.exists():
        pytest.skip("no fixtures")
    name = next(tensor["name"] for tensor in report("inspect", path)["tensors"] if tensor["dtype"] == "Q4_K")
    values = dump(path, name)
    with serving(path) as (address, _):
        page = watched.open(address, f"/0/tensor/{name}?rows=0-1&columns=28-36")
        watched.settled()
        page.locator(".heat canvas").scroll_into_view_if_needed()
        box = page.locator(".heat canvas").bounding_box()
        scales = {}
        for j in range(8):
            page.mouse.move(box["x"] + box["width"] * (j + 0.5) / 8, box["y"] + box["height"] / 2)
            text = page.locator(".heat + .readout").inner_text()
            block, inner, scale, number = re.match(r"row 0, column \d+, block (\d+) with scale .+, sub-block (\d+) with scale (.+): (.+)", text).groups()
            assert (int(block), int(inner)) == (0, (28 + j) // 32), text
            assert abs(float(number) - values[28 + j]) <= abs(values[28 + j]) * 1e-6, text
            scales.setdefault(inner, []).append((float(scale.replace("\u2212", "-")), values[28 + j]))
        # Values of a sub-block are multiples of its scale apart; the page shows four digits of it.
        for [(scale, first), *others] in scales.values():
            for _, value in others:
                steps = (value - first) / scale
                assert abs(steps - round(steps)) < 0.02, (scale, first, value)


def test_differences_are_those_of_diff(watched, sample):
    page = watched.open(sample, "/compare/0/2")
    watched.settled()
    found = report("diff", HF, MLX)
    different = {tensor["name"]: tensor for tensor in found["different"]}
    assert int(fact(page, "Tensors that differ")) == len(different)
    summary = program("diff", HF, MLX).stdout.decode()
    overall = float(re.search(r"relative RMS ([\d.]+) %", summary)[1])
    assert abs(fact(page, "Relative RMS") - overall) < 0.01 + overall * 0.01
    assert abs(found["relative_rms"] * 100 - overall) < 0.001
    worst = max(different.values(), key=lambda tensor: tensor["relative_rms"])
    first = page.locator(".t-row").first
    assert first.locator("a").inner_text() == worst["name"]
    first.locator("a").click()
    page.wait_for_selector(f"h1:has-text('{worst['name']}')")
    watched.settled()
    assert abs(fact(page, "Cosine") - worst["cosine"]) < 1e-6
    assert abs(fact(page, "Largest difference") - worst["max_difference"]) <= worst["max_difference"] * 6e-4


def test_metadata_is_exact(watched):
    """JavaScript would round whole numbers beyond 2^53."""
    path = FIXTURES / "gguf/misc/kvtypes.gguf"
    if not path.exists():
        pytest.skip("no fixtures")
    with serving(path) as (address, _):
        page = watched.open(address, "/0/overview")
        table = page.locator("[data-table=Metadata]")
        shown = {}
        for place in (0, 99_999):
            table.evaluate("(box, top) => { box.scrollTop = top; }", place)
            page.wait_for_timeout(100)
            shown |= {row.locator("> div").nth(0).inner_text(): row.locator("> div").nth(2).inner_text() for row in table.locator(".t-row").all()}
    assert shown["t.u64"] == "18446744073709551615" and shown["t.i64"] == "-9223372036854775808", shown
    assert shown["t.arr.u64"] == "[9223372036854775808, 18446744073709551615]"
    assert shown["t.f32"] == "-0" and shown["t.u32"] == "4294967295"


def test_keyboard(watched, sample):
    page = watched.open(sample, "/1/tensors")
    page.keyboard.press("/")
    page.keyboard.type("attn_v q8")
    until(page, "document.querySelector('.table').getAttribute('aria-rowcount') === '3'")
    until(page, "location.hash.includes('filter=attn_v+q8')")
    page.locator(".table").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('blk.1.attn_v.weight')")
    assert page.evaluate("document.activeElement.tagName") == "H1"
    watched.settled()
    page.locator(".heat canvas").focus()
    page.keyboard.press("+")
    until(page, "location.hash.includes('rows=')")
    page.keyboard.press("0")
    until(page, "!location.hash.includes('rows=')")
    page.go_back()
    page.wait_for_selector("h1:text-is('Tensors')")
    assert page.locator("input[type=search]").input_value() == "attn_v q8"


def test_what_is_taken_away(watched, sample):
    page = watched.open(sample, "/1/tensors")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    lines = pathlib.Path(download.value.path()).read_text().splitlines()
    assert len(lines) == 21 and lines[0].startswith("stored,canonical,dtype,shape")
    page = watched.open(sample, "/1/tensor/blk.0.attn_q.weight")
    watched.settled()
    for place, kind in [(0, b"\x89PNG"), (1, b"\x89PNG")]:
        with page.expect_download() as download:
            page.get_by_role("button", name="PNG").nth(place).click()
        assert pathlib.Path(download.value.path()).read_bytes().startswith(kind)
    command = page.locator(".command code").inner_text()
    assert command == f"weighbridge inspect {GGUF} blk.0.attn_q.weight"
    assert program(*command.split()[1:]).returncode == 0


def test_what_is_not_there_is_said(watched, sample):
    page = watched.open(sample, "/1/tensor/no.such.tensor")
    assert "no tensor is named no.such.tensor" in page.locator("main").inner_text()
    page = watched.open(sample, "/99/nonsense/%E0%A4%A")
    check_shown(page)


def test_a_program_that_has_ended(browser):
    watched = Watched(browser)
    with serving(GGUF) as (address, child):
        page = watched.open(address, "/0/overview")
        child.terminate()
        child.wait(10)
        page.evaluate("location.hash = '#/0/tensor/output_norm.weight'")
        page.wait_for_selector("text=the program does not answer")
    watched.close()


def test_a_report_is_one_file(browser, tmp_path):
    for words in ([GGUF], [HF, MLX]):
        path = tmp_path / f"report-{len(words)}.html"
        assert program("report", *words, "-o", path).returncode == 0
        again = program("report", *words, "-o", path)
        assert again.returncode == 2 and b"already exists" in again.stderr
        watched = Watched(browser)
        watched.host = "file://"
        watched.page.goto(f"file://{path}")
        assert watched.page.locator("table").count() >= 2
        assert watched.page.locator("script").count() == 0
        watched.page.screenshot(path=SHOTS / f"{path.stem}.png", full_page=True)
        watched.check()
        watched.close()
