"""A process of the platform for the console: a line of JSON is a request, and so is a response.

Requests arrive on the standard input. Its end ends the process, even in the middle of work, so that
no process outlives a killed console. The process works on one request at a time. Lines that
libraries print go to the error output, because the standard output is for responses.
"""

import json
import logging
import os
import queue
import resource
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import click

from orchestration.console.values import TEMPORARY_PREFIX
from orchestration.project.importing import kept_imports

MODULES: Mapping[str, tuple[str, ...]] = {
    "facts": ("tables", "letters"),
    "questions": ("questions",),
    "changes": ("changes",),
}
"""The modules of each kind of process. Their ``METHODS`` are the process's methods."""
DATA_BYTES = 2 << 30
"""The memory of a process that only reads. A change starts Spark, which has a bound of its own."""
MAX_ERROR_CHARACTERS = 4_000

logger = logging.getLogger(__name__)


def main() -> None:
    """Serve requests of the console as the kind of process that the first argument names."""
    kind = sys.argv[1]
    requests = queue.SimpleQueue[bytes]()
    threading.Thread(target=take_lines, args=(sys.stdin.buffer, requests), daemon=True).start()
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if kind != "changes":
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (DATA_BYTES, most))
    with kept_imports():
        methods = methods_of(kind)
    write_line(output, {"ready": True})
    while True:
        write_line(output, response_to(requests.get(), methods))


def methods_of(kind: str) -> dict[str, Callable[..., Any]]:
    """Return the methods that a kind of process offers, by name."""
    found: dict[str, Callable[..., Any]] = {}
    for name in MODULES[kind]:
        found |= import_module(f"orchestration.console.process.{name}").METHODS
    return found


def take_lines(source: BinaryIO, requests: "queue.SimpleQueue[bytes]") -> None:
    """Put each line into the queue, and exit the process at the end of the input."""
    for line in source:
        requests.put(line)
    folder = Path(tempfile.gettempdir())
    if folder.name.startswith(TEMPORARY_PREFIX):  # a console that was killed cannot remove it
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def response_to(line: bytes, methods: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """Return the response to a request. A refusal is a sentence for a person."""
    try:
        asked = json.loads(line)
        return {"result": methods[asked["method"]](**asked["parameters"])}
    except click.ClickException as error:
        return refusal(error.format_message())
    except MemoryError:
        return refusal("this needs more memory than a page may take: ask for less")
    except Exception as error:
        logger.exception("A request of the console failed")
        return refusal(f"{type(error).__name__}: {error}", is_bug=True)


def refusal(text: str, *, is_bug: bool = False) -> dict[str, Any]:
    """Return the response that refuses a request, with the reason ``text``.

    ``is_bug`` tells an unexpected error, which becomes status 500, from a refusal.
    """
    return {"error": text[:MAX_ERROR_CHARACTERS], "is_bug": is_bug}


def write_line(output: BinaryIO, content: Mapping[str, Any]) -> None:
    """Write one response."""
    output.write(
        json.dumps(content, ensure_ascii=False, default=str).encode(errors="replace") + b"\n"
    )
    output.flush()
