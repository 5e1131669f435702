"""What the page says about a quantization, and about what is odd; and how one finds the way in it."""

import http.server
import json
import os
import pathlib
import re
import shlex
import subprocess
import threading
import time

import pytest
from axe_playwright_python.sync_playwright import Axe

from conftest import GGUF, HF, PROGRAM, ROOT, RULES, Watched, dump, gguf, matrices, program, report, serving, until

FIXTURES = pathlib.Path(os.environ.get("WEIGHBRIDGE_FIXTURES", "no-fixtures"))


@pytest.fixture(scope="module")
def bench(quantized):
    with serving(HF, *quantized) as (address, _):
        yield address


def fact(page, label):
    return page.locator(f"main .facts div:has(dt:text-is('{label}')) dd").first.inner_text()


# 1: Compare.


def test_bars_by_kind_name_dtypes_and_filter(watched, bench):
    page = watched.open(bench, "/compare/0/3")
    watched.settled()
    page.get_by_role("button", name="By kind").click()
    rows = page.locator(".bars > div")
    assert rows.count() == 3
    assert "Q2_K" in rows.first.inner_text()
    boxes = [rows.nth(place).bounding_box() for place in range(3)]
    assert all(above["y"] + above["height"] <= below["y"] for above, below in zip(boxes, boxes[1:])), "labels overlap"
    shown = {row.locator("a").inner_text(): row.locator(".num").inner_text() for row in rows.all()}
    page.locator(".bars a:text-is('attention')").click()
    until(page, "location.hash.includes('filter=kind%3Aattention')")
    watched.settled()
    assert page.locator(".table").first.get_attribute("aria-rowcount") == "9"
    # The mean over the matrices, weighted by size.
    found = report("diff", HF, quantized_path(page))["different"]
    some = [tensor for tensor in found if ".attention." in tensor["name"]]
    mean = sum(one["relative_rms"] * one["elements"] for one in some) / sum(one["elements"] for one in some)
    assert abs(float(shown["attention"].split("\u00a0")[0]) - mean * 100) < mean * 0.6


def quantized_path(page):
    return shlex.split(page.locator(".command code").last.inner_text())[3]


def test_counts_of_a_comparison(watched, bench):
    page = watched.open(bench, "/compare/0/3")
    watched.settled()
    assert "none with the same bytes" in fact(page, "Equal")
    assert fact(page, "Tensors that differ").replace("\n", " ") == "15 of 20"
    size = pathlib.Path(quantized_path(page)).stat().st_size
    assert fact(page, "Size of B") == f"{size / 1024:.1f}\u00a0KiB"


# 2: the first view, and names.


def test_equal_models_have_no_bars(watched, tmp_path):
    (tmp_path / "copy.gguf").write_bytes((ROOT / GGUF).read_bytes())
    with serving(GGUF, tmp_path / "copy.gguf") as (address, _):
        page = watched.open(address)
        watched.settled()
        assert fact(page, "Equal").replace("\n", " ") == "20 all with the same bytes"
        assert page.locator("h2:text-is('Where it hurts')").count() == 0


def test_compare_comes_first_and_names_are_distinguished(watched, tmp_path):
    paths = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        paths.append(tmp_path / folder / "model.gguf")
        paths[-1].write_bytes((ROOT / GGUF).read_bytes())
    with serving(*paths) as (address, _):
        page = watched.open(address)
        assert page.locator("h1").inner_text() == "Compare"
        assert page.locator("main select").first.locator("option").all_inner_texts() == ["one/model.gguf", "two/model.gguf"]
        watched.settled()
        watched.check()


# 3: the way back.


