"""Bytes come in: unknown APIs, unsupported versions, bodies that do not parse.

Handlers fail, too.
"""

import inspect
import logging
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any, get_args, get_type_hints

import pytest
import trio
import trio.lowlevel

from log_service.broker.api_rows import OnDemand
from log_service.broker.handlers.fetch.reads import DelayedFetch
from log_service.broker.handlers.produce.produce import DelayedProduce
from log_service.broker.node import Node
from log_service.broker.registry import REGISTRY
from log_service.broker.requests.call import Api, Call, Deferred, Handler, Nothing, Reply, Side
from log_service.broker.warm_up import warm_up
from log_service.common.errors import ErrorCode, KafkaError
from log_service.protocol.api_versions import ApiKey, request_class, response_class
from log_service.protocol.frames import RequestHeader, encode_request
from log_service.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from log_service.protocol.messages.describe_cluster import DescribeClusterRequest
from log_service.protocol.messages.metadata import MetadataRequest
from tests.unit.broker.context import Story, batch, fetch_request, produce_request, tell, values_of
from tests.unit.broker.requests.gates import Denial
from tests.unit.broker.requests.least_requests import least_request


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def header(key: int, version: int) -> bytes:
    return (
        key.to_bytes(2, "big") + version.to_bytes(2, "big") + (1).to_bytes(4, "big") + b"\xff\xff"
    )


def answering(key: ApiKey, handler: Handler) -> dict[ApiKey, Api]:
    """The registry with another handler in one row."""
    return {**REGISTRY, key: replace(REGISTRY[key], handler=handler)}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(header(999, 0), id="unknown API"),
        pytest.param(header(4, 0), id="LeaderAndIsr, removed in 4.0"),
        pytest.param(header(24, 0), id="AddPartitionsToTxn, not yet there"),
        pytest.param(header(0, 2), id="Produce 2, advertised and refused"),
        pytest.param(header(3, 14), id="Metadata 14"),
        pytest.param(header(1, 12), id="Fetch without a body"),
        pytest.param(header(3, 1) + b"\x7f\xff\xff\xff", id="two billion topics"),
        pytest.param(header(3, 12) + b"\0\xff\xff\xff\xff\x0b", id="two billion compact topics"),
        pytest.param(b"\0", id="no header"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_a_frame_that_makes_no_sense_costs_its_connection_one_line(
    body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(node: Story) -> None:
        hostile = await node.connect()
        with caplog.at_level(logging.WARNING):
            await hostile.send_bytes(framed(body))
            assert await hostile.is_closed()
        assert len(caplog.records) == 1
        assert caplog.records[0].exc_info is None
        assert (await node.ask(MetadataRequest(topics=[]), 12)).error_code == 0

    tell(story)


def test_a_handler_with_a_bug_costs_its_connection_and_leaves_a_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(node: Node, call: Call, request: Any) -> Reply:
        raise ZeroDivisionError

    monkeypatch.setattr(
        "log_service.broker.broker.REGISTRY", answering(ApiKey.DESCRIBE_CLUSTER, broken)
    )

    async def story(node: Story) -> None:
        unlucky = await node.connect()
        await unlucky.send(DescribeClusterRequest(), 0)
        assert await unlucky.is_closed()
        assert any(record.exc_info for record in caplog.records)
        assert (await node.ask(MetadataRequest(topics=[]), 12)).error_code == 0

    tell(story)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KafkaError(ErrorCode.NOT_CONTROLLER), ErrorCode.NOT_CONTROLLER),
        (ZeroDivisionError(), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_a_response_waits_for_may_fail_and_is_told_with_the_error_of_its_api(
    monkeypatch: pytest.MonkeyPatch, error: Exception, code: ErrorCode
) -> None:
    async def fails() -> CreateTopicsResponse:
        await trio.lowlevel.checkpoint()
        raise error

    def broken(node: Node, call: Call, request: Any) -> Reply:
        return call.run(fails())

    monkeypatch.setattr(
        "log_service.broker.broker.REGISTRY", answering(ApiKey.CREATE_TOPICS, broken)
    )

    async def story(node: Story) -> None:
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1)]
        )
        response: CreateTopicsResponse = await node.ask(request, 7)
        assert [(topic.name, topic.error_code) for topic in response.topics] == [("a", code)]

    tell(story)


