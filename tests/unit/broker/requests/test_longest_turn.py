"""No request holds the event loop for long.

The test measures the longest turn of every API, with many elements in each of its lists in turn.

Calls of functions between two checkpoints of a task are counted. One takes about 160 ns, so that
80,000 are 13 ms.
"""

from collections.abc import Callable
from typing import Any, cast

import pytest
import trio

from log_service.broker.registry import REGISTRY
from log_service.broker.requests.call import Side
from log_service.broker.requests.pipeline import Pipeline, new_meters
from log_service.network.responses import PendingResponse
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.frames import RequestHeader, encode_request
from tests.helpers.handler_node import HandlerNode, tell_handlers
from tests.helpers.watchdog import MOST_CALLS, Watchdog
from tests.unit.broker.requests.gates import Denial
from tests.unit.broker.requests.request_shapes import Path, request_of, shapes

COUNT = 5_000

SHAPES = [
    (key, path)
    for key, api in REGISTRY.items()
    if Side.BROKER in api.sides
    for path in shapes(key, api.spec.max_version)
]


def longest_turn(key: ApiKey, path: Path, *, is_allowed: bool) -> int:
    """The calls of the longest turn that a request with many elements at ``path`` takes."""
    api = REGISTRY[key]
    version, count = api.spec.max_version, min(COUNT, api.max_elements - len(path))
    found: list[int] = []

    async def story(node: HandlerNode) -> None:
        watchdog = Watchdog()

        async def run_uncounted(work: Callable[[], Any]) -> Any:
            watchdog.is_off = True
            try:
                return work()
            finally:
                watchdog.is_off = False

        node.node.run_in_pool = cast("Any", run_uncounted)
        pipeline = Pipeline(
            node.node,
            Side.BROKER,
            node.context.nursery.start_soon,
            REGISTRY,
            new_meters(REGISTRY, 0),
        )
        pipeline.authorizer = None if is_allowed else Denial()
        chunks = encode_request(
            RequestHeader(key, version, 1, "story"), request_of(key, version, path, count)
        )
        frame = memoryview(bytearray(b"".join(map(bytes, chunks))[4:]))  # type: ignore[arg-type]  # no slice
        # Compiles what is compiled once.
        pipeline.handle_frame(node.connection, _least_frame(key, version))
        with watchdog:
            pending = pipeline.handle_frame(node.connection, frame)
            if isinstance(pending, PendingResponse):
                done = trio.Event()
                pending.watch(lambda _: done.set())
                if not pending.is_done:
                    await done.wait()
        found.append(watchdog.most)

    tell_handlers(story)
    return found[0]


def _least_frame(key: ApiKey, version: int) -> memoryview:
    path = next(shapes(key, version))
    chunks = encode_request(
        RequestHeader(key, version, 1, "story"), request_of(key, version, path, 1)
    )
    return memoryview(bytearray(b"".join(map(bytes, chunks))[4:]))  # type: ignore[arg-type]  # no slice


@pytest.mark.parametrize("is_allowed", [True, False], ids=["allowed", "refused"])
@pytest.mark.parametrize(
    ("key", "path"),
    SHAPES,
    ids=lambda value: ".".join(value) if type(value) is tuple else value.name,
)
def test_no_request_holds_the_loop(key: ApiKey, path: Path, *, is_allowed: bool) -> None:
    assert longest_turn(key, path, is_allowed=is_allowed) <= MOST_CALLS
