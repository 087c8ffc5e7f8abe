"""Hostile brokers cause a clear error or another try, never a hang or a flood.

They send well-formed responses that are wrong, late or too large, or none.  (Damaged bytes are the
fuzzer's: ``tests.fuzz.hostile_broker``.)
"""

import struct
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any
from uuid import UUID

import pytest
import trio

from log_service.client import (
    Admin,
    Consumer,
    ErrorCode,
    KafkaError,
    OffsetSpec,
    Producer,
    TopicPartition,
)
from log_service.common.errors import TidelogError
from log_service.protocol.api_versions import ApiKey, response_class
from log_service.protocol.messages.fetch import FetchResponse
from log_service.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from log_service.protocol.messages.metadata import MetadataResponse
from log_service.protocol.messages.produce import ProduceResponse
from log_service.protocol.messages.sync_group import SyncGroupResponse
from log_service.protocol.schema import Message, has_version
from tests.sim.world import World, sim_run
from tests.unit.client.coordinating_broker import Coordinating
from tests.unit.client.scripted_broker import HOST, PORT, ScriptedBroker
from tests.unit.client.scripted_leader import Leader

SERVERS = f"{HOST}:{PORT}"
TIMEOUTS: dict[str, Any] = {
    "request_timeout_ms": 1_000,
    "default_api_timeout_ms": 4_000,
    "socket_connection_setup_timeout_ms": 1_000,
    "retry_backoff_ms": 50,
}
EXTREMES = (-(2**31), -2, -1, 0, 1, 2, 3, 36, 79, 255, 32_767, 2**31 - 1)


def drawn(cls: type[Message], version: int, rng: Random, depth: int = 0) -> Any:
    """Return a message that the schema allows, with values that no broker would send."""
    values: dict[str, Any] = {}
    for field in cls.SCHEMA.fields:
        if rng.random() < 0.25 or not has_version(field.versions, version):
            continue
        if field.is_array:
            values[field.name] = [
                _value(field, version, rng, depth)
                for _ in range(rng.choice((0, 1, 1, 2)) if depth < 4 else 0)
            ]
        else:
            values[field.name] = _value(field, version, rng, depth)
    return cls(**values)


def _value(field: Any, version: int, rng: Random, depth: int) -> Any:
    kind = field.element_type
    if kind == "struct":
        return drawn(field.struct, version, rng, depth + 1)
    if kind.startswith(("int", "uint")):
        bits = int(kind.removeprefix("u").removeprefix("int"))
        low, high = (
            (0, 2**bits - 1) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        )
        return min(max(rng.choice(EXTREMES), low), high)
    drawing: dict[str, Callable[[], Any]] = {
        "string": lambda: rng.choice(("", "t", HOST, "no such host", "x" * 300, "\0")),
        "bytes": lambda: rng.choice((b"", b"\0\3", rng.randbytes(20))),
        "records": lambda: (
            rng.choice((None, b"", rng.randbytes(70))) if field.nullable else rng.randbytes(70)
        ),
        "bool": lambda: rng.random() < 0.5,
        "uuid": lambda: UUID(int=rng.choice((0, 77, 2**128 - 1))),
        "float64": lambda: 0.5,
    }
    return drawing[kind]()


def tell(story: Callable[[World, ScriptedBroker], Awaitable[None]], seed: int = 1) -> None:
    async def main(world: World) -> None:
        broker = ScriptedBroker(world)
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            with trio.fail_after(2_000):
                await story(world, broker)
            nursery.cancel_scope.cancel()

    sim_run(seed, main)


def lying(
    broker: ScriptedBroker, rng: Random, key: ApiKey, rate: float
) -> Callable[[Any, int], Awaitable[Any]]:
    before = broker.other.get(key)

    async def response(request: Any, version: int) -> Any:
        await trio.lowlevel.checkpoint()
        if rng.random() < rate:
            return drawn(response_class(key), version, rng)
        return (
            await before(request, version)
            if before is not None
            else await getattr(broker, f"respond_to_{key.name.lower()}")(request)
        )

    return response


