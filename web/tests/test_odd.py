"""Models and windows that make a page say what is wrong: values that are no numbers, nothing to compare, one value, long
names; and that the page does not."""

import math
import random
import re

import pytest

from conftest import GGUF, HF, ROOT, Watched, gguf, matrices, report, serving, until


def noise(count, seed):
    draw = random.Random(seed)
    return [draw.gauss(0, 0.02) for _ in range(count)]


def layers(path, change=lambda _name, values: values):
    """A model of three layers, whose values are changed."""
    tensors = [(f"blk.{layer}.{kind}.weight", [32, 32], noise(1024, f"{layer}{kind}")) for layer in range(3) for kind in ("attn_q", "ffn_up")]
    return matrices(path, {"general.architecture": "unknown"}, [(name, shape, change(name, values)) for name, shape, values in tensors])


def fact(page, label):
    return page.locator(f"main .facts div:has(dt:text-is('{label}')) dd").first.inner_text()


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """A model, and the same with one NaN in a matrix, and another without any number."""
    folder = tmp_path_factory.mktemp("broken")

    def spoil(name, values):
        if name == "blk.1.attn_q.weight":
            return [*values[:37], math.nan, *values[38:]]
        return [math.nan] * 1024 if name == "blk.2.ffn_up.weight" else values

    with serving(layers(folder / "whole.gguf"), layers(folder / "broken.gguf", spoil), layers(folder / "other.gguf", lambda _, values: [value * 1.01 for value in values])) as (address, _):
        yield address, folder


def test_nan_is_no_small_error(watched, broken):
    address, folder = broken
    page = watched.open(address, "/compare/0/1")
    watched.settled()
    assert fact(page, "NaN or infinite").startswith("2 tensors")
    found = report("diff", folder / "whole.gguf", folder / "broken.gguf")
    assert abs(found["relative_rms"] - 2 / 6) < 1e-12
    assert fact(page, "Relative RMS").startswith("33.3\u00a0%")
    rows = page.locator("[data-table='Tensors of both models'] .t-row").all_inner_texts()
    assert all("NaN" in row for row in rows[:2]) and not any("NaN" in row for row in rows[2:]), rows
    # What is best for most matrices is not the one that is broken.
    page = watched.open(address, "/compare/0/all")
    watched.settled()
    cells = {row.locator("> div").first.inner_text(): row.locator("> div").all_inner_texts() for row in page.locator("[data-table='Tensors and candidates'] .t-row").all()}
    spoiled = [texts for texts in cells.values() if "NaN, ∞" in texts[1]]
    assert len(spoiled) == 2 and page.locator(".chosen:has-text('NaN')").count() == 0


def test_no_findings_are_not_all_that_may_be_odd(watched, broken):
    page = watched.open(broken[0], "/0/findings")
    watched.settled()
    assert page.locator("main [role=status]").first.inner_text() == "0 findings in 6 tensors"
    page.click("main p a:text-is('Layers that are far from the others')")
    page.wait_for_selector("h1:text-is('Layers')")


def test_a_tensor_without_a_number_says_so(watched, broken):
    address, _ = broken
    page = watched.open(address, "/1/tensor/blk.2.ffn_up.weight")
    watched.settled()
    assert fact(page, "NaN") == "1,024"
    assert fact(page, "Mean") == "–"
    assert page.locator(".scale .legend:has-text('NaN or infinite')").is_visible()
    # Norms of no number are not 0.
    assert page.locator(".two figure path.line").first.get_attribute("d") == ""
    page = watched.open(address, "/1/tensor/blk.0.ffn_up.weight")
    watched.settled()
    assert not page.locator(".scale .legend:has-text('NaN or infinite')").is_visible()
    page = watched.open(address, "/1/layers")
    watched.settled()
    assert "2 tensors with NaN or infinities" in page.locator(".notices").inner_text()


def test_an_error_of_0_leaves_the_picture_readable(watched, tmp_path):
    (tmp_path / "copy.gguf").write_bytes((ROOT / GGUF).read_bytes())
    with serving(HF, GGUF, "assets/sample/mlx-4bit") as (address, _):
        page = watched.open(address, "/compare/1/all")
        watched.settled()
    with serving(GGUF, tmp_path / "copy.gguf", "assets/sample/mlx-4bit") as (address, _):
        page = watched.open(address, "/compare/0/all")
        watched.settled()
        texts = page.locator("main svg.chart text").all()
        boxes = [text.bounding_box() for text in texts]
        over = [(a, b) for place, a in enumerate(boxes) for b in boxes[place + 1 :] if a["x"] < b["x"] + b["width"] and b["x"] < a["x"] + a["width"] and a["y"] + 3 < b["y"] + b["height"] and b["y"] + 3 < a["y"] + a["height"]]
        assert not over, [text.inner_html() for text in texts]
        assert any(text.inner_html() == "0\u00a0%" or text.inner_html() == "0&nbsp;%" for text in texts)


