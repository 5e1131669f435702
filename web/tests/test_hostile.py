"""Names and texts that were made to harm, and a model of 100,000 tensors."""

import json
import time

from conftest import Watched, gguf, program, serving, until

MARKS = "<script>window.harm=1</script><img src=x onerror='window.harm=1'>"
BIDI = "\u202etxet\u202c\u200b\u2066x\u2069"


def hostile(path):
    template = "{{ messages }}</pre>" + MARKS + BIDI + "x" * (8 << 20)
    keys = {
        "general.architecture": "llama", "general.name": MARKS + BIDI, "general.license": "javascript:alert(1)",
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a", MARKS, BIDI, "\x07\n", "=cmd()"],
        "tokenizer.ggml.token_type": [1, 1, 1, 1, 1], "tokenizer.chat_template": template,
        "key." + MARKS: MARKS, "long": "y" * (8 << 20),
    }
    tensors = [
        (MARKS[:60], [1.0, 2.0]), ("javascript:window.harm=1", [1.0, float("nan")]), (BIDI, [float("inf"), 1.0, -1.0]),
        ("%2e%2e/../#?&=", [0.0] * 4), ("=cmd()|x", [3.0]), ("\x1b[31mred", [4.0]), (b"\xff\xfe", [5.0]), ("empty", []),
    ]
    return gguf(path / "hostile.gguf", keys, tensors)


def test_texts_are_never_html(browser, tmp_path):
    path = hostile(tmp_path)
    assert program("inspect", path).returncode == 0, program("inspect", path).stderr.decode()
    watched = Watched(browser)
    with serving(path, path) as (address, _):
        for route in ["/0/overview", "/0/tensors", "/0/tensors?values=1", "/0/layers", "/0/tokens", "/compare/0/1"]:
            page = watched.open(address, route)
            watched.settled()
            assert page.locator("h1").inner_text() != "This cannot be shown"
            assert page.evaluate("window.harm") is None, route
            assert page.locator("main script, main img, main iframe, main style").count() == 0, route
            shown = page.locator("main").inner_text()
            assert not any(mark in shown for mark in "\u202e\u202c\u2066\u2069\u200b\x1b\x07"), route
            assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0, route
            links = page.evaluate("[...document.querySelectorAll('a')].map((link) => link.getAttribute('href'))")
            assert all(link.startswith("#") for link in links), links
        page = watched.open(address, "/0/tensors")
        watched.settled()
        count = page.locator(".t-row a").count()
        assert count == 8
        for place in range(count):
            page = watched.open(address, "/0/tensors")
            watched.settled()
            page.locator(".t-row a").nth(place).click()
            page.wait_for_selector("h1:not(:text-is('Tensors'))")
            watched.settled()
            assert page.locator("h1").inner_text() != "This cannot be shown", place
            assert page.evaluate("window.harm") is None
    watched.check()
    watched.close()


def test_a_report_has_no_html_of_the_model(browser, tmp_path):
    path = hostile(tmp_path)
    output = tmp_path / "report.html"
    ran = program("report", path, "-o", output)
    assert ran.returncode == 0, ran.stderr.decode()
    assert output.stat().st_size < 200_000
    watched = Watched(browser)
    watched.host = "file://"
    watched.page.goto(f"file://{output}")
    assert watched.page.evaluate("window.harm") is None
    assert watched.page.locator("script, img").count() == 0
    watched.check()
    watched.close()


def test_a_hundred_thousand_tensors(browser, tmp_path):
    names = [(f"blk.{n // 100}.part_{n % 100}.weight", [float(n)]) for n in range(100_000)]
    path = gguf(tmp_path / "many.gguf", {"general.architecture": "llama"}, names)
    watched = Watched(browser)
    with serving(path) as (address, _):
        # What the program prepares once is prepared.
        watched.open(address, "/0/overview")
        begun = time.monotonic()
        page = watched.open(address, "/0/tensors")
        page.wait_for_selector(".t-row")
        first = time.monotonic() - begun
        assert page.locator(".table").get_attribute("aria-rowcount") == "100001"
        assert page.locator(".t-row").count() < 100
        # Figures for docs/performance.md: times are measured here, and never asserted.
        browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"])
        page.evaluate("""async () => {
            const box = document.querySelector('.table');
            for (let step = 0; step < 240; step += 1) {
                box.scrollTop += step % 3 === 0 ? 40_000 : 700;
                await new Promise(requestAnimationFrame);
            }
        }""")
        events = json.loads(browser.stop_tracing())["traceEvents"]
        tasks = [event["tdur"] / 1000 for event in events if event.get("name", "").endswith("RunTask") and "tdur" in event]
        assert len(tasks) > 240, len(tasks)
        page.locator("input[type=search]").fill("part_77")
        until(page, "document.querySelector('.table').getAttribute('aria-rowcount') === '1001'")
        page.locator("input[type=search]").fill("")
        until(page, "document.querySelector('.table').getAttribute('aria-rowcount') === '100001'")
        page.locator(".table").focus()
        page.keyboard.press("End")
        page.wait_for_selector(".t-row.active:has-text('blk.999.part_99.weight')")
        page.get_by_role("button", name="By layer").click()
        until(page, "document.querySelector('.table').getAttribute('aria-rowcount') === '1001'")
    watched.check()
    watched.close()
    print(f"first rows after {first:.2f} s; the longest task while scrolling took {max(tasks):.1f} ms")
