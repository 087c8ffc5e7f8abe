"""The console's handle on a process of the platform, which starts at first use and ends when idle.

Invariants: the process has one request at a time. The number of waiting requests is bounded, in
total and per person. If a request is stopped or takes too long, its process is killed with all
child processes, and its temporary files are removed. The process ends after a while without
requests, and with the console. The size of a response is bounded.
"""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import trio

from log_service.http.server.values import HttpError
from orchestration.console.values import TEMPORARY_PREFIX

START_S = 90.0
"""The longest start of a process. Imports may take long while many processes start."""
MAX_WAITING = 8
MAX_OF_PERSON = 4
"""The requests of one person that are open or wait. Without logins all people are one."""
MAX_RESPONSE_BYTES = 2 << 20
RECEIVED_BYTES = 64 << 10
BUSY = "too many people wait for this: try again in a moment"
OWN_BUSY = "you wait for too much at the same time: try again in a moment"
MEMORY_VARIABLES: Mapping[str, str] = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerKind:
    """A kind of process of the platform.

    It ends after ``idle_s`` seconds without a request. With 0 it ends after each request. With
    ``has_own_folder`` its temporary files are in a folder that is removed when it ends.
    """

    name: str
    idle_s: float
    deadline_s: float
    has_own_folder: bool = False


FACTS = WorkerKind(name="facts", idle_s=300.0, deadline_s=45.0, has_own_folder=True)
QUESTIONS = WorkerKind(name="questions", idle_s=120.0, deadline_s=60.0, has_own_folder=True)
PREVIEWS = WorkerKind(name="changes", idle_s=60.0, deadline_s=600.0)
CHANGES = WorkerKind(name="changes", idle_s=0.0, deadline_s=3_600.0)


class Worker:
    """Starts, asks and ends one process of a kind in the project's folder.

    There is no process while none is needed.
    """

    def __init__(self, kind: WorkerKind, folder: Path) -> None:
        self._kind = kind
        self._folder = folder
        self._turn = trio.Lock()
        self._open = Counter[str]()
        self._process: trio.Process | None = None
        self._temporary: str | None = None
        self._rest = bytearray()
        self._idle = trio.CancelScope()

    def __repr__(self) -> str:
        return f"<Worker {self._kind.name} process={self._process}>"

    @property
    def process_id(self) -> int | None:
        """The id of the process that runs now."""
        return None if self._process is None else self._process.pid

    async def ask(
        self, nursery: trio.Nursery, method: str, *, user: str = "", **parameters: Any
    ) -> Any:
        """Return the result of a method for a user. ``nursery`` outlives the request.

        Raises:
            HttpError: the platform refuses, the deadline passed, or too many requests wait.
        """
        if user and self._open[user] >= MAX_OF_PERSON:
            raise HttpError(503, OWN_BUSY, (("retry-after", "5"),))
        if self._turn.statistics().tasks_waiting >= MAX_WAITING:
            raise HttpError(503, BUSY, (("retry-after", "5"),))
        self._open[user] += 1
        try:
            response = await self._response_to(nursery, method, parameters)
        finally:
            self._open[user] -= 1
            self._open += Counter()  # forgets users without an open request
        if "error" in response:
            raise HttpError(500 if response["is_bug"] else 400, str(response["error"]))
        return response["result"]

    async def _response_to(
        self, nursery: trio.Nursery, method: str, parameters: Mapping[str, Any]
    ) -> dict[str, Any]:
        async with self._turn:
            self._idle.cancel()
            try:
                response = await self._exchange({"method": method, "parameters": parameters})
                if self._kind.idle_s:
                    self._idle = trio.CancelScope()
                    nursery.start_soon(self._end_when_idle, self._idle)
                else:
                    await self._end()
            except BaseException:
                with trio.CancelScope(shield=True):
                    await self._end()
                raise
        return response

    async def _exchange(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if self._process is None or self._process.poll() is not None:
            await self._end()
            with _deadline(START_S, "the platform did not start in time: try again"):
                self._process = await self._start()
                await self._response(self._process)
        process, limit_s = self._process, self._kind.deadline_s
        with _deadline(limit_s, f"it took more than {limit_s:.0f} s, and was ended"):
            assert process.stdin is not None
            with suppress(trio.BrokenResourceError):
                await process.stdin.send_all(json.dumps(request).encode() + b"\n")
            return await self._response(process)

    async def _start(self) -> trio.Process:
        own: dict[str, str] = {}
        if self._kind.has_own_folder:
            make = partial(tempfile.mkdtemp, prefix=TEMPORARY_PREFIX)
            self._temporary = own["TMPDIR"] = await trio.to_thread.run_sync(make)
        return await trio.lowlevel.open_process(
            [sys.executable, "-m", "orchestration", "console", self._kind.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=self._folder,
            env={**MEMORY_VARIABLES, **os.environ, **own},
            start_new_session=True,
        )

    async def _response(self, process: trio.Process) -> dict[str, Any]:
        assert process.stdout is not None
        while b"\n" not in self._rest:
            piece = await process.stdout.receive_some(RECEIVED_BYTES)
            if not piece:
                code = await process.wait()
                logger.warning("The process of %s ended by itself: %s", self._kind.name, code)
                text = "its process ended, perhaps because it needed too much memory: ask for less"
                raise HttpError(503, text)
            self._rest += piece
            if len(self._rest) > MAX_RESPONSE_BYTES:
                raise HttpError(503, "this is more than a page can show: ask for less")
        line, _, rest = bytes(self._rest).partition(b"\n")
        self._rest = bytearray(rest)
        found: dict[str, Any] = json.loads(line)
        return found

    async def _end_when_idle(self, scope: trio.CancelScope) -> None:
        """End the process after an idle time, or with the console.

        A request restarts the idle time.
        """
        try:
            with scope:
                await trio.sleep(self._kind.idle_s)
        finally:
            if not scope.cancel_called:
                with trio.CancelScope(shield=True):
                    await self._end()

    async def _end(self) -> None:
        """Kill the process with all that it started, and remove its temporary files."""
        process, self._process = self._process, None
        temporary, self._temporary = self._temporary, None
        self._rest.clear()
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    await stream.aclose()
        if temporary is not None:
            await trio.to_thread.run_sync(partial(shutil.rmtree, temporary, ignore_errors=True))


@contextmanager
def _deadline(limit_s: float, text: str) -> Iterator[None]:
    """Refuse a request with the sentence ``text`` if the block takes longer than ``limit_s``.

    Raises:
        HttpError: 503.
    """
    with trio.move_on_after(limit_s) as scope:
        yield
    if scope.cancelled_caught:
        raise HttpError(503, text)
