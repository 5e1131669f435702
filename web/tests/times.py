"""Times of the page for docs/performance.md: a model of 100,000 tensors, and one of 1 TB on a slow server. Not a test: run
`target/web-venv/bin/python web/tests/times.py [PROGRAM...]`. Several programs take turns, so that a machine with other
work is as slow for each."""

import contextlib
import http.server
import json
import os
import pathlib
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import conftest
from playwright.sync_api import sync_playwright

ROUNDS = 3
# Of the slow server: seconds before each answer, and bytes a second.
DELAY, RATE = 0.3, 20 << 20


def many(path):
    """A model of 100,000 tensors of 64 values: 1000 layers of 100."""
    values = [((n * 37) % 101 - 50) / 50 for n in range(64)]
    names = [(f"blk.{n // 100}.part_{n % 100}.weight", values) for n in range(100_000)]
    return conftest.gguf(path / "many.gguf", {"general.architecture": "llama"}, names)


def ready(page, route):
    """Opens a view in a new document, and gives the milliseconds until the page says that it is there."""
    page.goto("about:blank")
    page.goto(route)
    conftest.until(page, "Number(document.documentElement.dataset.ready ?? 0) > 0")
    return page.evaluate("performance.now()")


def seen(page, condition):
    """The milliseconds from now until an expression is true, looked at before every frame."""
    return page.evaluate(f"""async () => {{
        const begun = performance.now();
        while (!({condition})) await new Promise(requestAnimationFrame);
        return performance.now() - begun;
    }}""")


def painted(page):
    return page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN")


def scroll(browser, page):
    """The longest task, in milliseconds, while 100,000 rows are scrolled."""
    browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"])
    page.evaluate("""async () => {
        const box = document.querySelector('.table');
        for (let step = 0; step < 240; step += 1) {
            box.scrollTop += step % 3 === 0 ? 40_000 : 700;
            await new Promise(requestAnimationFrame);
        }
    }""")
    events = json.loads(browser.stop_tracing())["traceEvents"]
    return max(event["dur"] / 1000 for event in events if event.get("name", "").endswith("RunTask") and "dur" in event)


def rows_are(count):
    return f"document.querySelector('.table')?.getAttribute('aria-rowcount') === '{count + 1}'"


SEARCH = "(() => { const box = document.querySelector('input[type=search]'); box.value = '%s'; box.dispatchEvent(new Event('input')); })()"


class Local:
    """The page of one program on a model of 100,000 tensors. Each measure gives milliseconds."""

    def __init__(self, browser, address):
        self.browser, self.address = browser, address
        self.page = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
        self.open("overview")

    def open(self, view):
        return ready(self.page, f"{self.address}#/0/{view}")

    def first_paint(self):
        self.open("tensors")
        return painted(self.page)

    def first_rows(self):
        return self.open("tensors")

    def first_statistics(self):
        known = "[...document.querySelectorAll('.t-row > div:nth-child(4)')].some((cell) => cell.textContent !== '')"
        took = self.open("tensors?values=1") + seen(self.page, known)
        # Otherwise the page reads on while the next program is measured.
        self.page.goto("about:blank")
        return took

    def further_statistics(self):
        """An answer about 256 tensors."""
        begun = time.monotonic()
        urllib.request.urlopen(f"{self.address}api/statistics?model=0&from=50000&bins=16").read()
        return (time.monotonic() - begun) * 1000

    def search(self):
        self.open("tensors")
        self.page.evaluate(SEARCH % "part_77")
        return seen(self.page, rows_are(1000))

    def longest_task_while_scrolling(self):
        self.open("tensors")
        return scroll(self.browser, self.page)


MEASURES = [Local.first_paint, Local.first_rows, Local.first_statistics, Local.further_statistics, Local.search, Local.longest_task_while_scrolling]


def header(tensors):
    """The header of a GGUF file of tensors in BF16, and the size of the file."""
    parts, size = [b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 1), conftest._text("general.architecture") + conftest._value("llama")], 0
    for name, shape, bytes_ in tensors:
        parts.append(conftest._text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), 30, size))
        size += bytes_ + -bytes_ % 32
    head = b"".join(parts)
    head += bytes(-len(head) % 32)
    return head, len(head) + size