async def use_everything(world: World, name: str) -> list[str]:
    """Do what users do; what is no error of ours comes out."""
    heard: list[str] = []
    acts: list[Callable[[], Awaitable[Any]]] = []
    env = world.client_env(name)
    partition = TopicPartition("t", 0)

    async def produce() -> None:
        async with Producer(
            SERVERS, env=env, delivery_timeout_ms=3_000, max_block_ms=3_000, linger_ms=0, **TIMEOUTS
        ) as producer:
            for _ in range(5):
                await (await producer.send("t", b"x")).wait()

    async def consume() -> None:
        async with Consumer(SERVERS, env=env, auto_offset_reset="earliest", **TIMEOUTS) as consumer:
            consumer.assign([partition])
            for _ in range(5):
                await consumer.poll(timeout_ms=500)

    async def join() -> None:
        async with Consumer(SERVERS, env=env, group_id="g", **TIMEOUTS) as consumer:
            await consumer.subscribe(["t"])
            for _ in range(10):
                await consumer.poll(timeout_ms=500)
            await consumer.commit({partition: 5})

    async def administer() -> None:
        async with Admin(SERVERS, env=env, **TIMEOUTS) as admin:
            await admin.list_topics()
            await admin.list_offsets({partition: OffsetSpec.latest()})

    acts += [produce, consume, join, administer]
    for act in acts:
        try:
            await act()
        except TidelogError as error:
            heard.append(f"{act.__name__}: {error}")
    return heard


LIED_ABOUT = (
    ApiKey.API_VERSIONS,
    ApiKey.METADATA,
    ApiKey.PRODUCE,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.OFFSET_FETCH,
    ApiKey.OFFSET_COMMIT,
    ApiKey.HEARTBEAT,
)


@pytest.mark.parametrize("key", LIED_ABOUT, ids=lambda key: key.name)
@pytest.mark.parametrize("seed", range(6))
def test_lies_that_the_schema_allows_are_errors_or_are_outlived(key: ApiKey, seed: int) -> None:
    async def story(world: World, broker: ScriptedBroker) -> None:
        rng = Random(f"{seed} {key}")
        Leader(broker)
        group = Coordinating(broker)
        broker.other[key] = lying(broker, rng, key, 1.0 if seed == 0 else 0.5)
        await use_everything(world, "lied to")
        broker.other.pop(key)
        Leader(broker)
        group.respond_again()
        assert await use_everything(world, "client") == [], "with right responses everything works"
        assert len(broker.requests) < 6_000

    tell(story, seed=seed)


# Bytes, time, addresses


async def raw_broker(
    world: World,
    behave: Callable[[Any], Awaitable[None]],
    task_status: Any = trio.TASK_STATUS_IGNORED,
) -> None:
    listener = await world.network.host(HOST).listen(HOST, PORT)
    task_status.started()
    async with trio.open_nursery() as nursery:
        while True:
            nursery.start_soon(_quietly, behave, await listener.accept())


async def _quietly(behave: Callable[[Any], Awaitable[None]], connection: Any) -> None:
    try:
        await behave(connection)
    except OSError:
        connection.close()


async def say_nothing(connection: Any) -> None:
    while await connection.receive_into(bytearray(100)):
        pass


async def drip(connection: Any) -> None:
    """A size, and then one byte a second."""
    await connection.send_gathered([struct.pack(">i", 1_000)])
    while True:
        await trio.sleep(1)
        await connection.send_gathered([b"\0"])


async def announce_2_gib(connection: Any) -> None:
    await connection.receive_into(bytearray(100))
    await connection.send_gathered([struct.pack(">i", 2**31 - 1), bytes(100)])
    await trio.sleep_forever()


async def respond_to_another_request(connection: Any) -> None:
    await connection.receive_into(bytearray(1_000))
    await connection.send_gathered([struct.pack(">ii", 10, 999_999), bytes(6)])
    await trio.sleep_forever()


