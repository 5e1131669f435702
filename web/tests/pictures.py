"""Takes the pictures of docs/viewer.md: `target/web-venv/bin/python web/tests/pictures.py`, after `cargo xtask page`."""

import conftest
from conftest import GGUF, HF, ROOT, Watched, serving
from playwright.sync_api import sync_playwright

OUT = ROOT / "docs" / "pictures"
MODELS = ROOT / "target" / "models"
# The name, the address, the color scheme and the height.
PICTURES = [
    ("tensors", "/1/tensors?values=1", "light", 700), ("tensor", "/2/tensor/blk.0.attn_q.weight", "light", 1000),
    ("compare", "/compare/0/3", "dark", 1150), ("workbench", "/compare/0/all?limit=8", "light", 1250),
]


def main():
    MODELS.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=conftest.chromium(), args=["--no-sandbox"])
        made = []
        for kind in ("Q4_K_M", "Q2_K"):
            made.append(f"target/models/sample-{kind}.gguf")
            (ROOT / made[-1]).unlink(missing_ok=True)
            assert conftest.program("quantize", HF, made[-1], kind).returncode == 0
        with serving(HF, GGUF, *made) as (address, _):
            for name, route, mode, height in PICTURES:
                watched = Watched(browser, viewport={"width": 1200, "height": height}, color_scheme=mode)
                watched.open(address, route)
                watched.settled()
                watched.page.screenshot(path=OUT / f"{name}.png")
                watched.close()
        page = browser.new_context(viewport={"width": 1200, "height": 500}).new_page()
        with conftest.files() as address:
            page.goto(address)
            page.wait_for_selector("h1:text-is('Drop a model here')")
            page.screenshot(path=OUT / "start.png")
        browser.close()


main()
