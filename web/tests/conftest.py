"""Runs the program and a browser for the tests of the page.

The program is `target/release/weighbridge`, or what WEIGHBRIDGE names; the page without the program is
`target/viewer`; the browser is Debian's Chromium, or what CHROMIUM names. Pictures of the views are kept in
`target/web`.
"""

import contextlib
import functools
import http.server
import json
import math
import os
import pathlib
import random
import shutil
import struct
import subprocess
import threading
import time

import pytest
from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHOTS = ROOT / "target" / "web"
PROGRAM = os.environ.get("WEIGHBRIDGE", str(ROOT / "target" / "release" / "weighbridge"))
HF = "assets/sample/hf"
GGUF = "assets/sample/sample-Q8_0.gguf"
MLX = "assets/sample/mlx-4bit"
# The rules of axe-core.
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="leave out the tests that are marked as slow")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes minutes; left out with --quick")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--quick"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


def chromium():
    names = [os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome"]
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    assert found, "no browser: install the package `chromium`, or set CHROMIUM"
    return found


def program(*words, **options):
    env = dict(os.environ, **options.pop("env", {}))
    return subprocess.run([PROGRAM, *map(str, words)], cwd=ROOT, capture_output=True, env=env, **options)


def report(*words):
    """The JSON of a run that succeeds, or that finds a difference."""
    ran = program(*words, "--json")
    assert ran.returncode in (0, 1), ran.stderr.decode()
    return json.loads(ran.stdout)


def dump(path, name):
    """The values of a tensor, as `dump` writes them."""
    ran = program("dump", path, name, "--as", "f32")
    assert ran.returncode == 0, ran.stderr.decode()
    return [value for (value,) in struct.iter_unpack("<f", ran.stdout)]


@contextlib.contextmanager
def serving(*paths, env=None):
    """Runs `view` on models; gives the address and the process."""
    child = subprocess.Popen(
        [PROGRAM, "view", "--no-open", *map(str, paths)],
        cwd=ROOT, env=dict(os.environ, **(env or {})), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )
    try:
        address = child.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), child.stderr.read()
        yield address, child
    finally:
        child.terminate()
        child.wait(10)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextlib.contextmanager
def files():
    """Serves the page without the program, as a server of files; gives the address."""
    folder = ROOT / "target" / "viewer"
    assert (folder / "weighbridge.wasm").exists(), "run cargo xtask page"
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="session")
def static():
    """The address of the page without the program."""
    with files() as address:
        yield address


@pytest.fixture(scope="session")
def browser():
    SHOTS.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def sample():
    with serving(HF, GGUF, MLX) as (address, _):
        yield address


@pytest.fixture(scope="session")
def quantized(tmp_path_factory):
    """The sample in three types."""
    folder = tmp_path_factory.mktemp("quantized")
    for kind in ("Q4_K_M", "Q2_K"):
        ran = program("quantize", HF, folder / f"{kind}.gguf", kind)
        assert ran.returncode == 0, ran.stderr.decode()
    return [GGUF, folder / "Q4_K_M.gguf", folder / "Q2_K.gguf"]


@pytest.fixture(scope="session")
def deep(tmp_path_factory):
    """A model of 13 layers with what is odd planted in it."""
    draw = random.Random(4)
    noise = lambda count, scale=1.0: [draw.gauss(0, scale) for _ in range(count)]
    tensors = [("token_embd.weight", [64, 32], noise(64 * 32)), ("output_norm.weight", [32], [1.0] * 32)]
    for layer in range(12):
        q = noise(32 * 32, 0.02)
        if layer == 3:
            q[5 * 32 : 6 * 32] = [0.0] * 32
        if layer == 4:
            q[9 * 32 : 10 * 32] = noise(32, 2.0)
        if layer == 5:
            q[2 * 32 + 7] = math.nan
        if layer == 8:
            q = tensors[-3][2]
        tensors.append((f"blk.{layer}.attn_q.weight", [32, 32], q))
        k = noise(32 * 32, 0.02)
        if layer == 6:
            k[11::32] = [0.0] * 32
        if layer == 7:
            k[7::32] = noise(32, 2.0)
        tensors.append((f"blk.{layer}.attn_k.weight", [32, 32], k))
        tensors.append((f"blk.{layer}.attn_norm.weight", [32], noise(32, 0.1 * 1.5**layer)))
    tensors += [(name.replace("blk.10.", "blk.12."), shape, values) for name, shape, values in tensors if name.startswith("blk.10.")]
    return matrices(tmp_path_factory.mktemp("deep") / "deep.gguf", {"general.architecture": "llama"}, tensors)


