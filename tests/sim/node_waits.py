"""Judges how long the node keeps a request once it could respond: what waits is woken.

``Visibility`` looks at a node whenever virtual time is about to pass and notes since when each
offset can be read. ``Waiters`` ask for what is not there yet (a fetch or a poll at the end of a
log, a produce that waits for a sync, a topic that is being created or deleted) and note when the
node could respond and when it did. They live on quiet hosts, so that no time passes on the network,
and one request of theirs is under way on a connection at a time.

A response is due at the moment at which it could be made, or at which its request came, whichever
is later; it may be one tick late. Nothing is judged where the node died or the connection broke in
between, or where the response is an error.
"""

import struct
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import trio

from log_service.client import Consumer
from log_service.common.env import Connection, Env
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_TOPIC_ID, TopicPartition
from log_service.protocol.api_versions import ApiKey, response_class
from log_service.protocol.codec import decode
from log_service.protocol.frames import RequestHeader, encode_request, parse_response_header
from log_service.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from log_service.protocol.messages.delete_topics import DeleteTopicsRequest
from log_service.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from log_service.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from log_service.protocol.schema import Message
from log_service.records.builder import build_batch
from tests.sim.node_checker import Violation
from tests.sim.node_history import History, Waited
from tests.sim.node_host import Incarnation, NodeHost
from tests.sim.world import World

TICK_SECONDS = 0.001
"""What a response may be late by."""
LONGEST_WAIT_MS = 30_000
PRODUCE, FETCH, LIST_OFFSETS, CREATE_TOPICS, DELETE_TOPICS = 11, 12, 8, 7, 5
"""The versions that are spoken: the last in which topics go by their names."""
LATEST = -1
PAUSE_SECONDS = 0.2
UNKNOWN = 1 << 62
"""An offset that no log reaches."""
TOPIC = "waited-for"
TOPIC_PARTITIONS = 2


class Visibility:
    """Since when each offset of a node could be read, and each topic was there or not.

    ``look`` is to be called when all has happened that happens in a moment.
    """

    def __init__(self, host: NodeHost) -> None:
        self._host = host
        self._incarnation: Incarnation | None = None
        self._ends: dict[tuple[str, int], list[int]] = {}
        self._times: dict[tuple[str, int], list[float]] = {}
        self._watched: dict[Callable[[], bool], float | None] = {}

    def since(self, partition: TopicPartition, offset: int) -> float | None:
        """Return since when a record can be read from this incarnation of the node; None where it
        cannot.
        """
        self.look()
        ends = self._ends.get(partition, [])
        index = bisect_right(ends, offset)
        return self._times[partition][index] if index < len(ends) else None

    def log_end_offset(self, partition: TopicPartition) -> int:
        """Return which offset the next record of a partition gets."""
        incarnation = self._host.current
        found = (
            incarnation.broker.replicas.partitions.get(partition)
            if incarnation is not None and incarnation.is_up
            else None
        )
        return UNKNOWN if found is None or found.log is None else found.log.log_end_offset

    def since_any(self, offsets: Mapping[TopicPartition, int]) -> float | None:
        """The same of the first of several partitions that has a record at its offset."""
        known = [self.since(partition, offset) for partition, offset in offsets.items()]
        return min((each for each in known if each is not None), default=None)

    @contextmanager
    def watched(self, is_so: Callable[[], bool]) -> Iterator[Callable[[], float | None]]:
        """Watch something inside; yields a function that returns since when it is so, None while it
        is not.

        None throughout if it is so at first: who asks for what is there is refused, and that may
        have to wait for other changes.
        """
        self._watched[is_so] = None
        was_so = is_so()

        def since() -> float | None:
            self.look()
            return None if was_so else self._watched[is_so]

        try:
            yield since
        finally:
            del self._watched[is_so]

    def look(self) -> None:
        """Take note of what is there now."""
        incarnation = self._host.current
        if incarnation is not self._incarnation:
            self._incarnation = incarnation
            self._ends.clear()
            self._times.clear()
        if incarnation is None or not incarnation.is_up:
            return
        now = trio.current_time()
        for key, partition in incarnation.broker.replicas.partitions.items():
            ends = self._ends.get(key)
            end = partition.high_watermark
            if ends is None or end < ends[-1]:  # new, or another topic of that name
                self._ends[key], self._times[key] = [end], [now]
            elif end > ends[-1]:
                ends.append(end)
                self._times[key].append(now)
        for is_so, since in self._watched.items():
            self._watched[is_so] = (now if since is None else since) if is_so() else None