def test_back_restores_the_list(watched, deep):
    with serving(deep) as (address, _):
        page = watched.open(address, "/0/tensors")
        page.get_by_role("button", name="Size").click()
        until(page, "location.hash.includes('sort=Size+down')")
        page.locator(".table").evaluate("(box) => { box.scrollTop = 200; }")
        page.wait_for_timeout(100)
        row = page.locator(".t-row").filter(has_text="attn_q").nth(4)
        row.scroll_into_view_if_needed()
        page.wait_for_timeout(100)
        top = page.locator(".table").evaluate("(box) => box.scrollTop")
        assert top > 0
        name = row.locator("a").inner_text()
        # Not the name: the row.
        row.locator("> div").nth(2).click()
        page.wait_for_selector(f"h1:has-text('{name}')")
        watched.settled()
        page.go_back()
        page.wait_for_selector("h1:text-is('Tensors')")
        assert page.locator("[aria-sort=descending]").inner_text().startswith("Size")
        until(page, f"document.querySelector('.table').scrollTop === {top}")
        assert page.locator(".t-row.active a").inner_text() == name


# 4: layers.


def test_spread_of_layers(watched, deep):
    with serving(deep) as (address, _):
        page = watched.open(address, "/0/layers")
        watched.settled()
        assert page.locator("figure .small").count() == 3
        assert "±" in page.locator("figure", has_text="attention_norm").locator(".small").inner_text()
        # A value that is equal in all layers is a flat line at its height, from 0.
        page.get_by_role("button", name="Bits per weight").click()
        text = page.locator("figure").first.inner_text()
        assert "all 32" in text, text
        heights = page.locator("figure").first.locator("circle").evaluate_all("(all) => all.map((one) => one.getAttribute('cy'))")
        assert len(heights) == 13 and set(heights) == {"8"}


def test_lines_break_at_layers_that_are_not_read(watched, deep):
    with serving(deep) as (address, _):
        page = watched.open(address, "/0/overview")
        line = page.evaluate("""async () => {
            const { depth } = await import('./charts.js');
            const points = [1, 2, NaN, 4, 5].map((value, layer) => ({ layer, value, href: '#', title: '' }));
            return depth(points, { label: 'x' }).querySelector('.line').getAttribute('d');
        }""")
        assert line.count("M") == 2 and line.count("L") == 2, line


# 5: the overview.


def test_overview_says_what_is_outside_the_layers(watched, bench):
    page = watched.open(bench, "/0/overview")
    assert "Outside the layers: 256.5\u00a0KiB" in page.locator(".outside").inner_text()
    assert page.locator("main svg.chart g a").count() == 2
    memory = report("memory", HF)
    assert fact(page, "Memory to run").startswith(f"{memory['total'] / 1024**2:.1f}\u00a0MiB")
    assert f"with {memory['context']} tokens" in fact(page, "Memory to run")
    assert "No chat template" in page.locator("main").inner_text()
    special = page.locator("dl.pairs").inner_text()
    assert "<s>" in special and "</s>" in special


# 6: the heat map.


def test_places_of_the_heat_map(watched, deep):
    with serving(deep) as (address, _):
        page = watched.open(address, "/0/tensor/blk.4.attn_q.weight")
        watched.settled()
        largest = page.locator("section:has(h2:text-is('What stands out')) tbody tr").first
        values = [(abs(value), place) for place, value in enumerate(dump(deep, "blk.4.attn_q.weight"))]
        place = max(values)[1]
        assert largest.locator("a").inner_text() == f"{place // 32}, {place % 32}"
        rows = page.locator(".three > div:has(h3:text-is('Rows with most outliers')) tbody tr")
        assert rows.first.locator("a").inner_text() == "9"
        page.get_by_role("button", name="Fix colors").click()
        ends = page.locator(".scale span").first.inner_text()
        largest.locator("a").click()
        until(page, "location.hash.includes('rows=')")
        watched.settled()
        first, end = map(int, re.search(r"rows=(\d+)-(\d+)", page.url).groups())
        assert first <= place // 32 < end and end - first == 16
        page.locator(".facts a").first.click()
        until(page, "location.hash.includes('rows=')")
        assert ends