def test_a_handler_that_refuses_at_once_answers_with_the_error_of_its_api(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refusing(node: Node, call: Call, request: Any) -> Reply:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)

    monkeypatch.setattr(
        "log_service.broker.broker.REGISTRY", answering(ApiKey.CREATE_TOPICS, refusing)
    )

    async def story(node: Story) -> None:
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1)]
        )
        response: CreateTopicsResponse = await node.ask(request, 7)
        assert [(topic.name, topic.error_code) for topic in response.topics] == [
            ("a", ErrorCode.NOT_CONTROLLER)
        ]

    tell(story)


def test_every_handler_says_which_of_the_three_replies_it_gives() -> None:
    for key, api in REGISTRY.items():
        function: Any = api.handler.load() if isinstance(api.handler, OnDemand) else api.handler
        hints = get_type_hints(function)
        replies = set(get_args(hints["return"]) or [hints["return"]])
        assert hints["request"] is request_class(key)
        assert replies <= {response_class(key), Deferred, Nothing}
        assert Nothing not in replies or key is ApiKey.PRODUCE


def test_an_api_without_a_handler_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = {key: api for key, api in REGISTRY.items() if key is not ApiKey.DESCRIBE_CLUSTER}
    monkeypatch.setattr("log_service.broker.broker.REGISTRY", fewer)

    async def story(node: Story) -> None:
        unlucky = await node.connect()
        await unlucky.send(DescribeClusterRequest(), 0)
        assert await unlucky.is_closed()

    tell(story)


def test_answers_leave_in_the_order_of_their_requests() -> None:
    async def story(node: Story) -> None:
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name="slow", num_partitions=1, replication_factor=1)],
            timeout_ms=1_000,
        )
        await node.client.send(request, 7)
        await node.client.send(MetadataRequest(topics=[]), 12)
        assert (await node.client.receive()).topics[0].error_code == 0
        assert (await node.client.receive()).error_code == 0

    tell(story)


def test_a_broker_in_bad_weather_tells_the_same_story() -> None:
    async def story(node: Story) -> None:
        node.world.network.weather = node.world.draw_weather()
        await node.create_topic("a")
        for number in range(20):
            assert (await node.produce("a", batch(b"%d" % number))).base_offset == number
        assert values_of((await node.fetch("a", 0)).records) == [
            b"%d" % number for number in range(20)
        ]

    for seed in range(10):
        tell(story, seed=seed)


def test_a_promised_answer_that_cannot_be_made_costs_its_own_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_arguments: Any) -> None:
        raise ZeroDivisionError

    async def story(node: Story) -> None:
        await node.create_topic("a")
        unlucky = await node.connect()
        await unlucky.send(fetch_request("a", 0, max_wait_ms=60_000), 12)
        await trio.sleep(1)
        monkeypatch.setattr("log_service.broker.handlers.fetch.reads.build_response", fails)
        assert (await node.produce("a", batch(b"one"))).error_code == 0
        assert await unlucky.is_closed()
        assert any(record.exc_info for record in caplog.records)
        monkeypatch.undo()
        assert values_of((await node.fetch("a", 0)).records) == [b"one"]

    tell(story)


