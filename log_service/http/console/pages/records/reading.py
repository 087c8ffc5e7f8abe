"""Reads records for a page, within bounds of time, bytes and records.

Records are read with the person's own rights, by a consumer without a group. So nothing is
committed, and no group of the cluster changes.
"""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from heapq import nlargest

import trio

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import OffsetSpec
from log_service.client.consumer.consumer import Consumer
from log_service.client.consumer.records import ConsumerRecord
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.http.cluster_clients.pool import LoginClients
from log_service.http.console.pages.records.fates import Fates
from log_service.http.console.pages.records.view import Bounds, Question, bounds_of
from log_service.http.record_formats.consuming import open_consumer
from log_service.http.record_formats.decoding import RecordDecoder
from log_service.http.record_formats.records import DecodedRecord, decoded, is_wanted

SEARCH_S = 10.0
ENOUGH = "enough"
"""Why reading ended, if ``take`` wants no further record."""
MAX_SCANNED = 50_000
MAX_KEPT_BYTES = 2 << 20
LOOK_AHEAD = 1_000
"""The number of further records that are read to learn the outcome of the shown records'
transactions.
"""
POLL_RECORDS = 100
POLL_MS = 500

TakeRecord = Callable[[ConsumerRecord], Awaitable[bool]]
"""Take a record, and return whether to read on."""


@dataclass(slots=True, kw_only=True)
class Scan:
    """The result of a search so far. ``stopped`` says why it ended early, empty if it did not.

    Records of one partition are sorted by offset. Those of several are sorted by timestamp.
    """

    is_by_offset: bool = False
    found: list[DecodedRecord] = field(default_factory=list)
    scanned_count: int = 0
    found_bytes: int = 0
    stopped: str = ""
    fates: Fates = field(default_factory=Fates)

    def place_of(self, found: DecodedRecord) -> tuple[int, int, int]:
        """Return the sort key of a record: its timestamp, unless the search reads one partition.

        Within a partition the offset counts, because producers may choose older timestamps.
        """
        record = found.record
        time_ms = 0 if self.is_by_offset else record.timestamp_ms
        return time_ms, record.partition, record.offset


async def read_bounds(admin: Admin, question: Question) -> Bounds:
    """Return the offsets at which reading begins and ends in each partition.

    Raises:
        KafkaError: the topic or the partition does not exist, or this person may not read it.
    """
    found = await admin.describe_offsets([question.topic])
    logs = {
        where: (
            each.log_start_offset,
            each.last_stable_offset if question.is_committed_only else each.high_watermark,
        )
        for where, each in found.items()
        if question.partition in {None, where.partition}
    }
    if not logs:
        text = f"{question.topic} has no partition {question.partition}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    at_time: dict[TopicPartition, int] = {}
    if question.start == "time":
        spec = OffsetSpec.at(question.time_ms)
        times = await admin.list_offsets(dict.fromkeys(logs, spec))
        at_time = {where: each.offset for where, each in times.items() if each.offset >= 0}
    return bounds_of(question, logs, at_time)


async def read_through(
    consumer: Consumer,
    bounds: Bounds,
    take: TakeRecord,
    deliver: Callable[[], Awaitable[None]] | None = None,
) -> str:
    """Call ``take`` with each record within bounds, and return why reading ended early.

    The result is empty if all records were read. ``take`` returns False to end reading, with the
    result ``ENOUGH``. ``deliver`` is called after each record. Its time does not count towards the
    time limit, because it waits for a receiver.
    """
    left = {where for where, end in bounds.ends.items() if bounds.starts[where] < end}
    if not left:
        return ""
    consumer.assign(sorted(left))
    for where in left:
        await consumer.seek(where, bounds.starts[where])
    count = 0
    with trio.move_on_after(SEARCH_S) as scope:
        while left:
            records = await consumer.poll(POLL_RECORDS, timeout_ms=POLL_MS)
            for record in records:
                if record.offset >= bounds.ends[record.topic_partition]:
                    continue
                count += 1
                await trio.lowlevel.checkpoint()
                is_enough = not await take(record)
                if deliver is not None:
                    await _beside(scope, deliver)
                if is_enough:
                    return ENOUGH
                if count >= MAX_SCANNED:
                    return f"{MAX_SCANNED} records were looked at"
            await trio.lowlevel.checkpoint()
            over = [each for each in left if await consumer.position(each) >= bounds.ends[each]]
            consumer.pause(over)
            left -= set(over)
        return ""
    return f"the search took longer than {SEARCH_S:.0f} s"


async def _beside(scope: trio.CancelScope, work: Callable[[], Awaitable[None]]) -> None:
    """Run work, and extend the deadline of a scope by its time."""
    left_s = scope.deadline - trio.current_time()
    scope.deadline = math.inf
    await work()
    scope.deadline = trio.current_time() + left_s


async def search(
    clients: LoginClients, admin: Admin, decoder: RecordDecoder, question: Question
) -> Scan:
    """Return the records that a query selects: the latest ones, or the first from its start."""
    bounds = await read_bounds(admin, question)
    scan, is_latest = Scan(is_by_offset=len(bounds.ends) == 1), question.start == "latest"
    most = 0

    async def take(record: ConsumerRecord) -> bool:
        nonlocal most
        scan.scanned_count += 1
        scan.fates.note(record)
        if len(scan.found) >= question.limit and not is_latest:  # only for how transactions end
            return scan.scanned_count < most and scan.fates.has_open
        found = await decoded(decoder, record, question.wanted)
        if await is_wanted(question.comparisons, found):
            scan.found.append(found)
            scan.fates.ask(record)
            scan.found_bytes += found.size
            if is_latest and len(scan.found) >= 4 * question.limit:
                keep_latest(scan, question.limit)
        if scan.found_bytes > MAX_KEPT_BYTES:
            scan.stopped = "the records are too large to show more at once"
            return False
        if is_latest or len(scan.found) < question.limit:
            return True
        most = scan.scanned_count + LOOK_AHEAD
        return scan.fates.has_open

    async with open_consumer(
        clients, is_committed_only=question.is_committed_only, with_control=question.with_markers
    ) as consumer:
        reason = await read_through(consumer, bounds, take)
    if reason != ENOUGH and (is_latest or len(scan.found) < question.limit):
        scan.stopped = reason
    if is_latest:
        keep_latest(scan, question.limit)
    else:
        scan.found.sort(key=scan.place_of)
    return scan


def keep_latest(scan: Scan, count: int) -> None:
    """Reduce a scan to its ``count`` latest records, latest first."""
    scan.found = nlargest(count, scan.found, key=scan.place_of)
    scan.found_bytes = sum(each.size for each in scan.found)
