"""Headless Chromium over a pipe, as its DevTools speak: pages from files, expressions, the mouse, what it complains of.

Needs no driver and no package. The browser reads from file descriptor 3 and writes to 4, a message of JSON and a zero
byte at a time.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

PATIENCE = 60.0
"""Seconds that an answer may take."""


def chromium() -> str:
    """The browser's command; skips the test where there is none."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("Chromium is not installed")
    return found


class Browser:
    """A browser with one page. ``complaints`` are console messages, errors and requests for anything but files."""

    def __init__(self, width: int = 1440, height: int = 900):
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._number = 0
        self._rest = b""
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        command = [
            *(chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--user-data-dir={self._folder.name}"),
            *("--remote-debugging-pipe", f"--window-size={width},{height}", "--hide-scrollbars", "about:blank"),
        ]
        # A shell puts the pipes where the browser looks for them: a child of Python has them under other numbers.
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", *command],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        target = next(t for t in self._call("Target.getTargets")["targetInfos"] if t["type"] == "page")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Performance"):
            self.call(f"{domain}.enable")
        self.size(width, height)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._call("Browser.close")
            self._process.wait(10)
        except (OSError, AssertionError, subprocess.TimeoutExpired):
            self._process.kill()
        os.close(self._to)
        os.close(self._from)
        self._folder.cleanup()

    # --- the protocol ------------------------------------------------------------------------------------------------

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command to the page; fails the test when it is refused."""
        return self._call(method, self._session, **parameters)

    def _call(self, method: str, session: str | None = None, /, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._heard(answer)

    def _read(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(end - time.monotonic(), 0))
            data = os.read(self._from, 1 << 20) if ready else b""
            assert data, "the browser does not answer"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _heard(self, event: dict[str, Any]) -> None:
        method, given = event.get("method", ""), event.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.complaints.append(" ".join(str(a.get("value", a.get("description"))) for a in given["args"]))
        elif method == "Runtime.exceptionThrown":
            details = given["exceptionDetails"]
            self.complaints.append(str(details.get("exception", {}).get("description", details["text"])))
        elif method == "Log.entryAdded":
            self.complaints.append(given["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])

    # --- the page ----------------------------------------------------------------------------------------------------

    def size(self, width: int, height: int) -> None:
        """Pixels of the page's window."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def dark(self, dark: bool) -> None:
        """What the person at the screen prefers."""
        value = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def open(self, path: Path, fragment: str = "", seconds: float = PATIENCE) -> float:
        """Open an explorer page and wait until it is ready; the milliseconds from the navigation until then."""
        self.call("Page.navigate", url="about:blank")
        self.complaints.clear()
        self.requests.clear()
        self.call("Page.navigate", url=path.as_uri() + fragment)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            ready = self.evaluate("location.protocol === 'file:' ? document.body?.dataset.ready : undefined")
            if ready:
                return float(ready)
            time.sleep(0.02)
        raise AssertionError(f"the page is not ready: {self.complaints}")

    def go(self, address: str) -> None:
        """Open any page and wait until it and what it loads are there."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=address)
        there = "location.href !== 'about:blank' && document.readyState === 'complete'"
        self.wait_for(there)

    def wait_for(self, expression: str, seconds: float = PATIENCE) -> Any:
        """The value of an expression as soon as it is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if value := self.evaluate(expression):
                return value
            time.sleep(0.02)
        raise AssertionError(f"in {seconds:.0f} seconds there was no {expression}: {self.complaints}")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, after it if it is a promise."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def move(self, x: float, y: float) -> None:
        """The pointer."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def drag(self, x: float, y: float, to_x: float, to_y: float) -> None:
        """From one place to another with the left button down."""
        places = (("mousePressed", x, y), ("mouseMoved", (x + to_x) / 2, (y + to_y) / 2), ("mouseMoved", to_x, to_y))
        for kind, at_x, at_y in (*places, ("mouseReleased", to_x, to_y)):
            self.call("Input.dispatchMouseEvent", type=kind, x=at_x, y=at_y, button="left", buttons=1, clickCount=1)

    def click(self, x: float, y: float) -> None:
        """The left button."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def key(self, key: str) -> None:
        """Press and release a key."""
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def heap(self) -> float:
        """Bytes of the page's JavaScript, after its garbage was collected."""
        self.call("HeapProfiler.collectGarbage")
        return next(m["value"] for m in self.call("Performance.getMetrics")["metrics"] if m["name"] == "JSHeapUsedSize")

    def processor_seconds(self, painting: bool = False) -> float:
        """What the thread of the page has had of a processor, or, with ``painting``, all threads of its process: other
        work on the machine is not in it.
        """
        name = "ProcessTime" if painting else "ThreadTime"
        return next(m["value"] for m in self.call("Performance.getMetrics")["metrics"] if m["name"] == name)

    def screenshot(self, path: Path) -> None:
        """What is to be seen, as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
