"""A headless Chromium that opens pages without a network, and what it sees of them.

``browser`` is a fixture; ``browser.open(address)`` gives a page that was loaded. A request to another host than the
page's is refused and noted, as are errors on the console. The page itself is Playwright's.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from golden_tests.integrations.environments import environment, folder_for, unpacked

PLAYWRIGHT = "playwright>=1.50,<2"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chromium-headless-shell")

#: A computer's window, and a phone's.
WIDE, NARROW = 1280, 390

#: Elements that stick out of the window, though no box around them scrolls.
STICKING_OUT = """() => {
  const whole = document.documentElement, width = whole.clientWidth, found = [];
  const scrolls = e => e && e !== document.body && e !== whole
    && (getComputedStyle(e).overflowX !== "visible" || scrolls(e.parentElement));
  for (const e of document.body.querySelectorAll("*")) {
    const box = e.getBoundingClientRect();
    if (box.width && box.right > width + 1 && !scrolls(e.parentElement) && getComputedStyle(e).position !== "fixed")
      found.push(`<${e.localName} class="${e.getAttribute("class") ?? ""}"> ends at ${Math.round(box.right)}`);
  }
  if (whole.scrollWidth > width) found.push(`the page is ${whole.scrollWidth} wide`);
  return found;
}"""

#: Texts whose contrast to what is behind them is less than WCAG 2.1 asks for (1.4.3, level AA): 4.5, of large text 3.
#: Behind text of a picture is what is behind the picture.
UNREADABLE = """async () => {
  const moving = document.getAnimations().filter(a => a.effect.getComputedTiming().endTime !== Infinity);
  await Promise.allSettled(moving.map(a => a.finished));
  const context = Object.assign(document.createElement("canvas"), {width: 1, height: 1})
    .getContext("2d", {willReadFrequently: true});
  const parsed = new Map();
  const parse = color => {
    if (!parsed.has(color)) {
      context.clearRect(0, 0, 1, 1);
      context.fillStyle = color;
      context.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
      parsed.set(color, [r, g, b, a / 255]);
    }
    return parsed.get(color);
  };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const behind = e => {
    if (!e) return parse(getComputedStyle(document.documentElement).colorScheme.includes("dark") ? "#121212" : "#fff");
    const own = e instanceof SVGElement ? [0, 0, 0, 0] : parse(getComputedStyle(e).backgroundColor);
    return own[3] === 1 ? own : over(own, behind(e.parentElement));
  };
  const light = color => {
    const [r, g, b] = color.map(c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = new Map(), walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const e = node.parentElement, text = node.data.trim();
    if (!text || !e.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect(), style = getComputedStyle(e);
    if (!box.width || !box.height || box.right < 0) continue;
    const below = behind(e);
    let color = [...parse(e instanceof SVGElement ? style.fill : style.color)];
    for (let at = e; at; at = at.parentElement) color[3] *= Number(getComputedStyle(at).opacity);
    color = over(color, below);
    const [low, high] = [light(color), light(below)].sort((a, b) => a - b), ratio = (high + 0.05) / (low + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio >= (large ? 3 : 4.5)) continue;
    const shown = [color, below].map(c => `rgb(${c.slice(0, 3).map(Math.round)})`).join(" on ");
    const key = `${e.localName}.${e.getAttribute("class") ?? ""}: ${shown}, ${ratio.toFixed(2)}`;
    if (!found.has(key)) found.set(key, text.slice(0, 40));
  }
  return [...found].map(([key, text]) => `${key}: ${text}`);
}"""


@dataclass
class Visit:
    """A page that is open, and what it did that it should not do."""

    page: Any
    errors: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    host: tuple[str, str] = ("about", "")

    def go(self, address: str) -> None:
        """Open another page in the same window."""
        self.host = urlsplit(address)[:2]
        self.page.goto(address, wait_until="load")

    def refuse(self, route: Any) -> None:
        """Let a request to the host of the page through, and no other."""
        asked: tuple[str, str] = urlsplit(route.request.url)[:2]
        if asked == self.host or asked[0] in ("data", "blob"):
            route.continue_()
        else:
            self.elsewhere.append(route.request.url)
            route.abort()

    def hear(self, message: Any) -> None:
        """Note what the console shows as an error or a warning."""
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def faults(self) -> list[str]:
        """All that is wrong with the page: what was noted since the last time, and what a reader sees."""
        noted = self.errors + [f"asked for {address}" for address in self.elsewhere]
        self.errors, self.elsewhere = [], []
        return noted + self.sticking_out() + self.unreadable()

    def sticking_out(self) -> list[str]:
        """What makes the page scroll sideways, or is cut off there."""
        found: list[str] = self.page.evaluate(STICKING_OUT)
        return found

    def unreadable(self) -> list[str]:
        """Texts that contrast too little with what is behind them."""
        found: list[str] = self.page.evaluate(UNREADABLE)
        return found


@dataclass(frozen=True)
class Browser:
    """A browser that runs."""

    chromium: Any

    @contextmanager
    def open(
        self, address: str = "about:blank", *, width: int = WIDE, dark: bool = False, scripts: bool = True
    ) -> Iterator[Visit]:
        """Open a page in a window of some width, with the colours that the system is said to have."""
        context = self.chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
        )
        try:
            context.set_default_timeout(10_000)
            visit = Visit(context.new_page())
            context.route("**/*", visit.refuse)
            visit.page.on("console", visit.hear)
            visit.page.on("pageerror", lambda error: visit.errors.append(str(error)))
            visit.go(address)
            yield visit
        finally:
            context.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium, with Playwright from an environment of its own; skips if one of them cannot be had."""
    tools = environment(PLAYWRIGHT)
    # Of this interpreter too, so its packages can be imported here; behind all others.
    packages = str(next(tools.parent.glob("lib/python*/site-packages")))
    sys.path.append(packages)
    try:
        playwright = importlib.import_module("playwright.sync_api")
        with playwright.sync_playwright() as running:
            path, variables = executable(tools)
            chromium = running.chromium.launch(executable_path=path, env={**os.environ, **variables})
            yield Browser(chromium)
            chromium.close()
    finally:
        sys.path.remove(packages)


def executable(tools: Path) -> tuple[str, dict[str, str]]:
    """A Chromium, and the variables that it wants: one on the path, Playwright's own, or Debian's, unpacked."""
    for name in NAMES:
        found = shutil.which(name)
        if found is not None:
            return found, {}
    folder = folder_for("chromium")
    if not (folder / "complete").exists():
        debian = partial(unpacked, "chromium-headless-shell")
        for bring in (partial(downloaded, tools), debian):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            if bring(folder) and starts(*shell(folder)):
                (folder / "complete").touch()
                break
        else:
            pytest.skip("there is no Chromium that starts, and neither Playwright nor apt-get brings one")
    return shell(folder)


def shell(folder: Path) -> tuple[str, dict[str, str]]:
    """The headless Chromium below a folder, and where its libraries are if they are there too."""
    files = (path for path in folder.rglob("*headless*shell") if path.is_file() and "bin" not in path.parts)
    found = (path for path in files if os.access(path, os.X_OK))
    libraries = sorted({str(path.parent) for path in (folder / "usr" / "lib").rglob("*.so*")})
    return str(next(found, "")), {"LD_LIBRARY_PATH": os.pathsep.join(libraries)} if libraries else {}


def starts(path: str, variables: dict[str, str]) -> bool:
    """Whether a program finds its libraries."""
    return bool(path) and subprocess.run([path, "--version"], env={**os.environ, **variables}).returncode == 0


def downloaded(tools: Path, folder: Path) -> bool:
    """Let Playwright download its Chromium into a folder."""
    variables = {**os.environ, "PLAYWRIGHT_BROWSERS_PATH": str(folder)}
    command = [str(tools / "playwright"), "install", "--only-shell", "chromium"]
    return subprocess.run(command, env=variables, capture_output=True).returncode == 0


class QuietHandler(SimpleHTTPRequestHandler):
    """Gives files, and says nothing about it."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class QuietServer(ThreadingHTTPServer):
    """Says nothing about browsers that do not wait for an answer."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server of the files of a folder, on this machine."""

    server = QuietServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
