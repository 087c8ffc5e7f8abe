"""Runs one stream of records: where it begins, which records it sends, and why it ends.

A stream gets chunks of lines from a reader that it shares with other streams. It requests the next
chunk once the client has received those before, so a slow client delays only its own stream. At its
end each stream sends the reason and the positions to continue from.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import trio

from log_service.client import Admin, ErrorCode, KafkaError, OffsetSpec, TopicPartition
from log_service.common.access import AclOperation
from log_service.http.cluster_clients.credentials import Credentials
from log_service.http.rest_proxy import errors
from log_service.http.rest_proxy.context import Call
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.v1.chunks import Chunk, LineAt
from log_service.http.rest_proxy.v1.endings import CAUGHT_UP, LIMIT, LOGIN, STOPPING, Ending
from log_service.http.rest_proxy.v1.lines import (
    EventLines,
    Lines,
    NdjsonLines,
    end_note,
    gap_note,
)
from log_service.http.rest_proxy.v1.positions import Gap, first_positions
from log_service.http.rest_proxy.v1.query import (
    EVENTS,
    MAX_PARTITIONS,
    NDJSON,
    StreamQuery,
    query_of,
)
from log_service.http.rest_proxy.v1.shared_readers import CHECK_S, Followed, ReaderCursor
from log_service.http.server.streams import Send
from log_service.http.server.values import HttpResponse

HEARTBEAT_S: Final = 15.0
PIECE_BYTES: Final = 32 << 10
TURN_RECORDS: Final = 100
"""Records sent one by one after which other tasks get a turn."""


@dataclass(slots=True, kw_only=True)
class Reading:
    """The state of one stream. ``ends`` has the offsets at which the stream ends, by partition.

    They are the ends of the log when the stream began. ``ends`` is None if it follows its topic.
    """

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
        """The writer of the stream's format."""
        return EventLines() if self.query.has_events else NdjsonLines()

    @property
    def is_caught_up(self) -> bool:
        """Whether all records have been sent that existed when the stream began.

        It is false for a stream that follows its topic.
        """
        ends = self.ends
        return ends is not None and all(self.positions[each] >= ends[each] for each in ends)

    def followed_by(self, credentials: Credentials | None) -> Followed:
        """Return the key of the readers that this stream can share."""
        query = self.query
        is_growing = self.ends is None and not query.partitions
        return Followed(
            credentials=credentials,
            topic=self.topic,
            topic_id=self.topic_id,
            partitions=() if is_growing else tuple(sorted(self.positions)),
            comparisons=query.comparisons,
            encoding=query.encoding,
            is_committed_only=query.is_committed_only,
        )

    def wants_all(self, chunk: Chunk) -> bool:
        """Return whether the stream is at a chunk's beginning, and will send all of its records."""
        ends, limit = self.ends, self.query.limit
        return (
            self.positions == chunk.before
            and (limit is None or self.sent_count + len(chunk.records) < limit)
            and (ends is None or all(end <= ends[each] for each, end in chunk.after.items()))
        )

    def wanted(self, chunk: Chunk) -> Iterator[LineAt]:
        """Yield the records of a chunk between the stream's positions and its end."""
        for record in chunk.records_from(self.positions):
            if self.ends is None or record[1] < self.ends[record[0]]:
                yield record

    def move_past(self, chunk: Chunk) -> None:
        """Advance the positions to the chunk's end, but not beyond the stream's end."""
        moved = chunk.moved(self.positions)
        if self.ends is not None:
            moved = {each: min(moved[each], end) for each, end in self.ends.items()}
        self.positions = moved


async def read(call: Call) -> HttpResponse:
    """Send the records of a topic as a stream.

    The stream is NDJSON or server-sent events, by Accept or format. It begins at Last-Event-ID or
    from. With follow it continues with new records. filter selects records, and encoding is the
    format of keys and values. The last line has the reason for the end of the stream.
    """
    query, user = query_of(call.request), "" if call.credentials is None else call.request.principal
    streams = call.context.streams
    streams.places.check(user)
    reading = await begun(await call.admin(), call.value("topic"), query)

    async def make(send: Send) -> None:
        async with streams.places.one_of(user):
            await _Stream(call, reading, send).run()

    return streams.response(make, EVENTS if query.has_events else NDJSON)


