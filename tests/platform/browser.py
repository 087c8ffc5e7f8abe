"""A real browser for tests: Chromium without a window, driven through its debugging protocol."""

import base64
import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import uvicorn
from starlette.types import ASGIApp
from websockets.sync.client import ClientConnection, connect

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
PATIENCE_S = 240


def browser(home: Path, *arguments: str) -> list[str]:
    """Return the command of a browser that keeps everything in ``home``."""
    assert CHROMIUM is not None
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        f"--user-data-dir={home}",
        "--disable-dev-shm-usage",
    ]
    return [CHROMIUM, *flags, *arguments]


class Tab:
    """One page of a browser."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._last_id = 0

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the answer to one command of the protocol."""
        self._last_id += 1
        self._socket.send(json.dumps({"id": self._last_id, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv(PATIENCE_S))
            if answer.get("id") == self._last_id:
                assert "error" not in answer, answer
                return dict(answer["result"])

    def value(self, expression: str) -> Any:
        """Return what a JavaScript expression is; it runs also where the page's own scripts are
        off.
        """
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)[
            "result"
        ].get("value")

    def wait_for(self, expression: str) -> None:
        """Wait until a JavaScript expression is true."""
        deadline = time.monotonic() + PATIENCE_S
        while self.value(expression) is not True:
            assert time.monotonic() < deadline, (
                f"{expression} is not true of {self.value('document.documentElement.outerHTML')}"
            )
            time.sleep(0.1)

    def open(self, url: str) -> None:
        """Begin to load a page."""
        self.ask("Page.navigate", url=url)

    def fill(self, selector: str, text: str) -> None:
        """Type a text into a field, as a person does."""
        self.value(f"document.querySelector({json.dumps(selector)}).focus()")
        self.value(f"document.querySelector({json.dumps(selector)}).select()")
        self.ask("Input.insertText", text=text)

    def press_enter(self) -> None:
        """Press the key that sends a form."""
        key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **key)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **key)

    def screenshot(self, path: Path) -> None:
        """Write what the page looks like."""
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def tab(home: Path) -> Iterator[Tab]:
    """Run a browser with one empty page."""
    home.mkdir(parents=True, exist_ok=True)
    active = home / "DevToolsActivePort"
    command = browser(home, "--remote-debugging-port=0", "about:blank")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not active.is_file() or not active.read_text().count("\n"):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
            pages = json.load(
                urlopen(f"http://127.0.0.1:{active.read_text().splitlines()[0]}/json/list")
            )
            url = next(each["webSocketDebuggerUrl"] for each in pages if each["type"] == "page")
            with connect(url, max_size=None) as connection:
                yield Tab(connection)
        finally:
            process.terminate()
            process.wait()


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """Serve ``app`` on a free port of 127.0.0.1, and yield its URL."""
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=5)
    )
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
