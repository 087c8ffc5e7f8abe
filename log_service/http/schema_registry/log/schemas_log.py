"""Combines reader and writer of the registry's topic: read to the end, take over, write.

This module decides what an instance must have read before it may decide a write. It does not know
who leads. The caller takes over when it becomes the leader, and releases the writer when it is no
longer the leader.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import trio

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import OffsetSpec
from log_service.client.consumer.subscriptions import is_other_topic
from log_service.common.env import Env
from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition
from log_service.http.schema_registry.log.errors import ReadTimedOut, Superseded
from log_service.http.schema_registry.log.reader import LogListener, SchemasReader
from log_service.http.schema_registry.log.topic import DEFAULT_TOPIC, ensure_topic
from log_service.http.schema_registry.log.writer import KeyAndValue, SchemasWriter

END_PAUSE_S = 0.1
"""Pause while the log's end is below the position, because a leader is new or the topic was
replaced.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Address and name of the topic. ``client`` are settings for connections and logins.

    Without a replication factor a new topic has up to three replicas.
    """

    bootstrap_servers: str
    topic: str = DEFAULT_TOPIC
    replication_factor: int | None = None
    client: Mapping[str, Any] = field(default_factory=dict)


def _no_value() -> None:
    """Return None, the value that other registries give the first record of a writer."""


class SchemasLog:
    """One instance's access to the topic. ``admin`` is open, and may be shared.

    ``first_value`` returns the value of the first record of a new writer. It is called after all
    records that are in the log by then were read. All first records have the same key, so each
    replaces the previous one. A writer that renews its epoch writes a first record, too.
    """

    def __init__(
        self,
        settings: LogSettings,
        admin: Admin,
        listener: LogListener,
        env: Env,
        *,
        first_value: Callable[[], bytes | None] = _no_value,
    ) -> None:
        self._settings = settings
        self._admin = admin
        self._partition = TopicPartition(settings.topic, 0)
        self._reader = SchemasReader(
            settings.bootstrap_servers, settings.topic, listener, env, settings.client
        )
        self._writer = SchemasWriter(admin, settings.topic)
        self._first_value = first_value
        self._is_taken_over = False

    @property
    def position(self) -> int:
        """The next offset to read. The listener has every record before it."""
        return self._reader.position

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Create or check the topic, then read it until the caller cancels.

        Raises:
            ConfigError: the topic exists and cannot hold schemas.
            KafkaError: at the beginning, the cluster cannot be reached or denies access.
        """
        await ensure_topic(self._admin, self._settings.topic, self._settings.replication_factor)
        task_status.started()
        await self._reader.run()

    # Reading

    async def read_to(self, offset: int, timeout_ms: int) -> None:
        """Wait until the listener has the record at ``offset``.

        Raises:
            ReadTimedOut: reading took too long.
        """
        await self._reader.read_to(offset, timeout_ms)

    async def read_to_end(self, timeout_ms: int) -> None:
        """Wait until the listener has every record that was in the log when this call began.

        Raises:
            ReadTimedOut: reading took too long, or the cluster did not return the end of the log.
        """
        left_ms = self._admin.cluster.countdown(timeout_ms)
        last_error: Exception | None = None
        while left_ms() > 0:
            before = self._reader.position
            try:
                end = await self._end(left_ms())
                if end >= before and not self._is_reading_another_topic():
                    await self._reader.read_to(end - 1, left_ms())
                    return
                await self._admin.cluster.refresh([self._partition.topic])
            except KafkaError as error:
                last_error = error
            await trio.sleep(END_PAUSE_S)
        text = (
            f"{self._partition}: the cluster did not tell the end of the log within {timeout_ms} ms"
        )
        raise ReadTimedOut(f"{text}: {last_error}" if last_error else text) from last_error

    async def _end(self, timeout_ms: int) -> int:
        found = await self._admin.list_offsets(
            {self._partition: OffsetSpec.latest()}, timeout_ms=timeout_ms
        )
        return found[self._partition].offset

    def _is_reading_another_topic(self) -> bool:
        current = self._admin.cluster.view.topic_id_of(self._partition.topic)
        return is_other_topic(self._reader.topic_id, current)

    # Writing

    async def take_over(self, timeout_ms: int) -> None:
        """Become the only writer, and read everything that earlier writers wrote.

        Raises:
            SchemasLogError: the take-over failed, and this instance may not write.
        """
        left_ms = self._admin.cluster.countdown(timeout_ms)
        self._is_taken_over = True
        await self._take_over(left_ms())

    def release(self) -> None:
        """Stop writing until the next ``take_over``."""
        self._is_taken_over = False
        self._writer.release()

    async def prepare_write(self, timeout_ms: int) -> None:
        """Make sure that the listener has every record and that this instance may write.

        Call it before each decision, and let no other decision begin before the records of this one
        are written and read.

        Raises:
            Superseded: this instance is not the writer. It must find out who leads.
            SchemasLogError: it is unknown whether this instance is the writer, or reading took too
                long.
        """
        left_ms = self._admin.cluster.countdown(timeout_ms)
        if not self._is_taken_over:
            raise Superseded(f"this instance has not taken {self._partition} over")
        if self._writer.is_renewal_due or self._writer.topic_id != self._reader.topic_id:
            await self._take_over(left_ms())
        else:
            await self.read_to_end(left_ms())

    async def write(self, records: Iterable[KeyAndValue], timeout_ms: int) -> int:
        """Append records as one batch, all or none, and return the offset of the last.

        Raises:
            Superseded, RecordsTooLarge, NotWritten: the records are certainly not written.
            OutcomeUnknown: the records may be written. ``prepare_write`` will take the topic over
                again.
        """
        try:
            return await self._writer.write(records, timeout_ms)
        except Superseded:
            self._is_taken_over = False
            raise

    async def _take_over(self, timeout_ms: int) -> None:
        left_ms = self._admin.cluster.countdown(timeout_ms)
        await self.read_to_end(left_ms())
        try:
            offset = await self._writer.take_over(left_ms(), self._first_value())
        except Superseded:
            self._is_taken_over = False
            raise
        await self._reader.read_to(offset, left_ms())
        if self._writer.topic_id != self._reader.topic_id:
            self._writer.release()
            text = (
                f"topic {self._partition.topic} was created anew, and its new records are not"
                " read yet"
            )
            raise ReadTimedOut(text)
