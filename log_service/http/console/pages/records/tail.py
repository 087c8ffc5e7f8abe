"""Follows a topic live: sends new records to a page, or a sample of them if they come too fast.

A tick is one turn of polling and sending, of ``TICK_S`` seconds. Invariants: at most
``SHOWN_PER_TICK`` records are sent in a tick. A reader whose lag is more than ``MAX_BEHIND``
records skips to the end. The page gets the number of records that it does not show.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import trio

from log_service.client.consumer.consumer import Consumer
from log_service.client.consumer.records import ConsumerRecord
from log_service.common.types import TopicPartition
from log_service.http.console.page_requests import PageRequest
from log_service.http.console.pages.records.view import Question, RecordView, record_view
from log_service.http.record_formats.consuming import open_consumer
from log_service.http.record_formats.decoding import RecordDecoder, open_decoder
from log_service.http.record_formats.filters import needs_decoding
from log_service.http.record_formats.records import decoded, is_wanted
from log_service.http.server.streams import HEARTBEAT, Send, event

TICK_S = 0.5
SHOWN_PER_TICK = 10
DECODED_PER_TICK = 200
"""Most records of a tick that a filter looks into."""
POLL_RECORDS = 1_000
MAX_BEHIND = 10_000
MAX_TAIL_S = 3_600.0
HEARTBEAT_S = 15.0
REPORT_TICKS = 2


@dataclass(slots=True, kw_only=True)
class TailCounts:
    """Counts of records since the last report to the page.

    ``unexamined`` were not checked by the filter. ``skipped`` were not even read.
    """

    arrived: int = 0
    shown: int = 0
    unexamined: int = 0
    skipped: int = 0

    def report(self, seconds: float) -> str:
        """Return a sentence for the page about the records of the last ``seconds``."""
        rate = round(self.arrived / seconds)
        text = f"{rate} records a second"
        if self.skipped:
            text += f", {self.skipped} left out because reading was behind"
        if self.unexamined:
            text += f", {self.unexamined} not looked at by the filter"
        if self.shown < self.arrived - self.unexamined and not self.unexamined:
            text += f": a sample of {self.shown} in {self.arrived} is shown"
        return text


async def follow(page_request: PageRequest, question: Question, send: Send) -> None:
    """Send new records as events until the session ends, or an hour is over."""
    async with (
        open_decoder(page_request.registry_maker) as decoder,
        open_consumer(
            page_request.clients,
            is_committed_only=question.is_committed_only,
            with_control=question.with_markers,
        ) as consumer,
    ):
        partitions = await _partitions(consumer, question)
        consumer.assign(partitions)
        await consumer.seek_to_end()
        for where in partitions:
            await consumer.position(where)
        await send(event("state", "Waiting for records"))
        with trio.move_on_after(MAX_TAIL_S):
            await _follow(page_request, question, consumer, decoder, send)
    await send(event("end", "Ended: load the page again to go on"))


async def _partitions(consumer: Consumer, question: Question) -> list[TopicPartition]:
    count = await consumer.partitions_for(question.topic)
    numbers = range(count) if question.partition is None else [question.partition]
    return [TopicPartition(question.topic, number) for number in numbers]


async def _follow(
    page_request: PageRequest,
    question: Question,
    consumer: Consumer,
    decoder: RecordDecoder,
    send: Send,
) -> None:
    counts, ticks, spoken_s = TailCounts(), 0, trio.current_time()
    while await page_request.person.is_here():
        began_s = trio.current_time()
        records = await _poll_tick(consumer, began_s + TICK_S)
        counts.arrived += len(records)
        counts.skipped += await _catch_up(consumer)
        shown = await _chosen(question, decoder, records, counts)
        counts.shown += len(shown)
        now_s = trio.current_time()
        if shown:
            make = partial(page_request.part, "rows.html", records=shown, is_new=True)
            rows = await trio.to_thread.run_sync(make)
            await send(event("records", rows.decode()))
            spoken_s = now_s
        elif now_s - spoken_s >= HEARTBEAT_S:
            await send(HEARTBEAT)
            spoken_s = now_s
        ticks += 1
        if ticks % REPORT_TICKS == 0 and (counts.arrived or counts.skipped):
            await send(event("state", counts.report(REPORT_TICKS * TICK_S)))
            counts = TailCounts()
    await send(event("end", "Your session has ended"))


async def _poll_tick(consumer: Consumer, until_s: float) -> list[ConsumerRecord]:
    """Return the records that arrive until ``until_s``. Other tasks run between the polls."""
    records: list[ConsumerRecord] = []
    while (left_s := until_s - trio.current_time()) > 0 and len(records) < MAX_BEHIND:
        records += await consumer.poll(POLL_RECORDS, timeout_ms=max(1, round(left_s * 1_000)))
        await trio.lowlevel.checkpoint()
    return records


async def _catch_up(consumer: Consumer) -> int:
    """Seek to the end if the lag is over ``MAX_BEHIND``. Return the number of skipped records."""
    behind = sum(consumer.lag(where) or 0 for where in consumer.assignment)
    if behind <= MAX_BEHIND:
        return 0
    await consumer.seek_to_end()
    return behind


async def _chosen(
    question: Question,
    decoder: RecordDecoder,
    records: Sequence[ConsumerRecord],
    counts: TailCounts,
) -> list[RecordView]:
    """Return up to ``SHOWN_PER_TICK`` latest records that satisfy the filter, latest first.

    If it stops at ``DECODED_PER_TICK`` records, the rest is added to ``counts.unexamined``.
    """
    shown: list[RecordView] = []
    is_bounded = needs_decoding(question.comparisons)
    for looked_at, record in enumerate(reversed(records)):
        if len(shown) >= SHOWN_PER_TICK:
            break
        if is_bounded and looked_at >= DECODED_PER_TICK:
            counts.unexamined += len(records) - looked_at
            break
        found = await decoded(decoder, record, question.wanted)
        if await is_wanted(question.comparisons, found):
            make = partial(record_view, record, found.key, found.value)
            shown.append(await trio.to_thread.run_sync(make) if found.is_long else make())
        await trio.lowlevel.checkpoint()
    return shown
