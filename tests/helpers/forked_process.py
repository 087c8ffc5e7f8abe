"""Starts nodes and commands as forks of a process that has imported them.

A start takes a fifth of the processor time.

    process = start_forked(["node.id=1", ...], log=path)             # `tidelog serve`, without file
    process = start_forked(["mirror", "run", file], log=path, target=command)  # `tidelog mirror`
    process.send_signal(signal.SIGTERM)
    process.wait(20)

Each is a process like any other: it has its own memory and descriptors, can be killed or paused,
and ends with the test run that started it. Tests of the command line and the supervisor start nodes
in a fresh interpreter, and so cover its part of a start.

Each test process has one ``ForkServer``, which starts with the first fork. It is not the one of
``multiprocessing``, because that has imported Dagster and Spark for the tests of the platform, and
a node would be as large.
"""

import atexit
import gc
import os
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import trio

from log_service.broker.main import serve
from log_service.broker.registry import REGISTRY
from log_service.broker.warm_up import warm_up
from log_service.cli.main import main as command_line
from tests.helpers.documents import ROOT

SERVER = f"import sys; from {__name__} import run_server; run_server(int(sys.argv[1]))"
SIZE = struct.Struct(">I")

Target = Callable[[list[str]], int | None]


def node(overrides: list[str]) -> int:
    """Serve the properties (``key=value``)."""
    return serve(None, overrides)


def command(arguments: list[str]) -> None:
    """Run ``tidelog`` with these arguments."""
    command_line(arguments)


def start_forked(arguments: Sequence[str], *, log: Path, target: Target = node) -> "ForkedProcess":
    """Call the target in a new process, which appends its output to the log.

    The target is a function of a module. Its result is the exit code.
    """
    return _server().fork(target, arguments, log)


class ForkedProcess:
    """A running fork, with the interface of ``subprocess.Popen``."""

    def __init__(self, pid: int, status: int, held: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status = status
        self._held = held

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end.

        Raises:
            TimeoutExpired: it has not ended after ``timeout`` seconds.
        """
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, sig: int) -> None:
        """Send a signal, if it runs."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended, and its server has not said so yet
                os.kill(self.pid, sig)

    def terminate(self) -> None:
        """Ask the process to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process at once."""
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and _readable([self._status], timeout):
            # Nothing: the server was killed.
            self.returncode = int(os.read(self._status, 16) or -signal.SIGKILL)
            os.close(self._status)
            os.close(self._held)
        return self.returncode


class ForkServer:
    """A process that forks others on request.

    It receives a target with three descriptors. It tells the process id at once, and the exit
    status later.
    """

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        arguments = [sys.executable, "-c", SERVER, str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                arguments, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, cwd=ROOT
            )
        self._lock = threading.Lock()
        atexit.register(self.end)

    def end(self) -> None:
        """End the server. Its forks end with this process."""
        self._socket.close()
        self._process.wait()

    def fork(self, target: Target, arguments: Sequence[str], log: Path) -> ForkedProcess:
        """Fork a process; see ``start_forked``."""
        work = pickle.dumps((target, list(arguments), dict(os.environ)))
        stdin, held = os.pipe()
        status, told = os.pipe()
        output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            with self._lock:
                socket.send_fds(self._socket, [SIZE.pack(len(work))], [stdin, output, told])
                self._socket.sendall(work)
                (pid,) = SIZE.unpack(_received(self._socket, SIZE.size))
        finally:
            for descriptor in (stdin, output, told):
                os.close(descriptor)
        return ForkedProcess(pid, status, held)


@cache
def _server() -> ForkServer:
    return ForkServer()


def run_server(descriptor: int) -> None:
    """Fork on request of the socket, until its other end is closed."""
    trio.run(warm_up, REGISTRY)  # each node would compile the same codecs once it is ready
    gc.freeze()
    children: dict[int, int] = {}
    ended, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    with socket.socket(fileno=descriptor) as asked:
        while True:
            ready = _readable([descriptor, ended], None)
            if ended in ready:
                os.read(ended, 1024)
                _tell_of_ends(children)
            if descriptor in ready:
                header, descriptors, _, _ = socket.recv_fds(asked, SIZE.size, 3)
                if not header:
                    return
                target, arguments, environ = pickle.loads(_received(asked, *SIZE.unpack(header)))
                stdin, output, told = descriptors
                pid = os.fork()
                if pid == 0:
                    _be_child(target, arguments, environ, stdin, output)
                children[pid] = told
                os.close(stdin)
                os.close(output)
                asked.sendall(SIZE.pack(pid))


def _tell_of_ends(children: dict[int, int]) -> None:
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            told = children.pop(pid)
            with suppress(BrokenPipeError):
                os.write(told, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(told)


def _be_child(
    target: Target, arguments: list[str], environ: dict[str, str], stdin: int, output: int
) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, descriptor in enumerate((stdin, output, output)):
        os.dup2(descriptor, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(environ)
    # Nothing is written to the standard input: reading it returns when the process that holds the
    # other end is gone.
    threading.Thread(target=lambda: os.read(0, 1) or os._exit(1), daemon=True).start()
    gc.disable()
    code = 1
    try:
        code = target(arguments) or 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - the process ends here, and its log says why
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _readable(descriptors: Sequence[int], timeout_s: float | None) -> list[int]:
    """Wait until some descriptors can be read.

    Unlike ``select``, it takes descriptors of any number.
    """
    waiting = select.poll()
    for descriptor in descriptors:
        waiting.register(descriptor, select.POLLIN)
    return [
        descriptor
        for descriptor, _ in waiting.poll(None if timeout_s is None else timeout_s * 1_000)
    ]


def _received(connection: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        part = connection.recv(size - len(content))
        if not part:
            raise EOFError("the other side has ended")
        content += part
    return content
