"""Real brokers for integration tests, each in a process (to be killed) or a thread (to be quick).

    with BrokerProcess(tmp_path) as broker:
        Producer({"bootstrap.servers": broker.bootstrap})
        broker.kill()       # SIGKILL: nothing is written any more
        broker.start()      # again, on the same port and the same data

Nothing stays behind: leaving the block kills the processes that are left, and a process dies with
the test run that started it.
"""

import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import TracebackType
from typing import Self

import trio

from log_service.broker.broker import Broker
from log_service.broker.env import real_env
from log_service.config.server import parse_server_properties
from tests.helpers.forked_process import ForkedProcess, start_forked

START_SECONDS = 30.0
STOP_SECONDS = 20.0
HOST = "127.0.0.1"

READY = re.compile(r"is ready on \S+?:(\d+)")
ROOT = Path(__file__).resolve().parent.parent.parent

ALONE = {
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
"""Properties of a node that is a cluster of its own.

They replace the defaults for internal topics with several replicas.
"""
DEFAULTS: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
}


class NotStartedError(AssertionError):
    """The error for a broker that did not get ready. Its text is the broker's log."""


def overrides_of(directory: Path, port: int, properties: Mapping[str, str]) -> list[str]:
    """Return the properties of one broker as ``key=value``. Later ones win."""
    texts = {
        **DEFAULTS,
        "listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": str(directory / "data"),
        **properties,
    }
    return [f"{name}={value}" for name, value in texts.items()]


class BrokerProcess:
    """One broker process over one directory. ``properties`` override ``DEFAULTS``."""

    def __init__(
        self, directory: Path, *, port: int = 0, properties: Mapping[str, str] | None = None
    ) -> None:
        self.directory = directory
        self.port = port
        self.properties = dict(properties or {})
        self.log_path = directory / "broker.log"
        self._process: ForkedProcess | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()

    @property
    def bootstrap(self) -> str:
        """Return the address that clients connect to."""
        return f"{HOST}:{self.port}"

    @property
    def log(self) -> str:
        """Return the broker's log of all its starts."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    @property
    def process_id(self) -> int:
        """Return the id of the running process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> Self:
        """Start, and wait until it takes connections."""
        assert self._process is None, "it runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        offset = len(self.log)
        self._process = start_forked(
            overrides_of(self.directory, self.port, self.properties), log=self.log_path
        )
        self.port = self._wait_until_ready(offset)
        return self

    def _wait_until_ready(self, offset: int) -> int:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            found = READY.search(self.log[offset:])
            if found:
                return int(found.group(1))
            if self._process.poll() is not None:
                break
            time.sleep(0.02)
        log = self.log[offset:]
        self.kill()
        raise NotStartedError(log)

    def stop(self) -> int:
        """Stop gracefully and return the exit code."""
        return self.end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process at once, if it runs: nothing more is written."""
        if self._process is not None:
            self.end(signal.SIGKILL)

    def end(self, number: int) -> int:
        """Send a signal and wait for the end."""
        assert self._process is not None, "it does not run"
        process, self._process = self._process, None
        process.send_signal(number)
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def run_to_its_end(
    directory: Path, *, port: int = 0, properties: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Start a broker that cannot start, and return its exit code and its output."""
    with NamedTemporaryFile() as log:
        process = start_forked(overrides_of(directory, port, properties or {}), log=Path(log.name))
        try:
            return process.wait(START_SECONDS), log.read().decode()
        finally:
            process.kill()


class BrokerThread:
    """One broker in a thread of this process, which starts in a tenth of a second.

    Tests may read ``broker``. ``call`` runs code on its event loop.
    """

    def __init__(
        self, directory: Path, *, port: int = 0, properties: Mapping[str, str] | None = None
    ) -> None:
        config, settings = parse_server_properties(
            "", overrides_of(directory, port, properties or {})
        )
        self.broker = Broker(real_env(config), config, static_texts=settings.texts)
        self._started = threading.Event()
        self._error: BaseException | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._thread = threading.Thread(target=self._run, name="broker", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(START_SECONDS), "the broker did not get ready"
        if self._error is not None:
            raise self._error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._thread.is_alive() and self._token is not None:
            trio.from_thread.run(self.broker.stop, trio_token=self._token)
        self._thread.join(STOP_SECONDS)
        assert not self._thread.is_alive(), "the broker did not stop"
        if self._error is not None:
            raise self._error

    @property
    def bootstrap(self) -> str:
        """Return the address that clients connect to."""
        host, port = self.broker.address
        return f"{host}:{port}"

    def call(self, function: Callable[[], object]) -> object:
        """Run a plain function on the broker's event loop and return what it returns."""
        assert self._token is not None
        return trio.from_thread.run_sync(function, trio_token=self._token)

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            self._error = error
        finally:
            self._started.set()

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            await nursery.start(self.broker.run)
            self._started.set()
