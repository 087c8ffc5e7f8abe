"""A node that does not end at a SIGTERM ends at once at a later one.

It has the exit code of a failure, and prints no traceback.
"""

import os
import signal
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from log_service.broker import main
from log_service.cli.up import stop_on_signals
from log_service.common.stop_signals import SAME_REQUEST_SECONDS
from log_service.config.server import parse_server_properties

TIME = MockClock()


class Stuck:
    """A broker that runs, and never stops by itself."""

    addresses: dict[str, tuple[str, int]] = {}  # noqa: RUF012 - nobody changes it
    metrics_address = None
    is_started = False
    is_past_repeats = False
    is_stopped_gracefully = False

    def __init__(self, *_: object, **__: object) -> None: ...

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        os.kill(os.getpid(), signal.SIGTERM)
        await trio.sleep_forever()

    async def stop(self) -> None:
        await repeat_too_soon(TIME)
        Stuck.is_past_repeats = True
        TIME.jump(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        await trio.sleep_forever()

    async def wait_stopped(self) -> None:
        await trio.sleep_forever()


async def repeat_too_soon(clock: MockClock) -> None:
    """Send signals that are the same request, the last one just before the time is over."""
    for seconds in (0.0, 0.1, SAME_REQUEST_SECONDS - 0.101):
        clock.jump(seconds)
        os.kill(os.getpid(), signal.SIGTERM)
        await wait_all_tasks_blocked()


def test_a_later_signal_ends_a_node_that_hangs_and_a_repeated_one_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second of two SIGTERMs, of a process manager and of a shell, cut the orderly stop short."""
    monkeypatch.setattr(main, "Broker", Stuck)
    config, settings = parse_server_properties(
        "", ["process.roles=broker,controller", "node.id=1", "log.dirs=/nowhere"]
    )
    assert trio.run(main.run_node, config, settings, clock=TIME) == main.ExitCode.FAILED
    assert Stuck.is_past_repeats


def test_a_later_signal_kills_an_installation_and_a_repeated_one_does_not() -> None:
    clock = MockClock()

    class Killed:
        count = 0

        def kill(self) -> None:
            self.count += 1

    async def run() -> None:
        supervisor: Any = Killed()
        async with trio.open_nursery() as nursery:
            running = trio.CancelScope()
            await nursery.start(stop_on_signals, supervisor, running)
            await repeat_too_soon(clock)
            assert (running.cancel_called, supervisor.count) == (True, 0)
            clock.jump(0.01)
            os.kill(os.getpid(), signal.SIGTERM)
        assert supervisor.count == 1

    trio.run(run, clock=clock)
