"""Readers that follow a topic for all streams of a login that request the same records.

A reader has one consumer, decodes each record once, and keeps the newest chunks of lines. A stream
takes them at its own pace, from its own positions. If a stream's next chunk was dropped already,
the stream continues with another reader at its positions. Readers at the same positions are merged.

Invariants: a reader exists while streams use it. It reads on when any of its streams has taken all
chunks, so the fastest stream sets the pace and no slow stream delays another. All windows of a
proxy have at most ``TOTAL_BYTES``, not counting the newest chunk of each.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import trio

from log_service.client import Admin, Consumer, ConsumerRecord, KafkaError, TopicPartition
from log_service.common.errors import TidelogError
from log_service.common.types import NO_TOPIC_ID
from log_service.http.cluster_clients.credentials import Credentials
from log_service.http.cluster_clients.pool import ClusterClients
from log_service.http.record_formats.consuming import open_consumer
from log_service.http.record_formats.decoding import RecordDecoder, open_decoder
from log_service.http.record_formats.filters import Comparison
from log_service.http.record_formats.records import decoded, is_wanted
from log_service.http.rest_proxy import errors
from log_service.http.rest_proxy.settings import RestSettings
from log_service.http.rest_proxy.streams import Streams
from log_service.http.rest_proxy.v1.chunks import Chunk, LineAt, Window
from log_service.http.rest_proxy.v1.decoders import registry_maker
from log_service.http.rest_proxy.v1.endings import (
    DELETED,
    FAILED,
    OUT_OF_RANGE,
    STOPPING,
    Ending,
    ending_of,
)
from log_service.http.rest_proxy.v1.lines import record_line
from log_service.http.rest_proxy.v1.query import MAX_PARTITIONS
from log_service.http.server.values import HttpError

WINDOW_BYTES: Final = 8 << 20
TOTAL_BYTES: Final = 64 << 20
CHUNK_BYTES: Final = 128 << 10
POLL_RECORDS: Final = 500
TURN_RECORDS: Final = 20
"""Records after which other tasks get a turn."""
PAUSE_S: Final = 0.005
STREAM_PAUSE_S: Final = 0.0005
"""A reader that keeps up pauses after each chunk, longer for many streams, to make larger ones."""
CHECK_S: Final = 5.0
"""How often a reader checks that its topic exists, and a stream that its login is still valid."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """The records that a reader follows. Empty ``partitions`` mean all, including new ones."""

    credentials: Credentials | None
    topic: str
    topic_id: object
    partitions: tuple[int, ...]
    comparisons: tuple[Comparison, ...]
    encoding: str
    is_committed_only: bool


class ReaderCursor:
    """One stream's use of a reader: the number of the next chunk that the stream takes."""

    def __init__(self, reader: "SharedReader", number: int) -> None:
        self._reader = reader
        self._number = number

    def next_chunk(self) -> Chunk | None:
        """Return the next chunk for the stream, None if there is none now."""
        chunk = self._reader.window.get(self._number)
        if chunk is not None:
            self._number += 1
        return chunk

    @property
    def is_over(self) -> bool:
        """Whether no chunk will follow, because the reader has ended or dropped the next chunk."""
        return self._reader.is_over or self._number < self._reader.window.first_number

    def ending_at(self, positions: Mapping[int, int]) -> Ending | None:
        """Return the reason for the end of a stream, None if it continues with another reader.

        ``positions`` are those of the stream. If the reader has ended because the log lacks its
        next offsets, only streams at exactly these offsets end.
        """
        reader, ending = self._reader, self._reader.ending
        is_elsewhere = positions != reader.window.end
        if ending is not None and ending.reason == OUT_OF_RANGE and is_elsewhere:
            return None
        return ending

    async def wait(self) -> None:
        """Wait until the reader has a new chunk or has ended."""
        self._reader.wanted.set()
        await self._reader.changed.wait()


