"""Warm Spark Connect servers serve tests.

A test may stop or kill its own, and one is shared by all processes of a run of tests.
"""

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from orchestration.settings import load_settings
from orchestration.spark.server import SparkServer
from orchestration.spark.token import kept_token
from tests.helpers.ports import free_port

START_TIMEOUT_S = 120
LEAVE_POLL_S = 0.2


@contextmanager
def warm_server(
    data_directory: Path, master: str = "local[2]"
) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """Yield the address of a ready server, with its token, and its process.

    Its log is ``server.log`` in the directory.
    """
    settings = load_settings(
        {
            "TIDELOG_DATA": str(data_directory),
            "TIDELOG_SPARK_MASTER": master,
            "TIDELOG_SPARK_DRIVER_MEMORY": "1g",
        }
    )
    server = SparkServer(settings=settings, port=free_port())
    with (data_directory / "server.log").open("wb") as output:
        child = subprocess.Popen(
            server.argv(),
            env=server.environment(os.environ),
            cwd=data_directory,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not server.is_ready():
            assert child.poll() is None, (data_directory / "server.log").read_text()[-2000:]
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield f"sc://localhost:{server.port}/;token={kept_token(settings)}", child
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(90)


class SharedServer:
    """All processes of a run share one server.

    The first that asks starts it, and ends it when no other uses it any more. Its folder is one
    that these processes have in common: a file there has the address, and each user holds a lock on
    another. The lock goes with its process, however that ends. The starter holds one more: where it
    has died, the last user ends the server.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._address = directory / "address.txt"
        self._process = directory / "process.txt"
        self._own = ExitStack()
        self._is_own = False
        self._use: IO[bytes] | None = None
        self._life: IO[bytes] | None = None

    def use(self) -> str:
        """Return the address of the server. It is there until ``leave``."""
        self._directory.mkdir(exist_ok=True)
        with self._alone():
            if not self._address.exists():
                url, process = self._own.enter_context(warm_server(self._directory))
                self._own.callback(self._address.unlink)
                self._life = self._own.enter_context(self._starter())
                fcntl.flock(self._life, fcntl.LOCK_EX)
                self._process.write_text(str(process.pid))
                self._address.write_text(url)
                self._is_own = True
            self._use = self._users()
            fcntl.flock(self._use, fcntl.LOCK_SH)
            return self._address.read_text()

    def leave(self) -> None:
        """Use the server no more.

        The process that started it waits here for all others, and of one that has died the last
        ends it.
        """
        if self._use is not None:
            self._use.close()
            self._use = None
        while self._is_own and not self._end():
            time.sleep(LEAVE_POLL_S)
        self._end_of_dead()

    def _end(self) -> bool:
        with self._alone(), self._users() as users:
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            self._own.close()
            self._is_own = False
            return True

    def _end_of_dead(self) -> None:
        with (
            self._alone(),
            self._users() as users,
            self._starter() as starter,
            suppress(BlockingIOError),
        ):
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(starter, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._address.exists():
                self._address.unlink()
                with suppress(ProcessLookupError):
                    os.kill(int(self._process.read_text()), signal.SIGTERM)

    def _starter(self) -> IO[bytes]:
        return (self._directory / "starter.lock").open("wb")

    def _users(self) -> IO[bytes]:
        return (self._directory / "users.lock").open("wb")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let no other process start, use or end the server meanwhile."""
        with (self._directory / "server.lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