def test_colors_can_be_fixed(watched, deep):
    with serving(deep) as (address, _):
        page = watched.open(address, "/0/tensor/blk.4.attn_q.weight")
        watched.settled()
        end = lambda: page.locator(".scale > span").nth(1).inner_text()
        whole = end()
        page.get_by_role("button", name="Fix colors").click()
        page.locator(".heat canvas").focus()
        for _ in range(2):
            page.keyboard.press("+")
            watched.settled()
        assert end() == whole
        page.get_by_role("button", name="Fix colors").click()
        page.keyboard.press("Escape")
        page.evaluate("location.hash = '#/0/tensor/blk.4.attn_q.weight?rows=20-30&columns=0-10'")
        page.wait_for_timeout(200)
        watched.settled()
        assert end() != whole


def darkness(page):
    """How much darker the middle column of the heat map is than those next to it."""
    return page.locator(".heat canvas").evaluate("""(canvas) => {
        const { width, height } = canvas;
        const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
        const light = (x) => {
            let sum = 0;
            for (let y = 0; y < height; y += 1) for (let part = 0; part < 3; part += 1) sum += data[(y * width + x) * 4 + part];
            return sum / height / 3;
        };
        const middle = Math.round(width / 2);
        return (light(middle - 4) + light(middle + 4)) / 2 - Math.min(light(middle - 1), light(middle));
    }""")


def test_blocks_are_marked_where_there_is_room(browser):
    watched = Watched(browser, viewport={"width": 360, "height": 740})
    with serving(GGUF) as (address, _):
        # Sixteen blocks of 32 columns, and two.
        for part, marked in [("", False), ("?rows=0-64&columns=0-64", True)]:
            page = watched.open(address, f"/0/tensor/blk.0.ffn_down.weight{part}")
            watched.settled()
            assert (darkness(page) > 25) == marked, (part, darkness(page))
    watched.check()
    watched.close()


def test_a_heat_map_that_is_computed_says_so(watched, deep):
    with serving(deep) as (address, _):
        held, hold = [], [True]
        watched.page.route("**/api/grid?*", lambda route: held.append(route) if hold else route.continue_())
        page = watched.open(address, "/0/tensor/blk.4.attn_q.weight")
        page.wait_for_selector(".heat .over:not([hidden]):has-text('Reading the values')")
        hold.clear()
        for route in held:
            route.continue_()
        watched.settled()
        assert page.locator(".heat .over:not([hidden])").count() == 0


# 7: narrow windows.


def test_names_and_sizes_at_360_pixels(browser, tmp_path):
    names = [f"model.layers.{layer}.mlp.experts.{expert}.down_proj.weight" for layer in (0, 1) for expert in range(3)]
    path = gguf(tmp_path / "long.gguf", {"general.architecture": "unknown"}, [(name, [1.0] * 60_000) for name in names])
    watched = Watched(browser, viewport={"width": 360, "height": 740})
    with serving(path, GGUF) as (address, _):
        page = watched.open(address, "/0/tensors")
        texts = page.locator(".t-row > div:first-child").all_inner_texts()
        assert len(set(texts)) == len(names), texts
        cells = page.locator(".t-row > div").evaluate_all("(all) => all.filter((one) => one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0).map((one) => one.textContent)")
        assert cells == []
        assert "KiB" in page.locator(".t-row").first.inner_text()
        page = watched.open(address, "/1/overview")
        broken = page.locator("td .breakable").evaluate_all("""(all) => all.filter((one) => {
            const range = document.createRange();
            return [...one.childNodes].some((text) => { range.selectNodeContents(text); return text.nodeType === 3 && range.getClientRects().length > 1; });
        }).map((one) => one.textContent)""")
        assert broken == []
    watched.check()
    watched.close()


# 8: folded layers.


