"""Pictures of every view, in three widths, light and dark, with the program and without it: nothing is wider than the
window, and axe-core finds nothing. They are kept in `target/web`, to be looked at."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from conftest import HF, RULES, SHOTS, Watched, choose, opened, serving, until

VIEWS = {
    "overview": "/1/overview", "tensors": "/1/tensors", "values": "/1/tensors?values=1", "folded": "/1/tensors?fold=1",
    "tensor": "/1/tensor/blk.0.attn_q.weight", "vector": "/1/tensor/output_norm.weight",
    "numbers": "/1/tensor/blk.0.attn_q.weight?rows=0-16&columns=0-14", "layers": "/1/layers", "findings": "/1/findings",
    "tokens": "/1/tokens", "workbench": "/compare/0/all", "compare": "/compare/0/3", "kinds": "/compare/0/3?by=kind",
    "pair": "/compare/0/3/layers.0.attention.q.weight", "unknown": "/0/foo",
}
WINDOWS = [(width, mode) for width in (360, 800, 1440) for mode in ("light", "dark")]
# These show most of what can go wrong.
TELLING = [(360, "light"), (1440, "dark")]
EACH = [pytest.param(*window, marks=[] if window in TELLING else [pytest.mark.slow]) for window in WINDOWS]
# What is cut without an ellipsis, or covers what is next to it.
CUT = """() => [...document.querySelectorAll('main button, main .facts dd, main dt, main figcaption, main h2, main h3, main .legend li, nav a')]
    .filter((one) => one.clientWidth > 0 && one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).textOverflow !== 'ellipsis')
    .map((one) => one.textContent.slice(0, 80))"""


def look(watched, address, name, route, ending):
    page = watched.open(address, route)
    watched.settled()
    page.screenshot(path=SHOTS / f"{name}-{ending}.png", full_page=True)
    faults = []
    if page.evaluate("document.documentElement.scrollWidth - window.innerWidth") > 0:
        faults.append(f"{name}: wider than the window")
    faults += [f"{name}: cut: {text}" for text in page.evaluate(CUT)]
    violations = Axe().run(page, options=RULES).response["violations"]
    return faults + [f"{name}: {fault['id']}: {fault['nodes'][0]['html'][:160]}" for fault in violations]


@pytest.mark.parametrize("width, mode", EACH)
def test_with_the_program(browser, quantized, width, mode):
    watched = Watched(browser, viewport={"width": width, "height": 860}, color_scheme=mode)
    with serving(HF, *quantized) as (address, _):
        faults = [fault for name, route in VIEWS.items() for fault in look(watched, address, name, route, f"{width}-{mode}")]
    watched.check()
    watched.close()
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("width, mode", EACH)
def test_without_the_program(browser, static, quantized, width, mode):
    watched = Watched(browser, viewport={"width": width, "height": 860}, color_scheme=mode)
    page = watched.open(static)
    faults = look(watched, static, "start", "", f"{width}-{mode}")
    choose(page, [HF], folder=True)
    opened(page, 1)
    page.goto(f"{static}#/open")
    choose(page, quantized)
    until(page, "location.hash.startsWith('#/compare')", timeout=60)
    opened(page, 1 + len(quantized))
    views = {"open": "/open", **VIEWS}
    faults += [fault for name, route in views.items() for fault in look(watched, static, f"page-{name}", route, f"{width}-{mode}")]
    watched.check()
    watched.close()
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("width, mode", EACH)
def test_findings(browser, deep, width, mode):
    """A model with what is odd."""
    watched = Watched(browser, viewport={"width": width, "height": 860}, color_scheme=mode)
    with serving(deep) as (address, _):
        faults = look(watched, address, "odd", "/0/findings", f"{width}-{mode}")
    watched.check()
    watched.close()
    assert not faults, "\n".join(faults)