@pytest.mark.parametrize("is_produce", [False, True])
def test_a_bug_of_a_request_that_waits_costs_its_own_connection(
    is_produce: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The request whose append has it asked is answered, and the node goes on."""

    def fails(*_arguments: Any, **_named: Any) -> bool:
        raise ZeroDivisionError

    async def story(node: Story) -> None:
        await node.create_topic("a", flush_messages="1")
        unlucky = await node.connect()
        if is_produce:
            monkeypatch.setattr(node.broker.replicas.syncs, "request", lambda _: None)
            await unlucky.send(produce_request("a", batch(b"zero"), timeout_ms=60_000), 9)
        else:
            await unlucky.send(fetch_request("a", 0, max_wait_ms=60_000), 12)
        await trio.sleep(1)
        monkeypatch.undo()
        waiting: Any = DelayedProduce if is_produce else DelayedFetch
        with monkeypatch.context() as bug:
            unlucky_operation = next(iter(_operations(node)))
            bug.setattr(
                waiting,
                "try_complete",
                lambda operation, key: fails() if operation is unlucky_operation else True,
            )
            assert (await node.produce("a", batch(b"one"))).error_code == 0
        assert await unlucky.is_closed()
        assert any(record.exc_info for record in caplog.records)
        assert values_of((await node.fetch("a", 0)).records)[-1] == b"one"

    tell(story)


def _operations(node: Story) -> list[object]:
    replicas = node.broker.replicas
    watched = [
        *replicas.delayed_produces.watches.values(),
        *replicas.delayed_fetches.watches.values(),
    ]
    return [watch.operation for watches in watched for watch in watches]


@pytest.mark.parametrize("seed", range(3))
def test_damaged_requests_never_harm_the_node(seed: int) -> None:
    """Damaged requests cost at most their connection.

    Requests of every API are cut off, with flipped bytes, or with large lengths.
    """

    async def story(node: Story) -> None:
        await node.create_topic("a")
        rng = Random(seed)
        originals = [
            b"".join(
                encode_request(  # type: ignore[arg-type]
                    RequestHeader(spec.key, spec.max_version, 1, "x"), least_request(spec.key)
                )
            )[4:]
            for spec in (api.spec for api in REGISTRY.values())
        ]
        for _ in range(150):
            body = bytearray(rng.choice(originals))
            for _ in range(rng.randint(1, 4)):
                body[rng.randrange(8, len(body))] = rng.choice(
                    (0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256))
                )
            hostile = await node.connect()
            await hostile.send_bytes(framed(bytes(body[: rng.randint(4, len(body))])))
            with trio.move_on_after(0.01), suppress(EOFError, OSError):
                await hostile.receive_frame()
            hostile.close()
        assert (await node.produce("a", batch(b"one"))).error_code == 0

    tell(story, seed=seed)


def test_every_handler_that_is_imported_on_demand_is_there() -> None:
    for api in REGISTRY.values():
        assert inspect.isfunction(
            api.handler.load() if isinstance(api.handler, OnDemand) else api.handler
        )


def test_a_start_imports_the_handlers_that_every_client_needs_and_no_other() -> None:
    code = "import log_service.broker.main, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    prefix = "log_service.broker.handlers."
    handlers = {name.removeprefix(prefix) for name in loaded if name.startswith(prefix)}
    assert {"api_versions", "metadata", "produce", "fetch"} <= handlers
    assert not {"quorum", "cluster", "groups.membership", "log_dirs"} & handlers
    assert "log_service.broker.authorization.gate_shapes" not in loaded, (
        "many nodes have no authorizer"
    )
    assert "log_service.broker.metrics.page" not in loaded, (
        "what makes the metrics page is for nodes that have one"
    )


def test_warming_up_imports_what_producers_and_consumers_ask_and_not_what_operators_do() -> None:
    for key, module, name, is_warm in (
        (ApiKey.OFFSET_COMMIT, "groups.offset_commit", "handle_offset_commit", True),
        (ApiKey.DESCRIBE_QUORUM, "quorum", "handle_describe_quorum", False),
    ):
        handler = OnDemand(module, name)
        trio.run(warm_up, answering(key, handler))
        assert repr(handler) == f"<OnDemand {module}.{name}{' loaded' if is_warm else ''}>"


@pytest.mark.parametrize("has_authorizer", [False, True])
def test_warming_up_imports_gates_where_there_is_an_authorizer(has_authorizer: bool) -> None:
    gate = OnDemand("record_gates", "list_offsets", "authorization")
    row = replace(REGISTRY[ApiKey.LIST_OFFSETS], gates={Side.BROKER: gate})
    trio.run(warm_up, {**REGISTRY, row.key: row}, Denial() if has_authorizer else None)
    assert (gate.function is not None) is has_authorizer
