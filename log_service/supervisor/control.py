"""Requests of other processes to a running supervisor, as one file for each request and response.

``tidelog cluster`` requests one more node, the removal or the restart of a node, or that a node
stays down for a while. The supervisor reads ``control/`` of its data directory twice a second,
carries out one request after the other, and writes each result into a file beside the request. Only
the supervisor that holds the directory's lock does that, so a request to a supervisor that has
ended is refused at once.

Invariant: only its owner may enter ``control/``, whatever the umask was, because a process that can
write there can stop nodes.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import trio

from log_service.common.errors import StorageError, TidelogError
from log_service.common.private_files import private_directory
from log_service.supervisor.state import is_locked

DIRECTORY = "control"
REQUEST, RESPONSE = ".request", ".response"
POLL_S = 0.5
MAX_REQUEST_BYTES = 64 << 10
ADD, REMOVE, RESTART, STOP, START = "add", "remove", "restart", "stop", "start"
COMMANDS = frozenset({ADD, REMOVE, RESTART, STOP, START})


class ControlRefused(TidelogError):  # noqa: N818 - it says what happened
    """The supervisor did not carry out a request. The text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRequest:
    """A request to a supervisor: to add a node, or to change the state of node ``node_id``."""

    command: str
    node_id: int | None = None


Handle = Callable[[ControlRequest], Awaitable[Mapping[str, Any]]]


async def ask(data_directory: Path, request: ControlRequest, *, timeout_s: float) -> dict[str, Any]:
    """Send a request to the supervisor of a data directory, and return its response.

    Raises:
        StorageError: no supervisor runs on the directory.
        ControlRefused: the supervisor refused, ended, or did not respond in time.
    """
    if not is_locked(data_directory):
        raise StorageError(
            f"nothing runs on {data_directory}: start it with tidelog up, or name its directory"
            " with --data"
        )
    directory = data_directory / DIRECTORY
    directory.mkdir(exist_ok=True)
    name = uuid4().hex
    response_path = directory / f"{name}{RESPONSE}"
    _write(directory / f"{name}{REQUEST}", asdict(request))
    deadline = trio.current_time() + timeout_s
    while not response_path.exists():
        if trio.current_time() > deadline or not is_locked(data_directory):
            (directory / f"{name}{REQUEST}").unlink(missing_ok=True)
            raise ControlRefused(
                f"the supervisor of {data_directory} did not respond to the request to"
                f" {request.command} a node"
            )
        await trio.sleep(POLL_S / 5)
    response: dict[str, Any] = json.loads(response_path.read_text())
    response_path.unlink()
    if "error" in response:
        raise ControlRefused(response["error"])
    return response


async def serve(
    data_directory: Path,
    handle: Handle,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Carry out requests until cancelled.

    A request that is older than this call is refused, because it was meant for another supervisor
    or came too early.
    """
    directory = private_directory(data_directory / DIRECTORY)
    for left in directory.glob(f"*{RESPONSE}"):
        left.unlink()
    for early in directory.glob(f"*{REQUEST}"):
        _write(
            early.with_suffix(RESPONSE),
            {"error": "the installation was just starting: ask again when everything is ready"},
        )
        early.unlink()
    task_status.started()
    while True:
        for path in sorted(directory.glob(f"*{REQUEST}")):
            response = await _respond(path, handle)
            _write(path.with_suffix(RESPONSE), response)
            path.unlink(missing_ok=True)
        await trio.sleep(POLL_S)


async def _respond(path: Path, handle: Handle) -> Mapping[str, Any]:
    try:
        return await handle(_request_of(path))
    except (TidelogError, OSError) as error:
        return {"error": str(error)}


def _request_of(path: Path) -> ControlRequest:
    """Read a request from its file.

    Raises:
        ControlRefused: the file is not a request.
    """
    with suppress(ValueError, TypeError, RecursionError):
        if path.stat().st_size <= MAX_REQUEST_BYTES:
            request = ControlRequest(**json.loads(path.read_text()))
            is_known = request.command in COMMANDS
            if is_known and (request.node_id is None or isinstance(request.node_id, int)):
                return request
    raise ControlRefused(f"{path.name} is not a request to a supervisor")


def _write(path: Path, content: Mapping[str, Any]) -> None:
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(content))
    beside.replace(path)
