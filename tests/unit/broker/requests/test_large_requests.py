"""Requests of many elements have the same responses as small ones.

They are handled in pieces between which other requests have their turn, and they are bounded.
"""

from collections.abc import Callable
from typing import Any, cast

import pytest
import trio
import trio.lowlevel

from log_service.broker.registry import REGISTRY
from log_service.broker.requests import pipeline
from log_service.broker.requests.call import Call, Side
from log_service.broker.requests.large import FEW_ELEMENTS, PIECE_ELEMENTS
from log_service.broker.requests.pieces import weight_of
from log_service.broker.requests.pipeline import Pipeline, new_meters
from log_service.common.access import Principal
from log_service.common.errors import ErrorCode, KafkaError, ProtocolError
from log_service.network.responses import PendingResponse
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.codec import encode
from log_service.protocol.frames import RequestHeader, encode_request
from tests.helpers.handler_node import HandlerNode, tell_handlers
from tests.unit.broker.requests.gates import Denial, Throttle
from tests.unit.broker.requests.request_shapes import Path, request_of, shapes

COUNT = 700
"""More than are handled at once, and than are in two pieces."""

LARGE = [
    (key, version, path)
    for key, api in REGISTRY.items()
    if Side.BROKER in api.sides and api.max_elements > FEW_ELEMENTS
    for version in sorted(
        {
            api.spec.min_version,
            (api.spec.min_version + api.spec.max_version) // 2,
            api.spec.max_version,
        }
    )
    for path in shapes(key, version)
]
each_large = pytest.mark.parametrize(
    ("key", "version", "path"),
    LARGE,
    ids=lambda value: ".".join(value) if type(value) is tuple else None,
)


