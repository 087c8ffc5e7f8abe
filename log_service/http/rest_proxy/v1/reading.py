"""One stream of records: where it begins, what it sends, and why it ends.

The next records are asked for once the client has taken those before. So a slow client holds back
its own stream alone, and memory is bounded by what one consumer fetches. Every stream that ends
says why and where to go on.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import trio

from log_service.client import (
    Admin,
    Consumer,
    ConsumerRecord,
    ErrorCode,
    KafkaError,
    OffsetSpec,
    SchemaRegistryClient,
    TopicPartition,
)
from log_service.http.record_formats.consuming import open_consumer
from log_service.http.record_formats.decoding import RecordDecoder
from log_service.http.record_formats.records import decoded, is_wanted
from log_service.http.rest_proxy import errors
from log_service.http.rest_proxy.cluster_reading import UNKNOWN
from log_service.http.rest_proxy.context import Call
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.v1.lines import (
    EventLines,
    Lines,
    NdjsonLines,
    end_note,
    gap_note,
    record_line,
)
from log_service.http.rest_proxy.v1.positions import Gap, first_positions
from log_service.http.rest_proxy.v1.query import (
    EVENTS,
    MAX_PARTITIONS,
    NDJSON,
    StreamQuery,
    query_of,
)
from log_service.http.server.streams import Send
from log_service.http.server.values import HttpResponse

CHECK_S: Final = 5.0
"""How often a stream asks whether its topic is there, and whether its login is still right."""
HEARTBEAT_S: Final = 15.0
POLL_RECORDS: Final = 500
PIECE_BYTES: Final = 32 << 10
TURN_RECORDS: Final = 20
"""After so many records other tasks run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Why a stream ends. ``reason`` is a word for programs, ``message`` a sentence for people."""

    reason: str
    message: str


LIMIT: Final = Ending(reason="limit", message="As many records were sent as limit allows.")
CAUGHT_UP: Final = Ending(reason="caught_up", message="All records of the log were sent.")
STOPPING: Final = Ending(reason="stopping", message="The proxy stops. Ask another one.")
LOGIN: Final = Ending(reason="login", message="The login is not right any more. Log in anew.")
DELETED: Final = Ending(reason="topic_deleted", message="The topic was deleted.")


@dataclass(slots=True, kw_only=True)
class Reading:
    """The state of one stream. ``ends`` is None for a stream that follows its topic."""

    topic: str
    topic_id: object
    query: StreamQuery
    positions: dict[int, int]
    ends: Mapping[int, int] | None
    gaps: Sequence[Gap]
    sent_count: int = 0
    spoken_s: float = field(default_factory=trio.current_time)
    checked_s: float = field(default_factory=trio.current_time)

    @property
    def lines(self) -> Lines:
        """How the stream is written."""
        return EventLines() if self.query.has_events else NdjsonLines()


async def read(call: Call) -> HttpResponse:
    """Send the records of a topic as a stream.

    The stream is NDJSON or server-sent events, by Accept or format. It begins at Last-Event-ID or
    from. With follow it goes on with new records. filter chooses records, and encoding says how
    keys and values are shown. The last line says why the stream ends.
    """
    query, user = query_of(call.request), "" if call.credentials is None else call.request.principal
    streams = call.context.streams
    streams.places.check(user)
    reading = await begun(await call.admin(), call.value("topic"), query)

    async def make(send: Send) -> None:
        async with (
            streams.places.one_of(user),
            call.context.clients.lease(call.credentials) as clients,
            open_decoder(call) as decoder,
            open_consumer(
                clients, is_committed_only=query.is_committed_only, reset="none"
            ) as consumer,
        ):
            stream = _Stream(call, reading, consumer, decoder, send)
            await stream.run(await clients.admin())

    return streams.response(make, EVENTS if query.has_events else NDJSON)


async def begun(admin: Admin, topic: str, query: StreamQuery) -> Reading:
    """Return a stream at its beginning.

    Raises:
        RestError: 40401 or 40402, there is no such topic or partition. 422, it has too many.
        KafkaError: the user may not read it.
    """
    try:
        found = await admin.describe_offsets([topic])
    except KafkaError as error:
        raise (errors.topic_not_found(topic) if error.code in UNKNOWN else error) from error
    ends = {
        where.partition: (
            each.log_start_offset,
            each.last_stable_offset if query.is_committed_only else each.high_watermark,
        )
        for where, each in found.items()
    }
    logs = {number: ends[number] for number in query.partitions or ends if number in ends}
    missing = next((each for each in query.partitions if each not in ends), None)
    if missing is not None:
        raise errors.partition_not_found(missing)
    if len(logs) > MAX_PARTITIONS:
        advice = f"name at most {MAX_PARTITIONS} of them in partitions"
        raise RestError(422, f"The topic has {len(logs)} partitions: {advice}.")
    at_time: dict[int, int] = {}
    if query.start.kind == "time":
        spec = OffsetSpec.at(query.start.time_ms)
        asked = {TopicPartition(topic, number): spec for number in logs}
        times = await admin.list_offsets(asked)
        at_time = {where.partition: each.offset for where, each in times.items()}
        at_time = {number: offset for number, offset in at_time.items() if offset >= 0}
    positions, gaps = first_positions(query.start, logs, at_time)
    return Reading(
        topic=topic,
        topic_id=next(iter(found.values())).topic_id,
        query=query,
        positions=positions,
        ends=None if query.is_following else {number: end for number, (_, end) in logs.items()},
        gaps=gaps,
    )


@asynccontextmanager
async def open_decoder(call: Call) -> AsyncIterator[RecordDecoder]:
    """Yield a decoder that asks the schema registry with the login of the request.

    It has a client of its own, because a stream may outlive those that a login shares.
    """
    make = _registry_maker(call)
    if make is None:
        yield RecordDecoder(None)
        return
    async with await trio.to_thread.run_sync(make) as registry:  # it reads trust stores
        yield RecordDecoder(registry)


async def shared_decoder(call: Call) -> RecordDecoder:
    """Return a decoder for one request, by the registry client that a login shares."""
    make = _registry_maker(call)
    if make is None:
        return RecordDecoder(None)
    return RecordDecoder(await call.clients.shared_client("the registry client of decoders", make))


def _registry_maker(call: Call) -> Callable[[], SchemaRegistryClient] | None:
    """Return the maker of a registry client of the login, None without a registry."""
    settings, login = call.context.settings, call.credentials
    if not settings.registry_url:
        return None
    client = settings.registry_client
    given = dict(client) if login is None else login.registry_settings(client)
    return partial(SchemaRegistryClient, settings.registry_url, **given)


class _Stream:
    """One stream while it is sent."""

    def __init__(
        self,
        call: Call,
        reading: Reading,
        consumer: Consumer,
        decoder: RecordDecoder,
        send: Send,
    ) -> None:
        self._call = call
        self._streams = call.context.streams
        self._reading = reading
        self._consumer = consumer
        self._decoder = decoder
        self._send_piece = send
        self._lines = reading.lines
        self._waiting = bytearray()

    async def run(self, admin: Admin) -> None:
        """Send records until the stream ends, and then why."""
        reading = self._reading
        self._waiting += self._lines.start
        for gap in reading.gaps:
            self._waiting += gap_note(self._lines, gap)
        await self._flush()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._wake_on_stop)
            try:
                ending = await self._read(admin)
            except KafkaError as error:
                ending = ending_of(error)
            nursery.cancel_scope.cancel()
        text = end_note(self._lines, ending.reason, ending.message, reading.positions)
        self._waiting += text
        await self._flush()

    async def _wake_on_stop(self) -> None:
        await self._streams.stopping.wait()
        self._consumer.wakeup()

    async def _read(self, admin: Admin) -> Ending:
        reading, consumer = self._reading, self._consumer
        await self._assign(sorted(reading.positions))
        while True:
            if self._streams.stopping.is_set():
                return STOPPING
            if await self._is_caught_up():
                return CAUGHT_UP
            records = await consumer.poll(POLL_RECORDS, timeout_ms=int(CHECK_S * 1_000))
            for count, record in enumerate(records, 1):
                await self._take(record)
                if reading.sent_count == reading.query.limit:
                    return LIMIT
                if not count % TURN_RECORDS:
                    await trio.lowlevel.checkpoint()
                if len(self._waiting) >= PIECE_BYTES:
                    await self._flush()
            await self._flush()
            now_s = trio.current_time()
            if now_s - reading.checked_s >= CHECK_S:
                reading.checked_s = now_s
                ending = await self._check(admin)
                if ending is not None:
                    return ending
            if now_s - reading.spoken_s >= HEARTBEAT_S:
                self._waiting += self._lines.heartbeat(reading.positions)
                await self._flush()

    async def _assign(self, numbers: Sequence[int]) -> None:
        assigned = [TopicPartition(self._reading.topic, number) for number in numbers]
        self._consumer.assign(assigned)
        for where in assigned:
            await self._consumer.seek(where, self._reading.positions[where.partition])

    async def _is_caught_up(self) -> bool:
        """Return whether all records were read that were there at the beginning."""
        ends = self._reading.ends
        if ends is None:
            return False
        over = []
        for number, end in ends.items():
            where = TopicPartition(self._reading.topic, number)
            if await self._consumer.position(where) >= end:
                over.append(where)
        self._consumer.pause(over)
        return len(over) == len(ends)

    async def _take(self, record: ConsumerRecord) -> None:
        reading = self._reading
        if reading.ends is not None and record.offset >= reading.ends[record.partition]:
            return
        line = await self._line(record)
        reading.positions[record.partition] = record.offset + 1
        if line is not None:
            self._waiting += self._lines.record(line, reading.positions)
            reading.sent_count += 1

    async def _line(self, record: ConsumerRecord) -> bytes | None:
        """Return the line of a record, None for one that the filter does not want."""
        query, lines = self._reading.query, self._call.context.lines
        place = record.partition, record.offset, record.leader_epoch
        key = self._call.credentials, self._reading.topic_id, place, query.encoding
        line = None if query.comparisons else lines.get(key)
        if line is not None:
            return line
        found = await decoded(self._decoder, record, query.encoding)
        if not await is_wanted(query.comparisons, found):
            return None
        line = await record_line(found)
        if self._reading.ends is None and not (found.key.error or found.value.error):
            lines.put(key, line)
        return line

    async def _flush(self) -> None:
        if self._waiting:
            piece = bytes(self._waiting)
            self._waiting.clear()
            await self._send_piece(piece)
            self._reading.spoken_s = trio.current_time()

    async def _check(self, admin: Admin) -> Ending | None:
        """Return why the stream has to end, and take up new partitions if it has not."""
        reading = self._reading
        if not await self._streams.is_login_right(self._call.request):
            return LOGIN
        try:
            topic = (await admin.describe_topics([reading.topic]))[reading.topic]
        except KafkaError as error:
            if error.code in UNKNOWN:
                return DELETED
            return None if error.is_retriable else ending_of(error)
        if topic.topic_id != reading.topic_id:
            return DELETED
        count = topic.partition_count
        is_growing = reading.ends is None and not reading.query.partitions
        if is_growing and len(reading.positions) < count <= MAX_PARTITIONS:
            reading.positions |= dict.fromkeys(range(len(reading.positions), count), 0)
            await self._assign(sorted(reading.positions))
        return None


def ending_of(error: KafkaError) -> Ending:
    """Return the end of a stream that the cluster does not serve any more."""
    if error.code in UNKNOWN:
        return DELETED
    if error.code is ErrorCode.SASL_AUTHENTICATION_FAILED:
        return LOGIN
    reason = "error"
    if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
        reason = "offset_out_of_range"
    elif errors.of_cluster(error).code == errors.FORBIDDEN:
        reason = "forbidden"
    return Ending(reason=reason, message=str(error))