def until(page, condition, timeout=30):
    """Waits until an expression is true. The page's own policy forbids Playwright's `wait_for_function`."""
    end = time.monotonic() + timeout
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"never: {condition}"
        page.wait_for_timeout(20)


class Watched:
    """A page, and everything that it should not have done."""

    def __init__(self, browser, **options):
        options = {"viewport": {"width": 1280, "height": 860}, "color_scheme": "light", **options}
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.faults = []
        self.host = None
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: self.faults.append(f"dialog: {dialog.message}"))
        self.page.on("console", self._said)
        self.page.on("request", self._asked)

    def _said(self, message):
        if message.type in ("error", "warning"):
            self.faults.append(f"console: {message.text}")

    def _asked(self, request):
        inner = request.url.startswith(("blob:", "data:"))
        if not inner and self.host and not request.url.startswith(self.host):
            self.faults.append(f"request to {request.url}")

    def open(self, address, route=""):
        """Opens a view, and waits until it is there."""
        self.host = address
        ready = "Number(document.documentElement.dataset.ready ?? 0)"
        target = f"{address}#{route}"
        if self.page.url == target:
            self.page.reload()
            before = 0
        else:
            # The same document with another route shows the view without being loaded again.
            before = self.page.evaluate(ready) if self.page.url.startswith(address) else 0
            self.page.goto(target)
        until(self.page, f"{ready} > {before}")
        return self.page

    def settled(self):
        """Waits until nothing is being read any more."""
        until(
            self.page,
            "!document.querySelector('main .busy:not([hidden]), main [aria-busy]')"
            " && [...document.querySelectorAll('main progress')].every((meter) => meter.hidden || meter.closest('[hidden]'))",
            timeout=60,
        )
        self.page.wait_for_timeout(120)

    def check(self):
        assert not self.faults, self.faults

    def close(self):
        self.context.close()


@pytest.fixture
def watched(browser):
    one = Watched(browser)
    yield one
    one.check()
    one.close()


# The page without the program.


def choose(page, paths, folder=False):
    """Chooses files, or one folder, with the page's own input."""
    inputs = page.locator("input[type=file]")
    inputs.nth(1 if folder else 0).set_input_files([str(ROOT / path) for path in paths])


def opened(page, count):
    """Waits until the page shows as many models."""
    until(page, f"document.querySelectorAll('#nav a').length > 0 && !document.querySelector('main .busy')", timeout=60)
    models = ask(page, "models")["models"]
    assert len(models) == count, page.locator("main").inner_text()
    return models


def ask(page, question):
    """The answer to a question of the page, as the library in the browser gives it."""
    name, _, query = question.partition("?")
    text = page.evaluate(
        """async ([name, query]) => {
            const { ask } = await import('./source.js');
            const answer = await ask(name, Object.fromEntries(new URLSearchParams(query))).catch((error) => ({ message: error.message, kind: error.kind }));
            return JSON.stringify(answer, (_, value) => (Object.is(value, -0) ? '-0.0' : value));
        }""",
        [name, query],
    )
    # JavaScript writes -0 as 0, and 1e20 with all digits, which is another number if they are read as a whole one.
    return json.loads(text.replace('"-0.0"', "-0.0"), parse_int=lambda digits: int(digits) if len(digits) < 16 else float(digits))


# GGUF files for what no fixture has.


def _text(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value):
    if isinstance(value, list):
        kind = 8 if value and isinstance(value[0], (str, bytes)) else 5
        inner = b"".join(_text(one) if kind == 8 else struct.pack("<i", one) for one in value)
        return struct.pack("<IIQ", 9, kind, len(value)) + inner
    if isinstance(value, (str, bytes)):
        return struct.pack("<I", 8) + _text(value)
    return struct.pack("<II", 4, value)


def gguf(path, metadata, tensors):
    """Writes a GGUF file. `tensors` are names with lists of values, which are stored as F32 vectors."""
    return matrices(path, metadata, [(name, [len(values)], values) for name, values in tensors])


def matrices(path, metadata, tensors):
    """Writes a GGUF file. `tensors` are names with shapes, outermost dimension first, and values: F32."""
    head, data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)), bytearray()
    parts = [head] + [_text(key) + _value(value) for key, value in metadata.items()]
    for name, shape, values in tensors:
        parts.append(_text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), 0, len(data)))
        data += struct.pack(f"<{len(values)}f", *values)
        data += bytes(-len(data) % 32)
    header = b"".join(parts)
    path.write_bytes(header + bytes(-len(header) % 32) + bytes(data))
    return path