class SharedReaders:
    """The readers of one proxy."""

    def __init__(self, clients: ClusterClients, settings: RestSettings, streams: Streams) -> None:
        self.clients = clients
        self.settings = settings
        self.streams = streams
        self._joinable: dict[Followed, list[SharedReader]] = {}
        self._used = set[SharedReader]()
        """Readers with streams, also those that have ended and whose chunks are still taken."""

    def __len__(self) -> int:
        return len(self._used)

    def __repr__(self) -> str:
        return f"<SharedReaders {len(self)}>"

    @property
    def window_bytes(self) -> int:
        """The limit of bytes in the window of one reader, with the present number of readers."""
        return min(WINDOW_BYTES, TOTAL_BYTES // max(len(self), 1))

    @contextmanager
    def cursor(self, followed: Followed, positions: Mapping[int, int]) -> Iterator[ReaderCursor]:
        """Let a stream use a reader within a ``with`` block: one that it can join, or a new one."""
        reader = self.joinable(followed, positions)
        if reader is None:
            reader = SharedReader(self, followed, positions)
            self._joinable.setdefault(followed, []).append(reader)
            self._used.add(reader)
            for each in self._used:
                each.window.trim(self.window_bytes)
            self.streams.start(reader.run)
        number = reader.window.join(positions)
        assert number is not None, "a reader that begins at these positions can be joined"
        reader.cursor_count += 1
        try:
            yield ReaderCursor(reader, number)
        finally:
            reader.cursor_count -= 1
            if not reader.cursor_count:
                self._used.remove(reader)
                reader.end(None)

    def joinable(
        self,
        followed: Followed,
        positions: Mapping[int, int],
        other_than: "SharedReader | None" = None,
    ) -> "SharedReader | None":
        """Return a reader that a stream at these positions can join, None if there is none."""
        for each in self._joinable.get(followed, ()):
            if each is not other_than and each.window.join(positions) is not None:
                return each
        return None

    def remove(self, reader: "SharedReader") -> None:
        """Take a reader out of those that streams can join."""
        several = self._joinable[reader.followed]
        several.remove(reader)
        if not several:
            del self._joinable[reader.followed]


class SharedReader:
    """One reader of a topic. ``run`` reads until the reader has ended."""

    def __init__(
        self, readers: SharedReaders, followed: Followed, positions: Mapping[int, int]
    ) -> None:
        self.followed = followed
        self.window = Window(positions)
        self.cursor_count = 0
        self.is_over = False
        self.ending: Ending | None = None
        self.wanted = trio.Event()
        """Set when a stream has taken all chunks."""
        self.changed = trio.Event()
        """Set and replaced when a chunk is added, and set at the end."""
        self._readers = readers
        self._scope = trio.CancelScope()
        self._checked_s = trio.current_time()

    def __repr__(self) -> str:
        return f"<SharedReader {self.followed.topic} cursors={self.cursor_count} {self.window}>"

    def end(self, ending: Ending | None) -> None:
        """End the reader. With an ``ending``, its streams end too. Idempotent.

        Streams that end get none of the older chunks, because the login may have lost the right to
        their records. They send their positions. Without an ``ending``, streams take the remaining
        chunks, and then continue with another reader.
        """
        if self.is_over:
            return
        self.is_over, self.ending = True, ending
        if ending is not None:
            self.window.trim(CHUNK_BYTES)
        self._readers.remove(self)
        self.changed.set()
        self._scope.cancel()

    async def run(self) -> None:
        """Read until no stream uses the reader, or it cannot continue."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._end_on_stop)
                try:
                    ending = await self._read()
                except KafkaError as error:
                    ending = ending_of(error)
                except (TidelogError, HttpError) as error:
                    ending = Ending(reason="error", message=str(error))
                except Exception as error:  # a bug of ours costs the streams of one reader
                    logger.error("A shared reader failed: %r", error, exc_info=error)
                    ending = FAILED
                self.end(ending)

    async def _end_on_stop(self) -> None:
        await self._readers.streams.stopping.wait()
        self.end(STOPPING)

    async def _read(self) -> Ending | None:
        """Read until the reader has to end. Return the reason for the end of its streams.

        Return None if the streams continue with another reader at the same positions.
        """
        readers, followed = self._readers, self.followed
        async with (
            readers.clients.lease(followed.credentials) as clients,
            open_decoder(registry_maker(readers.settings, followed.credentials)) as decoder,
            open_consumer(
                clients, is_committed_only=followed.is_committed_only, reset="none"
            ) as consumer,
        ):
            admin = await clients.admin()
            await self._assign(consumer)
            while True:
                records = await consumer.poll(POLL_RECORDS, timeout_ms=int(CHECK_S * 1_000))
                current = consumer.cluster.view.topic_id_of(followed.topic)
                if current not in {followed.topic_id, NO_TOPIC_ID}:
                    return DELETED  # and created anew, so these records are not its records
                await self._append_all(consumer, decoder, records)
                ending = await self._check(consumer, admin)
                if ending is not None:
                    return ending
                if readers.joinable(followed, self.window.end, other_than=self):
                    return None
                if len(records) < POLL_RECORDS:
                    await trio.sleep(PAUSE_S + STREAM_PAUSE_S * self.cursor_count)

    async def _assign(self, consumer: Consumer) -> None:
        assigned = [TopicPartition(self.followed.topic, number) for number in self.window.end]
        consumer.assign(assigned)
        for where in assigned:
            await consumer.seek(where, self.window.end[where.partition])

    async def _append_all(
        self, consumer: Consumer, decoder: RecordDecoder, records: Sequence[ConsumerRecord]
    ) -> None:
        """Append polled records to the window, in chunks that end at the consumer's positions.

        These positions may be after offsets without a record, such as transaction markers.
        """
        after, lines, size_bytes = dict(self.window.end), list[LineAt](), 0
        for count, record in enumerate(records, 1):
            line = await self._line(decoder, record)
            after[record.partition] = record.offset + 1
            if line is not None:
                lines.append((record.partition, record.offset, line))
                size_bytes += len(line)
            most = POLL_RECORDS if self.window.next_number else TURN_RECORDS
            if size_bytes >= CHUNK_BYTES or len(lines) >= most:  # the first ones come soon
                await self._append(after, lines)
                lines, size_bytes = [], 0
            if not count % TURN_RECORDS:
                await trio.lowlevel.checkpoint()
        for number in after:
            after[number] = await consumer.position(TopicPartition(self.followed.topic, number))
        if after != self.window.end:
            await self._append(after, lines)

    async def _append(self, after: Mapping[int, int], lines: Sequence[LineAt]) -> None:
        """Wait until a stream has taken all chunks, and append a chunk that ends at ``after``."""
        await self.wanted.wait()
        self.wanted = trio.Event()
        window = self.window
        window.append(Chunk(window.end, dict(after), lines))
        window.trim(self._readers.window_bytes)
        self.changed.set()
        self.changed = trio.Event()

    async def _line(self, decoder: RecordDecoder, record: ConsumerRecord) -> bytes | None:
        """Return a record as a line, None if the filter rejects it."""
        found = await decoded(decoder, record, self.followed.encoding)
        if not await is_wanted(self.followed.comparisons, found):
            return None
        return await record_line(found)

    async def _check(self, consumer: Consumer, admin: Admin) -> Ending | None:
        """Return why the streams have to end, None if they continue.

        If they continue, also begin to read partitions that were added to the topic.
        """
        followed = self.followed
        if trio.current_time() - self._checked_s < CHECK_S:
            return None
        self._checked_s = trio.current_time()
        try:
            topic = (await admin.describe_topics([followed.topic]))[followed.topic]
        except KafkaError as error:
            if error.code in errors.NO_TOPIC:
                return DELETED
            return None if error.is_retriable else ending_of(error)
        if topic.topic_id != followed.topic_id:
            return DELETED
        count, end = topic.partition_count, self.window.end
        if not followed.partitions and len(end) < count <= MAX_PARTITIONS:
            await self._append({**end, **dict.fromkeys(range(len(end), count), 0)}, ())
            await self._assign(consumer)
        return None