class Slow(http.server.BaseHTTPRequestHandler):
    """Serves ranges of a file that is a header and zeros, each after a while, and slowly."""

    head, size = b"", 0
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET(head=True)

    def do_GET(self, head=False):
        time.sleep(DELAY)
        wanted = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        first, end = (int(wanted[1]), min(self.size, int(wanted[2] or self.size - 1) + 1)) if wanted else (0, self.size)
        self.send_response(206 if wanted else 200)
        for name, value in {"Accept-Ranges": "bytes", "ETag": '"one"', "Content-Length": end - first}.items():
            self.send_header(name, str(value))
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{end - 1}/{self.size}")
        self.end_headers()
        at = first
        with contextlib.suppress(OSError):
            while not head and at < end:
                piece = self.head[at : min(end, at + (1 << 18))] or bytes(min(end - at, 1 << 18))
                self.wfile.write(piece)
                at += len(piece)
                time.sleep(len(piece) / RATE)


def remote(browser, program, folder):
    """What is seen, and when, of a model of 1 TB on a slow server: milliseconds since the program was started."""
    wide = [8192, 28672]
    tensors = [(f"blk.{n // 3}.{kind}.weight", wide, wide[0] * wide[1] * 2) for n, kind in enumerate(["ffn_up", "ffn_down", "ffn_gate"] * 717)]
    tensors.append(("output_norm.weight", [8192], 16384))
    Slow.head, Slow.size = header(tensors)
    print(f"1 TB: {len(tensors)} tensors, {Slow.size / 1e12:.2f} TB, {DELAY} s before each answer, {RATE >> 20} MiB a second")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        server.handle_error = lambda *_: None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
        begun = time.monotonic()
        passed = lambda: (time.monotonic() - begun) * 1000
        url = f"http://127.0.0.1:{server.server_port}/huge.gguf"
        child = subprocess.Popen([program, "view", "--no-open", url], cwd=conftest.ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ, XDG_CACHE_HOME=tempfile.mkdtemp(dir=folder)))
        try:
            address = child.stdout.readline().strip()
            assert address, child.stderr.read()
            page.goto(address)
            page.wait_for_selector("main .busy, main h1")
            yield "something is said", passed()
            page.wait_for_selector("main h1", timeout=60_000)
            yield "the overview", passed()
            begun = time.monotonic()
            page.evaluate("location.hash = '#/0/tensor/output_norm.weight'")
            page.wait_for_selector("dt:text-is('Deviation')", timeout=60_000)
            yield "statistics of a vector", passed()
            begun = time.monotonic()
            page.evaluate("location.hash = '#/0/tensor/blk.0.ffn_up.weight'")
            page.wait_for_selector("h1:has-text('blk.0.ffn_up.weight')", timeout=60_000)
            yield "a matrix of 470 MB is shown", passed()
            said = "document.querySelector('#reading')?.innerText.includes(' of ')"
            while not page.evaluate(said) and passed() < 10_000:
                page.wait_for_timeout(50)
            yield "how far it is read (10 s: never)", passed()
            begun = time.monotonic()
            page.evaluate("location.hash = '#/0/tensors'")
            page.wait_for_selector("h1:text-is('Tensors')", timeout=60_000)
            yield "the way back", passed()
        finally:
            child.terminate()
            child.wait(20)
            server.shutdown()


def main():
    programs = [str(pathlib.Path(path).resolve()) for path in sys.argv[1:]] or [conftest.PROGRAM]
    conftest.SHOTS.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        browser = playwright.chromium.launch(executable_path=conftest.chromium(), args=["--no-sandbox"])
        folder = pathlib.Path(folder)
        path = many(folder)
        pages = []
        for conftest.PROGRAM in programs:
            print(conftest.program("--version").stdout.decode().split("\n")[0])
            address, _ = stack.enter_context(conftest.serving(path))
            pages.append(Local(browser, address))
        for measure in MEASURES:
            rounds = [[measure(page) for page in pages] for _ in range(ROUNDS)]
            report(measure, zip(*rounds))
        for program in programs:
            for name, passed in remote(browser, program, folder):
                print(f"{name:32} {passed:8.0f} ms", flush=True)
        browser.close()


def report(measure, programs):
    """Prints the least and the median of each program."""
    texts = [f"{min(rounds):9.0f} {statistics.median(rounds):9.0f}" for rounds in programs]
    print(f"{measure.__name__.replace('_', ' '):32}", *texts, "ms", flush=True)


main()