async def speak_http(connection: Any) -> None:
    await connection.receive_into(bytearray(1_000))
    await connection.send_gathered([b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"])
    connection.close()


async def hang_up(connection: Any) -> None:
    await trio.lowlevel.checkpoint()
    connection.close()


@pytest.mark.parametrize(
    "behave", [say_nothing, drip, announce_2_gib, respond_to_another_request, speak_http, hang_up]
)
def test_what_is_no_broker_is_told_within_the_deadline(
    behave: Callable[[Any], Awaitable[None]],
) -> None:
    async def main(world: World) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(raw_broker, world, behave)
            started = trio.current_time()
            async with Admin(SERVERS, env=world.client_env(), **TIMEOUTS) as admin:
                with pytest.raises(KafkaError, match="broker:9092") as caught:
                    await admin.list_topics()
            assert caught.value.code in {ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT}
            assert trio.current_time() - started < 6
            async with Producer(
                SERVERS,
                env=world.client_env(),
                max_block_ms=2_000,
                delivery_timeout_ms=3_000,
                **TIMEOUTS,
            ) as producer:
                with pytest.raises(KafkaError):
                    await producer.send("t", b"x")
            assert trio.current_time() - started < 12
            nursery.cancel_scope.cancel()

    sim_run(1, main)


@pytest.mark.parametrize("dead", ["nowhere:9092", "silent:9092"])
def test_dead_bootstrap_servers_among_living_ones_cost_time_and_no_more(dead: str) -> None:
    async def story(world: World, broker: ScriptedBroker) -> None:
        await world.network.host("silent").listen("silent", 9092)
        async with Admin(
            f"{dead},{SERVERS},{dead.replace('9', '8')}", env=world.client_env(), **TIMEOUTS
        ) as admin:
            assert [topic.name for topic in await admin.list_topics()] == ["t"]

    for seed in range(4):
        tell(story, seed=seed)


def test_a_broker_that_comes_back_at_another_port_is_found_again() -> None:
    async def story(world: World, broker: ScriptedBroker) -> None:
        moved: dict[str, int] = {"port": PORT}
        ask = broker.respond_to_metadata

        async def metadata(request: Any, version: int) -> MetadataResponse:
            response = await ask(request)
            response.brokers[0].port = moved["port"]
            return response

        broker.other[ApiKey.METADATA] = metadata
        async with Producer(
            f"{SERVERS},{HOST}:9999", env=world.client_env(), linger_ms=0, **TIMEOUTS
        ) as producer:
            await (await producer.send("t", b"0")).wait()
            moved["port"] = 9999
            second = await world.network.host(HOST).listen(HOST, 9999)
            broker.go_down(1_000)
            async with trio.open_nursery() as nursery:

                async def serve() -> None:
                    listener = second
                    while True:
                        try:
                            nursery.start_soon(
                                broker.serve_connection, await listener.accept(), nursery
                            )
                        except OSError:
                            listener = await world.network.host(HOST).listen(HOST, 9999)

                nursery.start_soon(serve)
                assert (await (await producer.send("t", b"1")).wait()).offset == 1
                nursery.cancel_scope.cancel()

    tell(story)


def test_a_member_whose_subscription_is_garbage_does_not_stop_its_leader() -> None:
    async def story(world: World, broker: ScriptedBroker) -> None:
        Leader(broker)
        group = Coordinating(broker)

        async def join(request: Any, version: int) -> JoinGroupResponse:
            response = await group._join_group(request, version)
            response.members.append(
                JoinGroupResponseMember(member_id="odd", metadata=b"\xff\xff\xff")
            )
            return response

        broker.other[ApiKey.JOIN_GROUP] = join
        async with Consumer(SERVERS, env=world.client_env(), group_id="g", **TIMEOUTS) as consumer:
            await consumer.subscribe(["t"])
            while not consumer.assignment:
                await consumer.poll(timeout_ms=100)

    tell(story)


@pytest.mark.parametrize("assignment", [b"\0", b"\0\1\x7f\xff\xff\xff", b"\xff\xff"])
def test_an_assignment_that_cannot_be_read_is_an_error_of_the_poll(assignment: bytes) -> None:
    async def story(world: World, broker: ScriptedBroker) -> None:
        Leader(broker)
        Coordinating(broker)

        async def sync(request: Any, version: int) -> SyncGroupResponse:
            await trio.lowlevel.checkpoint()
            return SyncGroupResponse(assignment=assignment)

        broker.other[ApiKey.SYNC_GROUP] = sync
        async with Consumer(SERVERS, env=world.client_env(), group_id="g", **TIMEOUTS) as consumer:
            await consumer.subscribe(["t"])
            with pytest.raises(
                KafkaError, match="what the leader assigned cannot be read"
            ) as caught:
                await consumer.poll(timeout_ms=10_000)
            assert caught.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    tell(story)


def test_the_responses_that_name_nothing_are_told_as_such() -> None:
    async def story(world: World, broker: ScriptedBroker) -> None:
        async def empty(request: Any, version: int) -> ProduceResponse:
            await trio.lowlevel.checkpoint()
            return ProduceResponse()

        async def no_fetch(request: Any, version: int) -> FetchResponse:
            await trio.sleep(0.1)
            return FetchResponse()

        broker.other |= {ApiKey.PRODUCE: empty, ApiKey.FETCH: no_fetch}
        async with Producer(SERVERS, env=world.client_env(), **TIMEOUTS) as producer:
            with pytest.raises(KafkaError, match="the response does not name the partition"):
                await (await producer.send("t", b"x")).wait()

    tell(story)