async def begun(admin: Admin, topic: str, query: StreamQuery) -> Reading:
    """Return the initial state of a stream.

    Raises:
        RestError: 40401 or 40402, the topic or the partition does not exist. 422, the topic has too
            many partitions.
        KafkaError: TOPIC_AUTHORIZATION_FAILED, the user may not read the topic. Or the cluster's
            own error, if the topic cannot be described.
    """
    try:
        found = await admin.describe_offsets([topic])
    except KafkaError as error:
        raise (errors.topic_not_found(topic) if error.code in errors.NO_TOPIC else error) from error
    allowed = (await admin.describe_topic_operations([topic])).get(topic)
    if allowed is not None and AclOperation.READ not in allowed.operations:
        text = f"the login lacks READ on the topic {topic}"
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, text)
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


class _Stream:
    """Sends one stream to its client."""

    def __init__(self, call: Call, reading: Reading, send: Send) -> None:
        self._call = call
        self._streams = call.context.streams
        self._reading = reading
        self._send_piece = send
        self._lines = reading.lines
        self._waiting = bytearray()

    async def run(self) -> None:
        """Send records until the stream ends, and then the reason for its end."""
        reading = self._reading
        self._waiting += self._lines.start
        for gap in reading.gaps:
            self._waiting += gap_note(self._lines, gap)
        await self._flush()
        ending = CAUGHT_UP if reading.is_caught_up else None
        followed = reading.followed_by(self._call.credentials)
        while ending is None:
            with self._call.context.readers.cursor(followed, reading.positions) as cursor:
                ending = await self._follow(cursor)
        self._waiting += end_note(self._lines, ending.reason, ending.message, reading.positions)
        await self._flush()

    async def _follow(self, cursor: ReaderCursor) -> Ending | None:
        """Send the chunks of a reader. Return None if the stream continues with another reader."""
        ending: Ending | None = None
        while ending is None:
            if self._streams.stopping.is_set():
                return STOPPING
            chunk = cursor.next_chunk()
            if chunk is not None:
                ending = await self._take(chunk)
            elif cursor.is_over:
                return cursor.ending_at(self._reading.positions)
            else:
                with trio.move_on_after(CHECK_S):
                    await cursor.wait()
            ending = ending or await self._look()
        return ending

    async def _take(self, chunk: Chunk) -> Ending | None:
        """Send the records of a chunk. Return why the stream ends there, None if it continues."""
        reading = self._reading
        if reading.wants_all(chunk):
            await self._send(chunk.text(self._lines))
            reading.sent_count += len(chunk.records)
            reading.positions = dict(chunk.after)
        else:
            for count, (partition, offset, line) in enumerate(reading.wanted(chunk), 1):
                reading.positions[partition] = offset + 1
                self._waiting += self._lines.record(line, reading.positions)
                reading.sent_count += 1
                if reading.sent_count == reading.query.limit:
                    return LIMIT
                if not count % TURN_RECORDS:
                    await trio.lowlevel.checkpoint()
                if len(self._waiting) >= PIECE_BYTES:
                    await self._flush()
            reading.move_past(chunk)
            await self._flush()
        return CAUGHT_UP if reading.is_caught_up else None

    async def _look(self) -> Ending | None:
        """Check the login from time to time, and send a heartbeat on an idle stream.

        Return the reason for the end of the stream if the login is no longer valid, otherwise None.
        """
        reading, now_s = self._reading, trio.current_time()
        if now_s - reading.checked_s >= CHECK_S:
            reading.checked_s = now_s
            if not await self._streams.is_login_right(self._call.request):
                return LOGIN
        if now_s - reading.spoken_s >= HEARTBEAT_S:
            await self._send(self._lines.heartbeat(reading.positions))
        return None

    async def _flush(self) -> None:
        piece = bytes(self._waiting)
        self._waiting.clear()
        await self._send(piece)

    async def _send(self, piece: bytes) -> None:
        if piece:
            await self._send_piece(piece)
            self._reading.spoken_s = trio.current_time()