@pytest.mark.parametrize("is_allowed", [True, False])
@each_large
def test_a_large_request_is_answered_as_if_it_was_handled_at_once(
    key: ApiKey, version: int, path: Path, *, is_allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []

    async def story(node: HandlerNode) -> None:
        if not is_allowed:
            node.pipeline.authorizer = Denial()
        told.append(await node.ask(request_of(key, version, path, COUNT), version))

    tell_handlers(story)
    monkeypatch.setattr(pipeline, "FEW_ELEMENTS", 1_000_000)
    tell_handlers(story)
    assert encode(told[0], version) == encode(told[1], version)


def _frame(key: ApiKey, version: int, request: Any) -> memoryview:
    chunks = encode_request(RequestHeader(key, version, 1, "story"), request)
    return memoryview(bytearray(b"".join(map(bytes, chunks))[4:]))  # type: ignore[arg-type]  # no slice


def begun(node: HandlerNode, key: ApiKey, path: Path, count: int) -> PendingResponse:
    """A request of ``count`` elements that was handed over."""
    version = REGISTRY[key].spec.max_version
    pending = node.pipeline.handle_frame(
        node.connection, _frame(key, version, request_of(key, version, path, count))
    )
    assert isinstance(pending, PendingResponse)
    return pending


async def until_done(pending: PendingResponse) -> list[Any]:
    done = trio.Event()
    pending.watch(lambda _: done.set())
    if not pending.is_done:
        await done.wait()
    return pending.take()


@pytest.mark.parametrize(
    ("key", "version", "path"),
    {row[0]: row for row in LARGE}.values(),
    ids=lambda value: getattr(value, "name", None),
)
def test_a_request_of_too_many_elements_is_charged_and_closes_its_connection(
    key: ApiKey, version: int, path: Path
) -> None:
    api = REGISTRY[key]
    request = request_of(key, version, path, api.max_elements + 1)

    async def story(node: HandlerNode) -> None:
        throttle = node.pipeline.quotas = Throttle(3)
        pending = node.pipeline.handle_frame(node.connection, _frame(key, version, request))
        assert isinstance(pending, PendingResponse)
        (chunk,) = await until_done(pending)
        with pytest.raises(OSError, match="the request failed"):
            chunk.read()
        assert [(key, response) for key, _, response in throttle.charged] == [(key, None)]

    tell_handlers(story)


def test_what_nobody_sends_many_of_is_refused_at_once() -> None:
    async def story(node: HandlerNode) -> None:
        with pytest.raises(ProtocolError, match="501 more elements are more than"):
            begun(node, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ("upsertions",), FEW_ELEMENTS + 1)

    tell_handlers(story)


def test_an_item_that_cannot_be_cut_has_a_bound_of_its_own() -> None:
    async def story(node: HandlerNode) -> None:
        (chunk,) = await until_done(begun(node, ApiKey.CREATE_TOPICS, ("topics", "configs"), 5_001))
        with pytest.raises(OSError, match="the request failed"):
            chunk.read()

    tell_handlers(story)


def test_a_request_that_is_cut_may_name_nothing_twice() -> None:
    key, version = ApiKey.CREATE_TOPICS, REGISTRY[ApiKey.CREATE_TOPICS].spec.max_version
    request = request_of(key, version, ("topics",), COUNT)
    request.topics[-1].name = request.topics[0].name

    async def story(node: HandlerNode) -> None:
        response = await node.ask(request, version)
        assert {(topic.error_code, topic.error_message) for topic in response.topics} == {
            (ErrorCode.INVALID_REQUEST, "('name-0',) is named twice in a request of many")
        }

    tell_handlers(story)


@pytest.mark.parametrize("is_allowed", [True, False])
def test_a_large_request_is_handled_a_piece_at_a_time_and_charged_once(*, is_allowed: bool) -> None:
    class Watched(Denial):
        def authorize(self, call: Call) -> None:
            self.calls.append(call)
            if not is_allowed:
                raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")

    async def story(node: HandlerNode) -> None:
        watched = node.pipeline.authorizer = Watched()
        throttle = node.pipeline.quotas = Throttle(3)
        version = REGISTRY[ApiKey.DESCRIBE_GROUPS].spec.max_version
        response = await node.ask(
            request_of(ApiKey.DESCRIBE_GROUPS, version, ("groups",), 1_000), version
        )
        assert (len(response.groups), response.throttle_time_ms) == (1_000, 3)
        assert [weight_of(call.request) - 1 for call in watched.calls] == [PIECE_ELEMENTS] * 4
        assert [key for key, _, _ in throttle.charged] == [ApiKey.DESCRIBE_GROUPS]

    tell_handlers(story)


def test_of_all_large_requests_one_piece_has_its_turn_at_a_time() -> None:
    turns: list[int] = []

    class Clock(trio.abc.Instrument):
        count = 0

        def before_io_wait(self, timeout: float) -> None:
            self.count += 1

    async def story(node: HandlerNode) -> None:
        clock = Clock()
        trio.lowlevel.add_instrument(clock)

        class Watched(Denial):
            def authorize(self, call: Call) -> None:
                turns.append(clock.count)

        node.pipeline.authorizer = Watched()
        pendings = [begun(node, ApiKey.DESCRIBE_GROUPS, ("groups",), 1_000) for _ in range(3)]
        for pending in pendings:
            await until_done(pending)

    tell_handlers(story)
    assert len(turns) >= 12
    assert len(set(turns)) == len(turns), turns


def test_the_work_ends_when_the_client_leaves_and_is_charged() -> None:
    async def story(node: HandlerNode) -> None:
        denial = node.pipeline.authorizer = Denial()
        throttle = node.pipeline.quotas = Throttle(3)
        pending = begun(node, ApiKey.DESCRIBE_GROUPS, ("groups",), 20_000)
        while not denial.calls:
            await trio.lowlevel.checkpoint()
        pending.discard()
        seen_count = len(denial.calls)
        await trio.sleep(10)
        assert seen_count <= len(denial.calls) <= seen_count + 1
        assert [(key, response) for key, _, response in throttle.charged] == [
            (ApiKey.DESCRIBE_GROUPS, None)
        ]

    tell_handlers(story)


def test_a_user_has_few_large_requests_under_way_and_keeps_no_other_user_waiting() -> None:
    under_way: list[int] = [0]

    async def run_slowly(work: Callable[[], Any]) -> Any:
        under_way.append(under_way[-1] + 1)
        await trio.sleep(1)
        under_way.append(under_way[-1] - 1)
        return work()

    async def story(node: HandlerNode) -> None:
        node.node.run_in_pool = cast("Any", run_slowly)
        node.pipeline = Pipeline(
            node.node,
            Side.BROKER,
            node.context.nursery.start_soon,
            REGISTRY,
            new_meters(REGISTRY, 0),
        )
        greedy = [begun(node, ApiKey.DESCRIBE_GROUPS, ("groups",), COUNT) for _ in range(20)]
        await trio.sleep(0.5)
        assert max(under_way) == 4
        began = trio.current_time()
        # As a follower's fetch beside produce requests.
        await until_done(begun(node, ApiKey.DESCRIBE_CONFIGS, ("resources",), 600))
        assert trio.current_time() - began < 2.1
        assert sum(pending.is_done for pending in greedy) <= 8, "others still wait"
        node.connection.principal = Principal("User", "polite")
        began = trio.current_time()
        await until_done(begun(node, ApiKey.DESCRIBE_GROUPS, ("groups",), COUNT))
        assert trio.current_time() - began < 2.1
        assert not all(pending.is_done for pending in greedy)
        for pending in greedy:
            pending.discard()

    tell_handlers(story)
