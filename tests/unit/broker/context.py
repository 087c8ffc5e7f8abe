"""A whole broker runs in virtual time, on a memory network and a memory disk.

Its client speaks bytes.

    def test_something() -> None:
        async def story(node: Story) -> None:
            await node.create_topic("a")
            response = await node.ask(MetadataRequest(topics=None), 12)

        tell(story)
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import trio

from log_service.broker.broker import Broker
from log_service.broker.one_error import one_error
from log_service.broker.registry import REGISTRY
from log_service.common.env import Connection
from log_service.common.types import TopicId
from log_service.config.server import parse_server_properties
from log_service.config.views import NodeConfig
from log_service.protocol.api_versions import ApiKey, response_class
from log_service.protocol.codec import decode
from log_service.protocol.frames import RequestHeader, encode_request, parse_response_header
from log_service.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from log_service.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from log_service.records.batch import iterate_headers, iterate_records
from log_service.records.builder import BatchBuilder
from tests.sim import World, sim_run

HOST = "broker"
PORT = 9092
DATA = Path("/data/kafka")

PROPERTIES = {
    "node.id": "1",
    "listeners": f"PLAINTEXT://{HOST}:{PORT}",
    "log.dirs": str(DATA),
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "cluster.id": "cluster-of-the-story-00",
}


def configuration(properties: dict[str, str]) -> tuple[NodeConfig, dict[str, str]]:
    config, settings = parse_server_properties({**PROPERTIES, **properties})
    return replace(config, disk_pool_threads=1), dict(settings.texts)


def api_key_of(request: object) -> ApiKey:
    module = type(request).__module__
    return next(
        spec.key
        for spec in (api.spec for api in REGISTRY.values())
        if spec.request_path == f"{module}:{type(request).__name__}"
    )


def batch(
    *values: bytes | None,
    key: bytes | None = None,
    timestamp_ms: int = 1_700_000_000_000,
    **header: Any,
) -> bytes:
    """A producer's batch with one record per value."""
    builder = BatchBuilder()
    for value in values:
        builder.append(timestamp_ms, key, value)
    return bytes(builder.build(**header))


def values_of(records: Any) -> list[bytes | None]:
    """The values in fetched bytes."""
    content = bytes(records or b"")
    return [
        None if record.value is None else bytes(record.value)
        for position, _ in iterate_headers(content, is_torn_tail_ok=True)
        for record in iterate_records(content, position)
    ]


class RawClient:
    """One connection. Requests may be pipelined: ``send`` some, then ``receive`` their answers in
    order.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._received = bytearray()
        self._sent: list[tuple[ApiKey, int, int]] = []
        self._correlation_id = 0

    async def send(self, request: Any, version: int) -> None:
        key = api_key_of(request)
        self._correlation_id += 1
        frame = encode_request(RequestHeader(key, version, self._correlation_id, "story"), request)
        self._sent.append((key, version, self._correlation_id))
        await self._connection.send_gathered(frame)  # type: ignore[arg-type]

    async def send_bytes(self, content: bytes) -> None:
        await self._connection.send_gathered([content])

    async def receive(self) -> Any:
        key, version, correlation_id = self._sent.pop(0)
        frame = await self.receive_frame()
        found, body = parse_response_header(key, version, frame)
        assert found == correlation_id
        response, end = decode(response_class(key), version, frame, body)
        assert end == len(frame)
        return response

    async def receive_frame(self) -> bytes:
        """The next frame without its size; ``EOFError`` when the broker closed the connection."""
        size = int.from_bytes(await self._take(4), "big")
        return await self._take(size)

    async def _take(self, size: int) -> bytes:
        chunk = bytearray(65_536)
        while len(self._received) < size:
            count = await self._connection.receive_into(chunk)
            if count == 0:
                raise EOFError
            self._received += chunk[:count]
        taken, self._received = bytes(self._received[:size]), self._received[size:]
        return taken

    async def ask(self, request: Any, version: int) -> Any:
        await self.send(request, version)
        return await self.receive()

    async def is_closed(self) -> bool:
        """Whether the broker closes the connection within a second."""
        with trio.move_on_after(1):
            try:
                await self.receive_frame()
            except (EOFError, OSError):
                return True
        return False

    def close(self) -> None:
        self._connection.close()


class Asking:
    """This protocol lists what tests ask of a node, however it is made."""

    async def ask(self, request: Any, version: int) -> Any:
        raise AssertionError("for those who know how")

    async def produce(
        self, topic: str, records: bytes, *, partition: int = 0, acks: int = -1, version: int = 9
    ) -> PartitionProduceResponse:
        response: ProduceResponse = await self.ask(
            produce_request(topic, records, partition=partition, acks=acks), version
        )
        return response.responses[0].partition_responses[0]

    async def fetch(
        self, topic: str, offset: int, *, partition: int = 0, version: int = 12, **wanted: Any
    ) -> PartitionData:
        response: FetchResponse = await self.ask(
            fetch_request(topic, offset, partition=partition, **wanted), version
        )
        assert response.error_code == 0
        return response.responses[0].partitions[0]


class Story(Asking):
    """A running broker and a client of it."""

    def __init__(self, world: World, broker: Broker, client: RawClient) -> None:
        self.world = world
        self.broker = broker
        self.client = client

    async def connect(self, port: int = PORT) -> RawClient:
        return RawClient(await self.world.client_env().network.connect(HOST, port))

    async def ask(self, request: Any, version: int) -> Any:
        return await self.client.ask(request, version)

    async def create_topic(self, name: str, partitions: int = 1, **configs: str) -> TopicId:
        named = [
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ]
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, configs=named
        )
        response: CreateTopicsResponse = await self.ask(CreateTopicsRequest(topics=[topic]), 7)
        assert response.topics[0].error_code == 0, response
        return TopicId(response.topics[0].topic_id)


def produce_request(
    topic: str, records: bytes, *, partition: int = 0, acks: int = -1, timeout_ms: int = 1_000
) -> ProduceRequest:
    wanted = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name=topic, partition_data=[wanted])],
    )


def fetch_request(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    **wanted: Any,
) -> FetchRequest:
    wanted.setdefault("partition_max_bytes", 1 << 20)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[FetchPartition(partition=partition, fetch_offset=offset, **wanted)],
            )
        ],
    )


@asynccontextmanager
async def running(world: World, **properties: str) -> AsyncIterator[Story]:
    """Run a broker; leaving stops it gracefully. Property names are given with underscores."""
    config, texts = configuration(
        {name.replace("_", "."): value for name, value in properties.items()}
    )
    broker = Broker(world.node_env(HOST), config, static_texts=texts)
    async with trio.open_nursery() as nursery:
        await nursery.start(broker.run)
        story = Story(
            world, broker, RawClient(await world.client_env().network.connect(HOST, PORT))
        )
        yield story
        story.client.close()
        await broker.stop()


def tell(main: Callable[[Story], Awaitable[None]], *, seed: int = 1, **properties: str) -> None:
    """Run one story against a fresh broker."""

    async def whole(world: World) -> None:
        async with running(world, **properties) as story:
            await main(story)

    with one_error():
        sim_run(seed, whole)