def test_groups_have_values(watched, deep):
    with serving(deep) as (address, _):
        page = watched.open(address, "/0/tensors?values=1&fold=1")
        watched.settled()
        group = page.locator(".t-row.group", has_text="layer 0")
        assert group.count() == 1
        cells = group.locator("> div").all_inner_texts()
        entries = report("inspect", deep, "--stats")["tensors"]
        some = [one for one in entries if one["name"].startswith("blk.0.")]
        most = max(one["max"]["value"] for one in some)
        assert abs(float(cells[5]) - most) < most * 1e-3, cells
        assert page.get_by_role("button", name="Layers", exact=True).count() == 0


# 9: what cannot be read, and a program that has ended.


def test_one_unreadable_tensor_stops_no_other(watched, tmp_path):
    path = gguf(tmp_path / "cut.gguf", {"general.architecture": "llama"}, [(f"blk.{layer}.attn_q.weight", [float(layer + 1)] * 5000) for layer in range(4)])
    with serving(path) as (address, _):
        os.truncate(path, path.stat().st_size - 4000)
        page = watched.open(address, "/0/layers")
        watched.settled()
        notice = page.locator(".notices .notice.bad")
        assert "1 tensor cannot be read" in notice.inner_text() and "blk.3.attn_q.weight" in notice.inner_text()
        assert page.locator("figure circle").count() == 3


def test_a_program_that_has_ended_leaves_the_page(browser):
    watched = Watched(browser)
    with serving(GGUF) as (address, child):
        page = watched.open(address, "/0/tensors")
        child.terminate()
        child.wait(10)
        page.evaluate("location.hash = '#/0/tensor/output_norm.weight'")
        page.wait_for_selector("#ended")
        assert f"weighbridge view {GGUF}" in page.locator("#ended").inner_text()
        assert page.locator(".t-row").count() > 10
    watched.close()


# 10: addresses.


@pytest.mark.parametrize("route", ["/9/overview", "/compare/0/7", "/0/foo", "/0/tensors/more", "/x"])
def test_unknown_addresses_say_so(watched, bench, route):
    page = watched.open(bench, route)
    assert page.locator("h1").inner_text() == "There is no such view"
    assert route in page.locator(".sub").inner_text()


