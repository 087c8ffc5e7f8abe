"""A schema registry in a process of its own, as ``tidelog registry serve`` runs it."""

import signal
import ssl
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from tests.helpers.forked_process import ForkedProcess, command, start_forked
from tests.helpers.ports import free_port

START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 30


class RegistryProcess:
    """One instance. It keeps its port when it starts again.

    With ``tls``, the context of a client that it lets in, it speaks https.
    """

    kind = "registry"
    """The command that serves."""
    servers_key = "kafkastore.bootstrap.servers"

    def __init__(
        self,
        directory: Path,
        bootstrap: str,
        tls: ssl.SSLContext | None = None,
        /,
        **properties: str,
    ) -> None:
        self.bootstrap = bootstrap
        self._tls: ssl.SSLContext | bool = tls or True
        self.url = f"http{'' if tls is None else 's'}://127.0.0.1:{free_port()}"
        self.log = directory / f"{self.kind}-{self.url.rpartition(':')[2]}.log"
        given = {"listeners": self.url, self.servers_key: bootstrap, **properties}
        self.arguments = [self.kind, "serve"]
        for key, value in given.items():
            self.arguments += ["--set", f"{key}={value}"]
        self._process: ForkedProcess | subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start, and wait until it responds."""
        self._process = self.start_process()
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                httpx.get(f"{self.url}/readyz", timeout=20, verify=self._tls).raise_for_status()
            except httpx.HTTPError:
                ended = self._process.poll()
                if ended is not None or time.monotonic() > deadline:
                    text = self.log.read_text()
                    raise AssertionError(
                        f"{self.kind} does not respond ({ended}): {text}"
                    ) from None
                time.sleep(0.05)
            else:
                return

    def start_process(self) -> ForkedProcess | subprocess.Popen[bytes]:
        """Return the process as it was started."""
        return start_forked(self.arguments, log=self.log, target=command)

    def send(self, sent: signal.Signals) -> None:
        """Send a signal."""
        if self._process is not None:
            self._process.send_signal(sent)

    def kill(self) -> None:
        """Kill it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT_S)

    def stop(self) -> None:
        """Stop it in order."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            self._process.wait(STOP_TIMEOUT_S)