def check_waits(history: History) -> Iterator[Violation]:
    """The node wakes each waiting request.

    No response comes later than a tick after it could.
    """
    for waited in history.of(Waited):
        if waited.late_seconds > TICK_SECONDS:
            yield Violation(
                "what waits is woken",
                f"the response to {waited.what} came {waited.late_seconds:.3f} s after it could",
            )


class RefusedError(OSError):
    """A response with an error: it is not judged, and the next request goes out on a new
    connection.
    """


class Line:
    """A connection to a node without a client library: one request, then its response."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._buffer = bytearray()

    async def ask(self, request: Message, version: int) -> Any:
        """Return the response. Raises OSError where the connection breaks."""
        api_key = ApiKey(request.SCHEMA.key or 0)
        await self._connection.send_gathered(
            [b"".join(encode_request(RequestHeader(api_key, version, 1, "waiter"), request))]  # type: ignore[arg-type]
        )
        (size,) = struct.unpack(">i", await self._receive(4))
        frame = await self._receive(size)
        _, body = parse_response_header(api_key, version, frame)
        return decode(response_class(api_key), version, frame, body)[0]

    async def _receive(self, size_bytes: int) -> bytes:
        chunk = bytearray(64 << 10)
        while len(self._buffer) < size_bytes:
            count = await self._connection.receive_into(chunk)
            if not count:
                raise ConnectionError("the node closed the connection")
            self._buffer += chunk[:count]
        taken = bytes(self._buffer[:size_bytes])
        del self._buffer[:size_bytes]
        return taken

    def close(self) -> None:
        self._connection.close()


@dataclass(slots=True)
class Place:
    """How far a waiter has come in one partition: the offset of the record that it waits for."""

    partition: TopicPartition
    offset: int = UNKNOWN
    is_told: bool = False
    """Whether the session knows this offset."""


Wait = Callable[[Line, Random], Awaitable[None]]
"""Waits on one connection until it breaks."""


class Waiters:
    """Clients wait at one node for ``partitions`` and for a topic of their own, until they are
    cancelled.
    """

    def __init__(
        self, world: World, host: NodeHost, history: History, partitions: Sequence[TopicPartition]
    ) -> None:
        self.world = world
        self.history = history
        self._host = host
        self._visibility = Visibility(host)
        own = (TopicPartition(TOPIC, index) for index in range(TOPIC_PARTITIONS))
        self._partitions = [*partitions, *own]

    async def run(self) -> None:
        """Wait in every way."""
        self.world.clock.on_idle.append(self._visibility.look)
        async with trio.open_nursery() as nursery:
            waits: list[Wait] = [self._fetch, self._fetch, self._administer]
            waits += [
                partial(self._produce, TopicPartition(TOPIC, index))
                for index in range(TOPIC_PARTITIONS)
            ]
            for number, wait in enumerate(waits):
                nursery.start_soon(self._keep_on, f"waiter-{number}", wait)
            nursery.start_soon(self._poll, "waiter-poll")

    async def _keep_on(self, name: str, wait: Wait) -> None:
        """Connect again whenever a connection breaks."""
        env = self._env(name)
        while True:
            try:
                line = Line(await env.network.connect(self._host.name, self._host.port))
            except OSError:
                await trio.sleep(PAUSE_SECONDS)
                continue
            with suppress(OSError):
                await self._wait_on(wait, line, env.rng)
            # Also where the node has nothing to wait for: nothing else lets time pass.
            await trio.sleep(PAUSE_SECONDS)

    @staticmethod
    async def _wait_on(wait: Wait, line: Line, rng: Random) -> None:
        try:
            await wait(line, rng)
        finally:
            line.close()

    def _env(self, name: str) -> Env:
        host = f"{name}@{self._host.name}"
        self.world.network.quiet_hosts.add(host)
        return self.world.client_env(host)

    @contextmanager
    def _judged(self, what: str, since: Callable[[], float | None]) -> Iterator[None]:
        """Judge a response that comes inside, or has not come when all is over.

        ``since`` returns the time from which it could come.
        """
        asked_time, incarnation = trio.current_time(), self._host.current

        def judge() -> None:
            possible_time = since() if incarnation is self._host.current else None
            if possible_time is not None:
                self.history.add(
                    Waited(
                        what=what, late_seconds=trio.current_time() - max(asked_time, possible_time)
                    )
                )

        try:
            yield
        except trio.Cancelled:
            judge()
            raise
        judge()

    # Fetch

    async def _fetch(self, line: Line, rng: Random) -> None:
        """Fetch at the ends of some partitions, in a session or without one."""
        await self._make_topic(line)
        count = rng.choice([1, 1, len(self._partitions)])
        places = [Place(partition) for partition in sorted(rng.sample(self._partitions, count))]
        for place in places:
            place.offset = await self._end_of(line, place.partition)
        session_id, session_epoch = 0, rng.choice([-1, 0])
        while all(place.offset >= 0 for place in places):
            request = self._fetch_request(places, session_id, session_epoch)
            offsets = {place.partition: place.offset for place in places}
            with self._judged(
                f"a fetch of {offsets}", partial(self._visibility.since_any, offsets)
            ):
                response = await line.ask(request, FETCH)
                found = [
                    (topic.topic, part) for topic in response.responses for part in topic.partitions
                ]
                if response.error_code or any(part.error_code for _, part in found):
                    raise RefusedError
            if session_epoch >= 0:
                session_id, session_epoch = response.session_id, session_epoch + 1
            for topic, part in found:
                place = next(
                    each for each in places if each.partition == (topic, part.partition_index)
                )
                place.is_told = place.offset == part.high_watermark
                place.offset = part.high_watermark

    async def _end_of(self, line: Line, partition: TopicPartition) -> int:
        """The end of what can be read; -1 where the node does not tell."""
        wanted = ListOffsetsPartition(partition_index=partition.partition, timestamp=LATEST)
        request = ListOffsetsRequest(
            topics=[ListOffsetsTopic(name=partition.topic, partitions=[wanted])]
        )
        offset: int = (await line.ask(request, LIST_OFFSETS)).topics[0].partitions[0].offset
        return offset

    @staticmethod
    def _fetch_request(places: list[Place], session_id: int, session_epoch: int) -> FetchRequest:
        """A request for all places; in a session that exists, for those that it does not know."""
        asked = [place for place in places if session_epoch <= 0 or not place.is_told]
        for place in places:
            place.is_told = True
        topics = [
            FetchTopic(
                topic=place.partition.topic,
                topic_id=NO_TOPIC_ID,
                partitions=[
                    FetchPartition(
                        partition=place.partition.partition,
                        fetch_offset=place.offset,
                        partition_max_bytes=1,
                    )
                ],
            )
            for place in asked
        ]
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=LONGEST_WAIT_MS,
            min_bytes=1,
            max_bytes=1,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=topics,
        )

    async def _poll(self, name: str) -> None:
        """Poll at the end of one partition with the client.

        Only of one: Kafka's clients fetch no more of a partition whose records are there while a
        fetch of others is under way.
        """
        env = self._env(name)
        partition = TopicPartition(TOPIC, 0)
        settings: dict[str, Any] = {
            "fetch_max_wait_ms": LONGEST_WAIT_MS,
            "request_timeout_ms": 2 * LONGEST_WAIT_MS,
        }
        async with Consumer(
            self._host.address, env=env, auto_offset_reset="latest", **settings
        ) as consumer:
            consumer.assign([partition])
            offset, incarnation = UNKNOWN, self._host.current
            while True:
                if incarnation is not self._host.current:
                    offset, incarnation = UNKNOWN, self._host.current
                try:
                    with self._judged(
                        f"a poll of {partition} at {offset}",
                        partial(self._visibility.since, partition, offset),
                    ):
                        records = await consumer.poll(timeout_ms=LONGEST_WAIT_MS)
                except KafkaError:
                    offset = UNKNOWN
                    await trio.sleep(PAUSE_SECONDS)
                else:
                    offset = records[-1].offset + 1 if records else offset

    # Produce

    async def _produce(self, partition: TopicPartition, line: Line, rng: Random) -> None:
        """Send one record after the other to a partition that no other client writes to.

        It is synced before it is acknowledged.
        """
        await self._make_topic(line)
        while True:
            batch = bytes(build_batch([(self.world.clocks[self._host.name].wall_ms(), None, b"-")]))
            data = [PartitionProduceData(index=partition.partition, records=batch)]
            topic = TopicProduceData(
                name=partition.topic, topic_id=NO_TOPIC_ID, partition_data=data
            )
            offset = self._visibility.log_end_offset(partition)
            with self._judged(
                f"a produce to {partition} at {offset}",
                partial(self._visibility.since, partition, offset),
            ):
                response = await line.ask(
                    ProduceRequest(acks=-1, timeout_ms=LONGEST_WAIT_MS, topic_data=[topic]), PRODUCE
                )
                if response.responses[0].partition_responses[0].error_code:
                    raise RefusedError
            await trio.sleep(rng.expovariate(1))

    # Metadata

    async def _make_topic(self, line: Line) -> None:
        """Have the topic that is synced first."""
        while True:
            response = await line.ask(
                _create(TOPIC, TOPIC_PARTITIONS, **{"flush.messages": "1"}), CREATE_TOPICS
            )
            if response.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                return
            await trio.sleep(PAUSE_SECONDS)

    async def _administer(self, line: Line, rng: Random) -> None:
        """Create and delete a topic, again and again."""
        name = f"{TOPIC}-briefly"
        while True:
            for request, version, is_there in (
                (_create(name, 1), CREATE_TOPICS, True),
                (_delete(name), DELETE_TOPICS, False),
            ):
                what = f"a {'creation' if is_there else 'deletion'} of {name}"
                with (
                    self._visibility.watched(self._presence(name, is_there=is_there)) as since,
                    self._judged(what, since),
                ):
                    response = await line.ask(request, version)
                    if (response.topics if is_there else response.responses)[0].error_code:
                        raise RefusedError
                await trio.sleep(rng.uniform(0.1, 2))

    def _presence(self, name: str, *, is_there: bool) -> Callable[[], bool]:
        def is_so() -> bool:
            incarnation = self._host.current
            if incarnation is None or not incarnation.is_up:
                return False
            broker = incarnation.broker
            return (
                name in broker.image.topics.by_name,
                (name, 0) in broker.replicas.partitions,
            ) == (is_there, is_there)

        return is_so


def _create(name: str, partition_count: int, **configs: str) -> CreateTopicsRequest:
    rows = [CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
    topic = CreatableTopic(
        name=name, num_partitions=partition_count, replication_factor=1, configs=rows
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=LONGEST_WAIT_MS)


def _delete(name: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topic_names=[name], timeout_ms=LONGEST_WAIT_MS)
