"""Mirrors records to the partition with the same number, in transactions that include the progress.

One transaction writes the records of one poll of the source, and then the new position of the
source to the flow's offsets topic (KIP-98, KIP-618). Key, value, headers, timestamp and order are
preserved.

Decides how to continue after changes of the source or the target:

- The topic of the source or the target was created anew: mirroring begins again at the source's log
  start offset. Records of earlier incarnations in the target stay.
- Retention of the source was faster: mirroring continues at the log start offset, and the offsets
  between count as lost.
- The target refuses records of a topic: the transaction is aborted, and the flow continues without
  this topic for a while.
- The source's log was truncated by an unclean election: mirroring continues where both logs agree.
  Mirrored records that the source lost stay in the target.

Invariant: ``progress`` is what the target has committed. Every transaction continues from it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import trio

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import OffsetSpec
from log_service.client.consumer.consumer import Consumer
from log_service.client.consumer.records import ConsumerRecord, LogTruncation
from log_service.client.producer.delivery import Delivery
from log_service.client.producer.producer import Producer
from log_service.client.producer.transaction_errors import ProducerFailed
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_TIMESTAMP, TopicPartition
from log_service.mirror.complaints import Complaints
from log_service.mirror.held_topics import FAULTS_OF_A_TOPIC, HeldTopics
from log_service.mirror.progress import Progress, Run, encode_key, encode_value, runs_of
from log_service.mirror.settings import FlowSettings
from log_service.mirror.topic_keeper import MirroredTopic

MAX_RECORDS = 10_000
"""Most records of one transaction."""
POLL_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowClients:
    """The open clients of one flow.

    ``source`` and ``consumer`` are connected to the source and only read. ``target`` and
    ``producer`` are connected to the target.
    """

    source: Admin
    target: Admin
    consumer: Consumer
    producer: Producer


class RecordRefusedError(KafkaError):
    """The producer itself refuses a record of ``topic``."""

    def __init__(self, topic: str, error: KafkaError) -> None:
        super().__init__(error.code, str(error))
        self.topic = topic


class Transfer:
    """Mirrors the records of one flow. ``progress`` is the committed progress at the beginning.

    ``held`` are the topics that are left out for a while. ``doubt`` is called if a topic may have
    been deleted or created anew. The caller should then call ``follow`` with the present topics
    soon.
    """

    def __init__(
        self,
        flow: FlowSettings,
        clients: FlowClients,
        progress: Mapping[TopicPartition, Progress],
        *,
        complaints: Complaints,
        held: HeldTopics,
        doubt: Callable[[], None],
    ) -> None:
        self._flow = flow
        self._source, self._target = clients.source, clients.target
        self._consumer, self._producer = clients.consumer, clients.producer
        self._complaints = complaints
        self._held = held
        self._doubt = doubt
        self._progress = dict(progress)
        self._topics: dict[str, MirroredTopic] = {}
        self._followed: Mapping[str, MirroredTopic] | None = None
        self._read: set[TopicPartition] = set()

    @property
    def progress(self) -> Mapping[TopicPartition, Progress]:
        """The committed progress of the mirrored partitions in the target."""
        return {where: self._progress[where] for where in self._read}

    @property
    def topic_count(self) -> int:
        """The number of mirrored topics."""
        return len(self._topics)

    @property
    def partition_count(self) -> int:
        """The number of mirrored partitions."""
        return len(self._read)

    # Which partitions

    async def follow(self, topics: Mapping[str, MirroredTopic]) -> bool:
        """Mirror these topics from now on, and return whether the mirrored partitions changed.

        Each partition continues from its progress. Topics in ``held`` are left out.

        Raises:
            KafkaError: the end offsets of new partitions cannot be read.
        """
        if topics is self._followed:
            return False
        self._followed = topics
        kept = {
            name
            for name, topic in topics.items()
            if self._is_continued(topic) and not self._held.is_held(name)
        }
        before = self._read
        self._read = {where for where in self._read if where.topic in kept}
        self._consumer.assign(self._read)
        self._topics = {
            name: topic for name, topic in topics.items() if not self._held.is_held(name)
        }
        wanted = [
            TopicPartition(topic.name, number)
            for topic in self._topics.values()
            for number in range(topic.partition_count)
        ]
        missing = [where for where in wanted if where not in self._read]
        await self._begin([where for where in missing if not self._is_begun(where)])
        for where in missing:
            await self._read_on(where)
        return self._read != before

    def _is_continued(self, topic: MirroredTopic) -> bool:
        known = self._topics.get(topic.name)
        return known is not None and (known.lineage, known.remote_name) == (
            topic.lineage,
            topic.remote_name,
        )

    def _is_begun(self, where: TopicPartition) -> bool:
        known = self._progress.get(where)
        return known is not None and known.lineage == self._topics[where.topic].lineage

    async def _begin(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit a first progress of partitions that have none for their present topic ids."""
        if not partitions:
            return
        is_latest = self._flow.auto_offset_reset == "latest"
        known_topics = {where.topic for where in self._progress}
        specs = {
            where: (
                OffsetSpec.latest()
                if is_latest and where.topic not in known_topics
                else OffsetSpec.earliest()
            )
            for where in partitions
        }
        remote = {where: self._remote(where) for where in partitions}
        starts = await self._source.list_offsets(specs, isolation_level="read_committed")
        ends = await self._target.list_offsets(dict.fromkeys(remote.values(), OffsetSpec.latest()))
        begun = {
            where: Progress.begun(
                self._topics[where.topic].lineage, starts[where].offset, ends[remote[where]].offset
            )
            for where in partitions
        }
        for where in sorted(begun.keys() & self._progress.keys()):
            self._complaints.note(
                f"{where} is not the partition that was mirrored before: it begins anew at"
                f" {begun[where].position}"
            )
        await self._commit(begun)

    def _remote(self, where: TopicPartition) -> TopicPartition:
        return TopicPartition(self._topics[where.topic].remote_name, where.partition)

    async def _read_on(self, where: TopicPartition) -> None:
        """Assign a partition to the consumer, and seek to its progress.

        No other task runs between the two steps. Otherwise the consumer's background task would
        look up a position itself.
        """
        progress = self._progress[where]
        self._read.add(where)
        self._consumer.assign(self._read)
        await self._consumer.seek(where, progress.position, progress.leader_epoch)

    # Records

    async def step(self) -> int:
        """Mirror the next records of the source, and return how many were read.

        The count includes records that the target refuses. It is 0 if no records arrive for
        ``POLL_MS``, if reading failed, if the source's log was truncated, or if a topic was created
        anew.

        Raises:
            KafkaError: the transaction failed, so its records are not mirrored. The flow has to
                begin again from the committed progress.
        """
        try:
            records = await self._consumer.poll(MAX_RECORDS, POLL_MS)
        except LogTruncation as error:
            await self._cut(error.topic_partition, error.end_offset)
            return 0
        except KafkaError as error:
            await self._look_into(error)
            return 0
        if stale := self._stale_topics(records):
            return await self._leave(stale)
        positions = await self._moved()
        if positions:
            await self._write(records, positions)
        return len(records)

    async def _write(
        self, records: Sequence[ConsumerRecord], positions: Mapping[TopicPartition, int]
    ) -> None:
        """Write records and the source positions after them in one transaction.

        If records of a topic are refused, nothing is written and the topic is left out for a while.
        """
        sent: dict[TopicPartition, list[tuple[int, Delivery]]] = {}
        try:
            moved = await self._write_all(records, positions, sent)
        except KafkaError as error:
            refused = (
                {error.topic: error} if isinstance(error, RecordRefusedError) else _refused(sent)
            )
            if not refused or isinstance(error, ProducerFailed):
                raise
            for topic, reason in refused.items():
                self._held.hold(topic)
                self._complaints.note(
                    f"{self._flow.target.alias} refuses records of {topic}, which is left for a"
                    f" while: {reason}"
                )
            await self._read_again_without(refused)
        else:
            self._progress |= moved

    async def _write_all(
        self,
        records: Sequence[ConsumerRecord],
        positions: Mapping[TopicPartition, int],
        sent: dict[TopicPartition, list[tuple[int, Delivery]]],
    ) -> dict[TopicPartition, Progress]:
        async with self._producer.transaction():
            for record in records:
                where = TopicPartition(record.topic, record.partition)
                sent.setdefault(where, []).append((record.offset, await self._send(record)))
            await self._producer.flush()
            moved = self._progress_after(records, positions, sent)
            self._require_same_targets({where.topic for where in moved})
            await self._send_progress(moved)
        return moved

    async def _commit(self, moved: Mapping[TopicPartition, Progress]) -> None:
        """Commit progress in a transaction without mirrored records."""
        async with self._producer.transaction():
            await self._send_progress(moved)
        self._progress |= moved

    async def _send_progress(self, moved: Mapping[TopicPartition, Progress]) -> None:
        for where, progress in moved.items():
            await self._producer.send(
                self._flow.offsets_topic, encode_value(progress), encode_key(where), partition=0
            )

    async def _send(self, record: ConsumerRecord) -> Delivery:
        remote = self._topics[record.topic].remote_name
        try:
            return await self._producer.send(
                remote,
                record.value,
                record.key,
                headers=record.headers,
                timestamp_ms=max(record.timestamp_ms, NO_TIMESTAMP),
                partition=record.partition,
            )
        except KafkaError as error:
            if error.code in FAULTS_OF_A_TOPIC:
                raise RecordRefusedError(record.topic, error) from error
            raise

    def _progress_after(
        self,
        records: Sequence[ConsumerRecord],
        positions: Mapping[TopicPartition, int],
        sent: Mapping[TopicPartition, Sequence[tuple[int, Delivery]]],
    ) -> dict[TopicPartition, Progress]:
        """Return the new progress of each partition that advanced.

        Raises:
            KafkaError: a record was not delivered.
        """
        epochs = {
            TopicPartition(record.topic, record.partition): record.leader_epoch
            for record in records
        }
        moved: dict[TopicPartition, Progress] = {}
        for where, position in positions.items():
            before = self._progress[where]
            runs = _runs(sent.get(where, ()))
            moved[where] = before.advanced(position, epochs.get(where, before.leader_epoch), runs)
        return moved

    async def _moved(self) -> dict[TopicPartition, int]:
        """Return the consumer's position of each partition whose position advanced.

        A position also advances past markers, which are not records.
        """
        positions = {where: await self._consumer.position(where) for where in self._read}
        return {
            where: position
            for where, position in positions.items()
            if position > self._progress[where].position
        }

    # What is not as it was

    def _stale_topics(self, records: Iterable[ConsumerRecord]) -> set[str]:
        """Return the topics of ``records`` whose topic id changed in the consumer's metadata.

        Their records may be of a topic that was created anew with the same name.
        """
        return {topic for topic in {record.topic for record in records} if self._is_stale(topic)}

    def _is_stale(self, topic: str) -> bool:
        return (
            str(self._consumer.cluster.view.topic_id_of(topic))
            != self._topics[topic].lineage.source_topic_id
        )

    async def _leave(self, topics: Collection[str]) -> int:
        """Stop reading topics until ``follow`` names them again.

        ``doubt`` is called, so that this happens soon. All other topics are read again from the
        committed progress. Return 0, the result of the ``step`` that calls this.
        """
        self._doubt()
        await self._read_again_without(topics)
        return 0

    async def _read_again_without(self, topics: Collection[str]) -> None:
        """Stop reading some topics, and read all others again from the committed progress."""
        self._topics = {name: topic for name, topic in self._topics.items() if name not in topics}
        self._read = {where for where in self._read if where.topic not in topics}
        self._consumer.assign(self._read)
        for where in sorted(self._read):
            await self._consumer.seek(
                where, self._progress[where].position, self._progress[where].leader_epoch
            )

    def _require_same_targets(self, topics: Iterable[str]) -> None:
        """Check that the records went to the intended topics of the target.

        A topic of the target may have been deleted and created anew with another id.

        Raises:
            KafkaError: INCONSISTENT_TOPIC_ID, a topic was created anew.
        """
        view = self._producer.cluster.view
        for name in topics:
            topic = self._topics[name]
            if (
                topic.remote_name in view.topics
                and str(view.topic_id_of(topic.remote_name)) != topic.lineage.target_topic_id
            ):
                text = (
                    f"the topic {topic.remote_name} was created anew while records were written"
                    " to it"
                )
                raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, text)

    async def _cut(self, where: TopicPartition, end_offset: int) -> None:
        if self._is_stale(where.topic):
            await self._leave({where.topic})
            return
        before = self._progress[where].position
        self._complaints.note(
            f"{where} was truncated to {end_offset} after {before} was mirrored: it goes on there,"
            " and the target keeps what was lost"
        )
        await self._go_on(where, self._progress[where].cut_to(min(end_offset, before)))

    async def _look_into(self, error: KafkaError) -> None:
        """Handle the error of a poll: note a complaint, and wait before the next poll.

        If a position is out of the range of the source's log, continue where the log has records
        instead of waiting.
        """
        self._complaints.note(f"{self._flow.source.alias} cannot be read: {error}")
        if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            await trio.sleep(POLL_MS / 1_000)
            return
        found = await self._source.describe_offsets(sorted({where.topic for where in self._read}))
        for where in sorted(self._read & found.keys()):
            ends, progress = found[where], self._progress[where]
            if where not in self._read:
                continue
            if str(ends.topic_id) != progress.lineage.source_topic_id:
                await self._leave({where.topic})
            elif progress.position < ends.log_start_offset:
                skipped = progress.skipped_to(ends.log_start_offset)
                self._complaints.note(
                    f"{where}: retention removed {skipped.lost_count - progress.lost_count} offsets"
                    " before they were mirrored"
                )
                await self._go_on(where, skipped)
            elif progress.position > ends.high_watermark:
                await self._cut(
                    where, min(ends.high_watermark, await self._epoch_end(where, progress))
                )

    async def _epoch_end(self, where: TopicPartition, progress: Progress) -> int:
        """Ask the source's leader for the end offset of the last mirrored leader epoch (KIP-320).

        Return the position of ``progress`` if the epoch is unknown.
        """
        if progress.leader_epoch < 0:
            return progress.position
        found = (await self._source.offsets_for_leader_epoch({where: progress.leader_epoch}))[where]
        return found.end_offset if found.end_offset >= 0 else progress.position

    async def _go_on(self, where: TopicPartition, progress: Progress) -> None:
        """Commit ``progress``, and continue to read at its position."""
        await self._commit({where: progress})
        await self._consumer.seek(where, progress.position, progress.leader_epoch)


def _refused(
    sent: Mapping[TopicPartition, Sequence[tuple[int, Delivery]]],
) -> dict[str, KafkaError]:
    """Return the topics of which the target refused a record, each with the error."""
    refused: dict[str, KafkaError] = {}
    for where, deliveries in sent.items():
        for _, delivery in deliveries:
            try:
                if where.topic not in refused and delivery.is_done:
                    delivery.result()
            except KafkaError as error:
                if error.code in FAULTS_OF_A_TOPIC:
                    refused[where.topic] = error
    return refused


def _runs(sent: Sequence[tuple[int, Delivery]]) -> list[Run]:
    """Return the runs of delivered records, or none if the target does not report their offsets.

    Raises:
        KafkaError: a record was not delivered.
    """
    if not sent:
        return []
    first, last = sent[0][1].result().offset, sent[-1][1].result().offset
    if first >= 0 and len(sent) - 1 == last - first == sent[-1][0] - sent[0][0]:
        return [Run(sent[0][0], first, len(sent))]
    pairs = [(source, delivery.result().offset) for source, delivery in sent]
    return [] if any(target < 0 for _, target in pairs) else runs_of(pairs)