def test_an_address_can_be_kept():
    secret = "a-secret-of-the-test"
    child = subprocess.Popen([PROGRAM, "view", "--no-open", GGUF, "--port", "0", "--token", secret], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert child.stdout.readline().strip().endswith(f"/{secret}/")
    finally:
        child.terminate()
        child.wait(10)
    assert program("view", "--no-open", GGUF, "--port", "0", "--token", "short").returncode == 2


# 11: tokens, experts, scalars.


def test_the_command_of_tokens_shows_tokens(watched, bench):
    page = watched.open(bench, "/1/tokens")
    command = shlex.split(page.locator(".command code").inner_text())
    ran = program(*command[1:])
    assert ran.returncode == 0, ran.stderr.decode()
    assert page.locator(".t-row code").first.inner_text() in ran.stdout.decode()


def test_experts_share_a_chart_and_scalars_have_no_place(watched, tmp_path):
    names = [f"model.layers.{layer}.mlp.experts.{expert}.down_proj.weight" for layer in range(3) for expert in range(16)]
    path = matrices(tmp_path / "experts.gguf", {"general.architecture": "unknown"}, [(name, [4, 4], [float(at)] * 16) for at, name in enumerate(names)] + [("scalar", [], [3.0])])
    with serving(path) as (address, _):
        page = watched.open(address, "/0/layers")
        watched.settled()
        assert page.locator("figure").count() == 1
        assert "{e}" in page.locator("figure h2").inner_text()
        page = watched.open(address, "/0/tensor/scalar")
        watched.settled()
        assert fact(page, "Least") == "3"


# The workbench.


def test_the_cheapest_types_are_rules_that_quantize_takes(watched, bench, quantized, tmp_path):
    page = watched.open(bench)
    watched.settled()
    assert "candidates" in page.locator(".crumb").inner_text()
    page.get_by_label("Largest error in percent").fill("8")
    until(page, "location.hash.includes('limit=8')")
    diffs = {str(path): {one["name"]: one for one in report("diff", HF, path, "--all")["different"]} for path in quantized}
    rows = page.locator("[data-table='Tensors and candidates'] .t-row")
    assert rows.count() > 5
    for row in rows.all()[:8]:
        cells = row.locator("> div").all_inner_texts()
        for path, cell in zip(quantized, cells[1:]):
            dtype, error = re.match(r"(\S+) ([\d.]+)", cell).groups()
            found = diffs[str(path)][cells[0]]
            assert found["b"]["dtype"] == dtype
            assert abs(float(error) - found["relative_rms"] * 100) <= found["relative_rms"] * 0.6
    command = shlex.split(page.locator(".command code").last.inner_text())
    assert command[1] == "quantize" and "--tensor-type" in command
    output = tmp_path / "mixed.gguf"
    command[3] = str(output)
    ran = program(*command[1:])
    assert ran.returncode == 0, ran.stderr.decode()
    made = {tensor["name"]: tensor for tensor in report("diff", HF, output, "--all")["different"]}
    for row in rows.all()[:8]:
        cells = row.locator("> div").all_inner_texts()
        assert made[cells[0]]["b"]["dtype"] == cells[-1]
        assert made[cells[0]]["relative_rms"] <= 0.08
    watched.check()


def test_few_bits_need_an_importance_matrix(watched, tmp_path):
    original, candidate, matrix = [FIXTURES / "gguf" / name for name in ("model/llama-f16.gguf", "quant/llama-IQ2_XXS.gguf", "misc/imatrix.gguf")]
    if not candidate.exists():
        pytest.skip("no fixtures")
    with serving(original, candidate, GGUF) as (address, _):
        page = watched.open(address, "/compare/0/all?limit=60")
        watched.settled()
        command = shlex.split(page.locator(".command code").last.inner_text())
        assert command[-2:] == ["--imatrix", "imatrix.gguf"]
        command[3], command[-1] = str(tmp_path / "small.gguf"), str(matrix)
        ran = program(*command[1:])
        assert ran.returncode == 0, ran.stderr.decode()
        assert "IQ2_XXS" in {tensor["dtype"] for tensor in report("inspect", command[3])["tensors"]}


def test_models_without_a_common_matrix(watched):
    """Nothing is said to go on that has ended."""
    bert = FIXTURES / "hf/bert-f32"
    if not bert.exists():
        pytest.skip("no fixtures")
    with serving(bert, GGUF, FIXTURES / "hf/whisper-f32") as (address, _):
        page = watched.open(address, "/compare/0/all")
        watched.settled()
        assert page.locator("text=No candidate has a matrix in common").count() == 2
        assert "being compared" not in page.locator("main").inner_text()


@pytest.mark.parametrize("limit", ["abc", "-5"])
def test_a_limit_that_is_none_is_the_usual_one(watched, bench, limit):
    page = watched.open(bench, f"/compare/0/all?limit={limit}")
    watched.settled()
    assert page.get_by_label("Largest error in percent").input_value() == "5"
    assert page.locator(".chosen").count() > 5


def test_divergences_of_quality(watched, bench, quantized, tmp_path):
    ran = program("quality", "--json", HF, *quantized, "--tokens", "64", "--context", "32")
    assert ran.returncode in (0, 1), ran.stderr.decode()
    path = tmp_path / "quality.json"
    path.write_bytes(ran.stdout)
    page = watched.open(bench, "/compare/0/all")
    watched.settled()
    page.locator("input[type=file]").set_input_files(str(path))
    page.wait_for_selector("button:text-is('KL divergence')[aria-pressed=true]")
    legend = page.locator(".legend").first.inner_text()
    means = [model["divergence"]["mean"] for model in json.loads(ran.stdout)["models"][1:]]
    shown = [float(text.replace("−", "-")) for text in re.findall(r"([\d.e−]+) nats", legend)]
    assert len(shown) == len(means)
    assert all(abs(one - mean) <= abs(mean) * 1e-3 + 1e-9 for one, mean in zip(shown, means)), (shown, means)
    (tmp_path / "no.json").write_text("{}")
    page.locator("input[type=file]").set_input_files(str(tmp_path / "no.json"))
    page.wait_for_selector("text=This is no report of weighbridge quality --json")


def test_the_worst_tensors_have_histograms(watched, bench):
    page = watched.open(bench, "/compare/0/3")
    watched.settled()
    figures = page.locator("section:has(h2:text-is('Ten worst tensors')) figure")
    assert figures.count() == 10
    found = sorted(report("diff", HF, quantized_path(page))["different"], key=lambda one: -one["relative_rms"])
    assert [figures.nth(place).locator("h3 a").inner_text() for place in range(10)] == [one["name"] for one in found[:10]]
    assert figures.locator("path").count() == 20


def clipped_values(a, b, width):
    """The values of A that lie beyond the ends of their block in B, and their part of the squared error."""
    count, squares, all_squares = 0, 0.0, 0.0
    for start in range(0, len(b), width):
        block = b[start : start + width]
        ends = []
        for sign in (1, -1):
            values = sorted({value * sign for value in block}, reverse=True)
            if len(values) > 1:
                ends.append((sign, values[0], values[0] + (values[0] - values[1]) / 2))
        for x, y in zip(a[start : start + width], block):
            all_squares += (x - y) ** 2
            if any(y * sign == most and x * sign > limit for sign, most, limit in ends):
                count += 1
                squares += (x - y) ** 2
    return count, squares / all_squares


@pytest.mark.parametrize("number, width", [(1, 32), (3, 16)], ids=["Q8_0", "K-quant"])
def test_clipped_values_are_counted(watched, bench, quantized, number, width):
    page = watched.open(bench, f"/compare/0/{number}/layers.0.ffn.down.weight")
    watched.settled()
    page.wait_for_selector("dt:text-is('Clipped')")
    values = [dump(HF, "model.layers.0.mlp.down_proj.weight"), dump(quantized[number - 1], "blk.0.ffn_down.weight")]
    count, share = clipped_values(*values, width)
    assert int(fact(page, "Clipped").split()[0].replace(",", "")) == count > 0
    shown = float(fact(page, "Their part of the squared error").split("\u00a0")[0].replace("e−", "e-"))
    assert abs(shown - share * 100) <= share * 1
    command = shlex.split(page.locator(".command code").last.inner_text())
    printed = program(*command[1:])
    assert printed.returncode == 1
    assert f"clipped: {count} of {len(values[0])} values" in " ".join(printed.stdout.decode().split())
    found = json.loads(program(*command[1:], "--json").stdout)["clipping"]
    worst = [fact(page, "Clipped most"), f"{found['worst']['row']}, {found['worst']['column']}"]
    assert page.locator("dd a").last.inner_text() == worst[1]
    a, b = (float(text.replace("−", "-")) for text in worst[0].split(" at ")[0].split(" to "))
    assert abs(a - found["worst"]["a"]) <= abs(a) * 1e-3 and abs(b - found["worst"]["b"]) <= abs(b) * 1e-3
    page.locator("dd a").last.click()
    until(page, "location.hash.includes('rows=')")


# What is odd.


def test_findings_lead_to_their_places(watched, deep):
    with serving(deep) as (address, _):
        page = watched.open(address, "/0/findings")
        watched.settled()
        found = {kind: page.locator(f"[data-kind={kind}] li").all_inner_texts() for kind in
                 ["dead-rows", "dead-columns", "outlier-rows", "outlier-columns", "not-finite", "duplicate-layer", "duplicate", "growing-norms"]}
        assert ["row 5 of 32 is 0" in text for text in found["dead-rows"]] == [True]
        assert any("row 9 has" in text and "blk.4.attn_q" in text for text in found["outlier-rows"]), found
        assert ["blk.5.attn_q.weight" in text and "the first at 2, 7" in text for text in found["not-finite"]] == [True]
        assert ["blk.8.attn_q.weight" in text and "blk.7.attn_q.weight" in text for text in found["duplicate"]] == [True]
        assert ["layer 12 has the values of layer 10, in all 3 tensors that are not constant" in text for text in found["duplicate-layer"]] == [True]
        assert ["blk.6.attn_k.weight" in text and "column 11 of 32 is 0" in text for text in found["dead-columns"]] == [True]
        assert any("blk.7.attn_k.weight" in text and "column 7 has" in text for text in found["outlier-columns"]), found
        assert len(found["growing-norms"]) == 1
        # Each command shows what is found: the finding, or all values of the row.
        for line in page.locator(".findings li").all():
            command = line.locator("code").inner_text()
            ran = program(*shlex.split(command)[1:])
            assert ran.returncode == 0, (command, ran.stderr.decode())
            printed, text = ran.stdout.decode(), line.locator("> span").first.inner_text()
            if "dump" in command:
                row = int(re.search(r"(?:row|first at) (\d+)", text)[1])
                name = line.locator("a").inner_text()
                values = dump(deep, name)[row * 32 : (row + 1) * 32]
                shown = [float(value) for value in printed.splitlines()[1].split()]
                assert len(shown) == 32 and all(abs(one - value) <= abs(value) * 1e-6 or one != one for one, value in zip(shown, values)), command
            else:
                assert text in " ".join(printed.split()), (command, printed)
        printed = report("inspect", deep, "--findings")
        assert printed["total"] == page.locator(".findings li").count()
        assert not Axe().run(page, options=RULES).response["violations"]
        page.locator("[data-kind=dead-columns] a").click()
        page.wait_for_selector("h1:has-text('blk.6.attn_k.weight')")
        assert "columns=3-19" in page.url
        page.go_back()
        watched.settled()
        page.locator("[data-kind=dead-rows] a").click()
        page.wait_for_selector("h1:has-text('blk.3.attn_q.weight')")
        assert "rows=0-16" in page.url
        watched.settled()


# Slow servers.


class Slow(http.server.SimpleHTTPRequestHandler):
    """Serves a file in ranges, each after a while."""

    path_served = None

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET(head=True)

    def do_GET(self, head=False):
        data = Slow.path_served.read_bytes()
        time.sleep(0.8)
        first, end = 0, len(data)
        wanted = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted:
            first, end = int(wanted[1]), min(len(data), int(wanted[2] or len(data) - 1) + 1)
        self.send_response(206 if wanted else 200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", '"one"')
        self.send_header("Content-Length", str(end - first))
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{end - 1}/{len(data)}")
        self.end_headers()
        if not head:
            self.wfile.write(data[first:end])


def test_a_slow_server_is_never_a_blank_page(browser, deep, tmp_path):
    Slow.path_served = deep
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        # The program leaves a connection when it has what it wants.
        server.handle_error = lambda *_: None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/deep.gguf"
        if program("inspect", url, env={"XDG_CACHE_HOME": str(tmp_path)}).returncode != 0:
            pytest.skip("this program opens no models on such a server")
        watched = Watched(browser)
        begun = time.monotonic()
        with serving(url, env={"XDG_CACHE_HOME": str(tmp_path / "other")}) as (address, _):
            page = watched.page
            watched.host = address
            page.goto(address)
            page.wait_for_selector("main .busy:has-text('Opening'), main h1")
            first = time.monotonic() - begun
            page.wait_for_selector("main h1", timeout=60_000)
            page.evaluate("location.hash = '#/0/tensor/blk.1.attn_q.weight'")
            page.wait_for_selector("#reading:not([hidden]), main .busy")
            page.wait_for_selector("h1:has-text('blk.1.attn_q.weight')", timeout=60_000)
        print(f"the page says what is opened after {first:.2f} s")
        watched.faults = [fault for fault in watched.faults if "503" not in fault]
        watched.check()
        watched.close()
        server.shutdown()
