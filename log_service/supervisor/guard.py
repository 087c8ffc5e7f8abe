"""A small process around a component, which ends the component when the supervisor ends.

``python -m log_service.supervisor.guard DEADLINE_S -- ARGV...`` starts the component in a session
of its own, so that a Ctrl-C in the terminal reaches only the supervisor. The guard's standard input
is a pipe from the supervisor. When the pipe closes, for whatever reason, the component is asked to
end by SIGTERM, and is killed after the deadline. When the component ends, its remaining descendants
in its process group are killed, and the guard ends with its exit code (128 + signal if a signal
ended it). The guard knows nothing of components. It imports little, because each component has a
guard.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    """Run the component whose command follows ``--``, and return the guard's exit code."""
    deadline_s = float(arguments[0])
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _wake_only)
    signal.signal(signal.SIGTERM, _wake_only)
    child = subprocess.Popen(  # noqa: S603
        arguments[2:],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_end_with_parent,  # noqa: PLW1509
    )
    try:
        _wait(child, wake_read)
        _stop(child, wake_read, deadline_s)
    finally:
        _signal_session(child.pid, signal.SIGKILL)
    code = child.wait()
    return 128 - code if code < 0 else code


def _wake_only(_number: int, _frame: object) -> None:
    """Do nothing. The signal's wake-up descriptor reports the signal."""


def _end_with_parent() -> None:
    """Ask Linux to kill the component if the guard itself is killed.

    Other systems have no such feature. The component also gets the default handling of SIGINT and
    SIGHUP, which the guard ignores.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for restored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(restored, signal.SIG_DFL)


def _wait(child: "subprocess.Popen[bytes]", wake_read: int) -> None:
    """Wait until the component or the supervisor has ended, or a SIGTERM asks the guard to stop."""
    stdin = sys.stdin.fileno()
    while child.poll() is None:
        readable, _, _ = select.select([stdin, wake_read], [], [])
        if stdin in readable and not os.read(stdin, 1024):
            return
        if wake_read in readable and signal.SIGTERM in os.read(wake_read, 1024):
            return


def _stop(child: "subprocess.Popen[bytes]", wake_read: int, deadline_s: float) -> None:
    """Ask the component to end, and wait until it has ended or its time is over.

    A second SIGTERM ends the wait, too.
    """
    if child.poll() is not None:
        return
    child.terminate()
    deadline = time.monotonic() + deadline_s
    while child.poll() is None and (left_s := deadline - time.monotonic()) > 0:
        readable, _, _ = select.select([wake_read], [], [], left_s)
        if readable and signal.SIGTERM in os.read(wake_read, 1024):
            return


def _signal_session(session: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(session, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
