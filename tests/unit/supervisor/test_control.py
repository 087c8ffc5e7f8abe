"""Another process asks a running supervisor.

It gets one response for each request, and none where nothing runs.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from log_service.common.errors import ConfigError, StorageError
from log_service.supervisor import control, state
from log_service.supervisor.control import ADD, RESTART, ControlRefused, ControlRequest, ask, serve


def while_serving(directory: Path, handle: control.Handle, body: Callable[[], None]) -> None:
    async def main() -> None:
        with state.held_lock(directory):
            async with trio.open_nursery() as nursery:
                await nursery.start(serve, directory, handle)
                await trio.to_thread.run_sync(body)
                nursery.cancel_scope.cancel()

    trio.run(main)


def asked(directory: Path, request: ControlRequest, *, timeout_s: float) -> dict[str, Any]:
    return trio.run(partial(ask, directory, request, timeout_s=timeout_s))


async def echo(request: ControlRequest) -> Mapping[str, Any]:
    if request.command == ADD:
        raise ConfigError("there is no room")
    return {"node_id": request.node_id}


def test_a_request_gets_its_response_and_a_refusal_its_reason(tmp_path: Path) -> None:
    def body() -> None:
        assert asked(tmp_path, ControlRequest(command=RESTART, node_id=3), timeout_s=20) == {
            "node_id": 3
        }
        with pytest.raises(ControlRefused, match="there is no room"):
            asked(tmp_path, ControlRequest(command=ADD), timeout_s=20)
        assert list((tmp_path / "control").iterdir()) == []

    while_serving(tmp_path, echo, body)


def test_requests_are_taken_from_the_owner_of_the_directory_alone(tmp_path: Path) -> None:
    (tmp_path / "control").mkdir()
    (tmp_path / "control").chmod(0o777)
    while_serving(tmp_path, echo, lambda: None)
    assert (tmp_path / "control").stat().st_mode & 0o777 == 0o700


def test_many_requests_at_once_are_carried_out_one_after_the_other(tmp_path: Path) -> None:
    running: list[int] = []
    found: list[int] = []

    async def alone(request: ControlRequest) -> Mapping[str, Any]:
        running.append(1)
        assert len(running) == 1
        await trio.sleep(0.01)
        running.pop()
        return {"node_id": request.node_id}

    def one(number: int) -> None:
        found.append(
            asked(tmp_path, ControlRequest(command=RESTART, node_id=number), timeout_s=30)[
                "node_id"
            ]
        )

    def body() -> None:
        threads = [threading.Thread(target=one, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    while_serving(tmp_path, alone, body)
    assert sorted(found) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '{"command": "explode"}',
        '{"command": "add", "node_id": "1"}',
        '{"command": "add", "more": 1}',
        "x" * 100_000,
        "[" * 60_000,
    ],
)
def test_what_is_no_request_is_answered_and_ends_nothing(tmp_path: Path, text: str) -> None:
    def body() -> None:
        (tmp_path / "control" / "bad.request").write_text(text)
        assert asked(tmp_path, ControlRequest(command=RESTART, node_id=1), timeout_s=20) == {
            "node_id": 1
        }
        response, deadline = tmp_path / "control" / "bad.response", time.monotonic() + 20
        while not response.exists():  # requests of one moment are taken in no order
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert "is not a request to a supervisor" in json.loads(response.read_text())["error"]

    (tmp_path / "control").mkdir()
    while_serving(tmp_path, echo, body)


def test_what_another_supervisor_left_is_not_carried_out(tmp_path: Path) -> None:
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / "older.response").write_text("{}")
    (tmp_path / "control" / "old.request").write_text('{"command": "restart", "node_id": 1}')
    while_serving(tmp_path, echo, lambda: None)
    (path,) = (tmp_path / "control").iterdir()
    assert "ask again when everything is ready" in json.loads(path.read_text())["error"]


def test_where_nothing_runs_nothing_is_asked(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="nothing runs on"):
        asked(tmp_path, ControlRequest(command=ADD), timeout_s=1)


def test_a_supervisor_that_does_not_respond_is_told_and_the_request_is_taken_back(
    tmp_path: Path,
) -> None:
    with (
        state.held_lock(tmp_path),
        pytest.raises(ControlRefused, match="did not respond to the request to add a node"),
    ):
        asked(tmp_path, ControlRequest(command=ADD), timeout_s=0.2)
    assert list((tmp_path / "control").iterdir()) == []
