"""A headless Chromium for tests: shown a page as a screen, a phone or paper would show it, and asked about it.

It is told what to do through a pipe, in the Chrome DevTools Protocol (JSON ended by a zero byte), so nothing else is
needed.  ``found()`` is the one that tools/browser loads, or one that the machine has.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from support.places import ROOT

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")
# what is opened is made by the tests alone; no sandbox, because that needs rights that CI has not
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
    "--disable-background-networking", "--remote-debugging-pipe", "--force-color-profile=srgb",
)  # fmt: skip
PATIENCE = 60.0  # seconds for one answer, on a machine that is busy
READ_HERE, WRITE_THERE = 3, 4  # the numbers of the pipes' ends that Chromium expects
ABOVE = 20  # where those ends lie before, out of the way


def found() -> str | None:
    """The path of a browser, or None: BLOCKSVM_BROWSER, what tools/browser loaded, or one that is installed."""
    named = os.environ.get("BLOCKSVM_BROWSER", "")
    ours = (named, f"{sys.prefix}/browser/chromium", f"{ROOT}/.venv/browser/chromium", *map(shutil.which, NAMES))
    return next((path for path in ours if path and os.access(path, os.X_OK)), None)


@dataclass
class Page:
    """A page that is open: what it said on its console, and what it asked for."""

    browser: Browser
    session: str
    said: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    loads: int = 0

    def tell(self, method: str, **parameters) -> dict:
        return self.browser.tell(method, self.session, **parameters)

    def value(self, expression: str):
        """What an expression of JavaScript, or a promise of it, comes to."""
        answer = self.tell("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def show(self, width: int, height: int, scheme: str = "light", medium: str = "") -> None:
        """As a screen of this size, in CSS pixels, and these preferences; medium "print": as paper."""
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)  # fmt: skip
        self.tell("Emulation.setEmulatedMedia", media=medium,
                  features=[{"name": "prefers-color-scheme", "value": scheme}])  # fmt: skip

    def open(self, url: str) -> None:
        before = self.loads
        self.tell("Page.navigate", url=url)
        self.browser.wait(lambda: self.loads > before)

    def point_at(self, x: float, y: float) -> None:
        """Move the pointer there."""
        self.tell("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, path: Path) -> None:
        """A PNG of the whole page."""
        answer = self.tell("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def printed(self) -> bytes:
        """A PDF of the page, on A4, with its structure: what a picture shows is told there as text."""
        answer = self.tell("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, generateTaggedPDF=True)
        return base64.b64decode(answer["data"])

    def heard(self, method: str, told: dict) -> None:
        if method == "Page.loadEventFired":
            self.loads += 1
        elif method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif method == "Runtime.consoleAPICalled":
            self.said.append(f"{told['type']}: {[one.get('value') for one in told['args']]}")
        elif method == "Runtime.exceptionThrown":
            self.said.append(f"exception: {told['exceptionDetails']}")
        elif method == "Log.entryAdded":
            self.said.append(f"{told['entry']['level']}: {told['entry']['text']}")


class Browser:
    """A Chromium that runs until ``close``; folder: for its profile."""

    def __init__(self, path: str, folder: Path):
        beside = Path(path).parent
        environment = dict(os.environ, HOME=str(folder), XDG_CACHE_HOME=str(folder))
        if (beside / "fonts.conf").exists():
            environment |= {"LD_LIBRARY_PATH": str(beside / "lib"), "FONTCONFIG_FILE": str(beside / "fonts.conf")}
        (there, self.ours), (self.answers, back) = os.pipe(), os.pipe()
        high = [fcntl.fcntl(end, fcntl.F_DUPFD, ABOVE) for end in (there, back)]
        moved = [(os.POSIX_SPAWN_DUP2, end, to) for end, to in zip(high, (READ_HERE, WRITE_THERE), strict=True)]
        silent = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (1, 2)]
        command = [path, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        self.process = os.posix_spawn(path, command, environment, file_actions=moved + silent, setpgroup=0)
        for end in (there, back, *high):
            os.close(end)
        self.number, self.rest, self.replies, self.pages = 0, b"", {}, {}

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *what) -> None:
        os.killpg(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        os.close(self.ours)
        os.close(self.answers)

    def page(self) -> Page:
        target = self.tell("Target.createTarget", url="about:blank")["targetId"]
        session = self.tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.tell(f"{domain}.enable")
        return page

    def tell(self, method: str, session: str | None = None, **parameters) -> dict:
        """Ask for something, and wait for the answer."""
        self.number += 1
        asked = {"id": self.number, "method": method, "params": parameters}
        if session:
            asked["sessionId"] = session
        os.write(self.ours, json.dumps(asked).encode() + b"\0")
        self.wait(lambda: asked["id"] in self.replies)
        answer = self.replies.pop(asked["id"])
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def wait(self, ready, seconds: float = PATIENCE) -> None:
        """Hear what the browser says until ready() holds."""
        end = time.monotonic() + seconds
        while not ready():
            left = end - time.monotonic()
            assert left > 0, "the browser does not answer"
            if select.select([self.answers], [], [], min(left, 0.5))[0]:
                read = os.read(self.answers, 1 << 20)
                assert read, "the browser has ended"
                *whole, self.rest = (self.rest + read).split(b"\0")
                for text in whole:
                    self._heard(json.loads(text))

    def _heard(self, told: dict) -> None:
        if "id" in told:
            self.replies[told["id"]] = told
        elif told.get("sessionId") in self.pages:
            self.pages[told["sessionId"]].heard(told["method"], told["params"])