def test_models_without_a_common_name_can_be_exchanged(browser, tmp_path):
    one = gguf(tmp_path / "one.gguf", {"general.architecture": "unknown"}, [("alone", [1.0, 2.0])])
    watched = Watched(browser)
    with serving(HF, one, GGUF) as (address, _):
        page = watched.open(address, "/compare/0/1")
        assert "no tensor name in common" in page.locator(".notice").inner_text()
        page.locator("select").nth(1).select_option("2")
        until(page, "location.hash === '#/compare/0/2'")
        watched.settled()
        assert fact(page, "Relative RMS") != "–"
    watched.close()


def test_equal_values_are_a_bar_in_the_middle(watched, tmp_path):
    path = matrices(tmp_path / "equal.gguf", {"general.architecture": "unknown"}, [("big", [5, 5], [1e30] * 25), ("single", [], [3.0]), ("empty", [0, 4], [])])
    with serving(path) as (address, _):
        for name, shown in (("big", "1.000e30"), ("single", "3")):
            page = watched.open(address, f"/0/tensor/{name}")
            watched.settled()
            assert fact(page, "Outliers").startswith("0")
            chart = page.locator("svg.chart[aria-label$=histogram]")
            box, bar = chart.bounding_box(), chart.locator("path").bounding_box()
            bins = chart.locator("path").get_attribute("d")
            tops = [float(top) for top in re.findall(r"V([\d.]+)H", bins)]
            assert tops.index(min(tops)) == len(tops) // 2 and min(tops) < 20, bins
            assert bar["height"] > box["height"] / 2
            assert shown.split("e")[0].rstrip("0").rstrip(".") in " ".join(chart.locator("text").all_text_contents())
        page = watched.open(address, "/0/tensors?values=1")
        watched.settled()
        assert "NaN" not in page.locator(".t-row:has-text('empty')").inner_text()


def test_files_have_their_sizes(watched):
    with serving(GGUF) as (address, _):
        page = watched.open(address, "/0/overview")
        size = (ROOT / GGUF).stat().st_size
        assert page.locator("section:has(h2:text-is('Files')) tbody tr").inner_text().endswith(f"{size / 1024**2:.1f}\u00a0MiB")


@pytest.mark.parametrize("width", [360, 800, 1000, 1240])
def test_names_that_differ_at_their_ends_look_different(browser, tmp_path, width):
    names = [f"base_model.model.model.language_model.layers.{layer}.self_attn.{kind}_proj.lora_{part}.weight" for layer in (2, 12) for kind in "qv" for part in "AB"]
    path = matrices(tmp_path / "long.gguf", {"general.architecture": "unknown"}, [(name, [8, 8], noise(64, name)) for name in names])
    watched = Watched(browser, viewport={"width": width, "height": 800})
    with serving(path, path) as (address, _):
        for route in ("/0/tensors", "/0/tensors?values=1", "/compare/0/1"):
            page = watched.open(address, route)
            watched.settled()
            cut = page.locator(".table").first.locator(".t-row > div:first-child").evaluate_all("(all) => all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent)")
            assert cut == [], (route, cut)
            texts = page.locator(".table").first.locator(".t-row > div:first-child").all_inner_texts()
            assert len(set(texts)) == len(names), texts
            wide = page.locator(".table").first.evaluate("(box) => box.scrollWidth > box.clientWidth + 1")
            assert not wide, route
    watched.check()
    watched.close()


def test_bars_have_numbers_at_360_pixels(browser, broken):
    address, _ = broken
    watched = Watched(browser, viewport={"width": 360, "height": 740})
    page = watched.open(address, "/0/tensor/blk.0.attn_q.weight")
    watched.settled()
    ticks = page.locator("svg.chart[aria-label$=histogram] text").all_text_contents()
    assert len([text for text in ticks if "%" not in text]) >= 3, ticks
    watched.check()
    watched.close()
