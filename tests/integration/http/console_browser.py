"""The console in a browser, for tests: hostile values, pages at both sizes and themes, axe-core."""

import fcntl
import json
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.platform.browser import Tab

HERE = Path(__file__).parent / "axe"
PAYLOADS = (
    "<script>document.title = 'taken'</script>",
    "<img src=x onerror=\"document.title = 'taken'\">",
    '"><svg onload="document.title = \'taken\'">',
    "'-(document.title = 'taken')-'",
    "</td></table><h1>taken</h1>",
    "javascript:document.title = 'taken'",
    "{{ 7 * 7 }}",
    "\u202eevil\u0000\u001b[31m",
)
SIZES = ((1280, "light"), (390, "dark"))


def axe() -> str:
    """Return axe-core's program, or skip. It is installed beside Python's packages."""
    npm = shutil.which("npm")
    version = sha256((HERE / "package-lock.json").read_bytes()).hexdigest()[:12]
    folder = Path(sys.prefix) / f"axe-{version}"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            if npm is None:
                pytest.skip("there is no npm: accessibility was not judged")
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(HERE, partial)
            command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            done = subprocess.run(
                command, cwd=partial, capture_output=True, timeout=120, check=False
            )
            if done.returncode:
                pytest.skip(f"npm cannot install axe-core: {done.stderr[-200:]!r}")
            partial.rename(folder)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text()


def show(page: Tab, url: str, width: int = 1280, scheme: str = "light") -> None:
    """Open a page, and wait until it is complete."""
    page.ask(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=900,
        deviceScaleFactor=1,
        mobile=width < 500,
    )
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.ask("Emulation.setEmulatedMedia", features=features)
    page.open(url)
    path = json.dumps(url.partition("?")[0])
    is_there = f"document.readyState === 'complete' && location.href.startsWith({path})"
    page.wait_for(f"{is_there} && !!document.querySelector('main h1')")


def violations(page: Tab) -> list[Any]:
    """Return what axe-core finds on the page that is open."""
    text = "JSON.stringify(found.violations.map(v => [v.id, v.nodes.map(n => n.html)]))"
    result = page.ask(
        "Runtime.evaluate",
        expression=f"axe.run().then(found => {text})",
        awaitPromise=True,
        returnByValue=True,
    )
    return list(json.loads(result["result"]["value"]))


def faults(page: Tab, program: str) -> list[Any]:
    """Return what is wrong with the page that is open: by axe-core, and by its width."""
    page.value(program)
    found = violations(page)
    if page.value("document.documentElement.scrollWidth > innerWidth"):
        found.append("the page is wider than the screen")
    return found
