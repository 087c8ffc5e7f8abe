"""A node that does not end at the first SIGTERM ends at once at the second, with the exit code of a failure and without a traceback."""

import os
import signal

import pytest
import trio

from log_service.broker import main
from log_service.config.server import parse_server_properties


class Stuck:
    """A broker that runs, and never stops by itself."""

    addresses: dict[str, tuple[str, int]] = {}  # noqa: RUF012 - nobody changes it
    metrics_address = None
    is_started = False
    is_stopped_gracefully = False

    def __init__(self, *_: object, **__: object) -> None: ...

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        os.kill(os.getpid(), signal.SIGTERM)
        await trio.sleep_forever()

    async def stop(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await trio.sleep_forever()

    async def wait_stopped(self) -> None:
        await trio.sleep_forever()


def test_a_second_signal_ends_a_node_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "Broker", Stuck)
    config, settings = parse_server_properties("", ["process.roles=broker,controller", "node.id=1", "log.dirs=/nowhere"])

    async def limited() -> int:
        with trio.fail_after(20):
            return await main._run(config, settings)

    assert trio.run(limited) == main.ExitCode.FAILED
