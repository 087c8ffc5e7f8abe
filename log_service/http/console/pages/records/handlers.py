"""The pages of a topic's records: browse, follow, download, and produce one."""

from functools import partial

import trio

from log_service.client.admin.admin import Admin
from log_service.client.consumer.records import ConsumerRecord
from log_service.common.errors import ErrorCode, KafkaError
from log_service.http.console.addresses import command, path_to
from log_service.http.console.browser_rules import PAGE_HEADERS
from log_service.http.console.forms import number_of
from log_service.http.console.page_requests import PageRequest, redirect
from log_service.http.console.pages.records.producing import formats_of, headers_of, record_part
from log_service.http.console.pages.records.reading import (
    ENOUGH,
    Scan,
    read_bounds,
    read_through,
    search,
)
from log_service.http.console.pages.records.tail import follow
from log_service.http.console.pages.records.view import (
    MAX_DOWNLOADED,
    STARTS,
    Question,
    asked,
    at_key,
    exported,
    question_of,
    record_view,
)
from log_service.http.record_formats.consuming import open_consumer
from log_service.http.record_formats.decoding import FORMATS, open_decoder
from log_service.http.record_formats.records import decoded, is_wanted
from log_service.http.server.streams import EVENT_STREAM, Send, stream_of
from log_service.http.server.values import HttpError, HttpResponse

PRODUCE_TIMEOUT_S = 15.0
DOWNLOAD_PIECE_BYTES = 32 << 10
MAX_DOWNLOAD_S = 900.0
"""The longest time of a download, including that in which the browser receives it."""


async def browse(page_request: PageRequest) -> HttpResponse:
    """Show the records that the query selects."""
    admin = await page_request.admin()
    question = await _with_key(admin, question_of(page_request.value("topic"), page_request.query))
    async with (
        page_request.context.searches.one_of(page_request.person.user),
        open_decoder(page_request.registry_maker) as decoder,
    ):
        scan = await search(page_request.clients, admin, decoder, question)
    return await trio.to_thread.run_sync(_browse_page, page_request, question, scan)


async def _with_key(admin: Admin, question: Question) -> Question:
    if not question.key:
        return question
    described = (await admin.describe_topics([question.topic]))[question.topic]
    return at_key(question, described.partition_count)


def _browse_page(page_request: PageRequest, question: Question, scan: Scan) -> HttpResponse:
    """Return the page with the result of a search.

    Blocks while it formats the records, which may be long.
    """
    records = [
        record_view(each.record, each.key, each.value, scan.fates.of(each.record))
        for each in scan.found
    ]
    name = question.topic
    return page_request.page(
        "browse.html",
        title=f"Records of {name}",
        commands=(_line(question),),
        name=name,
        asked=asked(page_request.query),
        partition=question.partition,
        records=records,
        scan=scan,
        starts=STARTS,
        formats=FORMATS,
        older=_neighbour(question, [each.offset for each in records], is_older=True),
        newer=_neighbour(question, [each.offset for each in records], is_older=False),
        download=path_to("topics", name, "records.ndjson", **question.as_query()),
        done="The record was produced." if page_request.query.get("done") == "produced" else "",
    )


async def show_question(page_request: PageRequest) -> HttpResponse:
    """Show the form of a refused search again, with its input."""
    name = page_request.value("topic")
    await (await page_request.admin()).describe_topics([name])
    return page_request.page(
        "browse.html",
        title=f"Records of {name}",
        commands=(command("consume", name, "--exit-at-end", "--json"),),
        name=name,
        asked=asked(page_request.query),
        scan=None,
        starts=STARTS,
        formats=FORMATS,
        download="",
        done="",
    )


def _neighbour(question: Question, offsets: list[int], *, is_older: bool) -> str:
    """Return the path of the page with the previous or the next records of the partition.

    It is empty if the search is not for one partition or found nothing, or if the previous records
    would be before offset 0.
    """
    if question.partition is None or not offsets:
        return ""
    offset = max(0, min(offsets) - question.limit) if is_older else max(offsets) + 1
    if is_older and min(offsets) == 0:
        return ""
    query = {**question.as_query(), "from_": "offset", "offset": offset, "time": None}
    return path_to("topics", question.topic, "records", **query)


def _line(question: Question) -> str:
    """Return the ``tidelog`` command that prints the same records, without the filter."""
    options: list[object] = []
    if question.partition is not None:
        options += ["--partition", question.partition]
    starts: dict[str, list[object]] = {
        "latest": ["--offset", -question.limit],
        "earliest": ["--from-beginning"],
        "offset": ["--offset", question.offset],
        "time": ["--from-time", question.time_ms],
    }
    options += starts[question.start]
    options += ["--read-committed"] if question.is_committed_only else []
    options += ["--control"] if question.with_markers else []
    if question.start != "latest":
        options += ["--max-records", question.limit]
    return command("consume", question.topic, *options, "--exit-at-end", "--json")


async def download(page_request: PageRequest) -> HttpResponse:
    """Send up to ``MAX_DOWNLOADED`` records as lines of JSON."""
    question = question_of(page_request.value("topic"), page_request.query, most=MAX_DOWNLOADED)
    if "limit" not in page_request.query:
        question = question_of(
            page_request.value("topic"),
            {**page_request.query, "limit": str(MAX_DOWNLOADED)},
            most=MAX_DOWNLOADED,
        )
    places, user = page_request.context.streams, page_request.person.user
    places.check(user)
    admin = await page_request.admin()
    question = await _with_key(admin, question)
    bounds = await read_bounds(admin, question)

    async def fill(send: Send) -> None:
        waiting, count = bytearray(), 0

        async with (
            places.one_of(user),
            open_decoder(page_request.registry_maker) as decoder,
            open_consumer(
                page_request.clients,
                is_committed_only=question.is_committed_only,
                with_control=question.with_markers,
            ) as consumer,
        ):

            async def take(record: ConsumerRecord) -> bool:
                nonlocal count
                found = await decoded(decoder, record, question.wanted)
                if await is_wanted(question.comparisons, found):
                    make_line = partial(exported, record, found.key, found.value)
                    waiting.extend(
                        await trio.to_thread.run_sync(make_line) if found.is_long else make_line()
                    )
                    count += 1
                return count < question.limit

            async def deliver() -> None:
                if len(waiting) >= DOWNLOAD_PIECE_BYTES:
                    await send(bytes(waiting))
                    waiting.clear()

            reason = await read_through(consumer, bounds, take, deliver)
        if waiting:
            await send(bytes(waiting))
        if reason not in {"", ENOUGH}:
            raise HttpError(503, f"the download of {question.topic} is not complete: {reason}")

    async def make(send: Send) -> None:
        with trio.move_on_after(MAX_DOWNLOAD_S) as scope:
            await fill(send)
        if scope.cancelled_caught:
            text = f"a browser took the download of {question.topic} too slowly"
            raise HttpError(408, f"{text}: it was ended after {MAX_DOWNLOAD_S:.0f} s")

    disposition = ("content-disposition", f'attachment; filename="{question.topic}.ndjson"')
    return HttpResponse(
        body=stream_of(page_request.context.nursery, make),
        content_type="application/x-ndjson",
        headers=(*PAGE_HEADERS, disposition),
    )


async def show_live(page_request: PageRequest) -> HttpResponse:
    """Show the page that follows a topic."""
    question = question_of(page_request.value("topic"), page_request.query)
    query = {**question.as_query(), "from_": None}
    return await _live_page(page_request, path_to("topics", question.topic, "tail", **query))


async def show_live_question(page_request: PageRequest) -> HttpResponse:
    """Show the form of a refused live view again, with its input."""
    return await _live_page(page_request, "")


async def _live_page(page_request: PageRequest, source: str) -> HttpResponse:
    """Return the page of a live view, whose records come from the path ``source``."""
    name = page_request.value("topic")
    await (await page_request.admin()).describe_topics([name])
    control = ["--control"] if page_request.query.get("markers") == "1" else []
    return page_request.page(
        "live.html",
        title=f"Live records of {name}",
        commands=(command("consume", name, *control, "--json"),),
        name=name,
        asked=asked(page_request.query),
        formats=FORMATS,
        source=source,
    )


async def tail(page_request: PageRequest) -> HttpResponse:
    """Send new records as server-sent events."""
    question = question_of(page_request.value("topic"), page_request.query)
    places, user = page_request.context.streams, page_request.person.user
    places.check(user)

    async def make(send: Send) -> None:
        async with places.one_of(user):
            await follow(page_request, question, send)

    return HttpResponse(
        body=stream_of(page_request.context.nursery, make),
        content_type=EVENT_STREAM,
        headers=PAGE_HEADERS,
    )


async def show_produce(page_request: PageRequest) -> HttpResponse:
    """Show the form of a new record."""
    name = page_request.value("topic")
    described = (await (await page_request.admin()).describe_topics([name]))[name]
    has_schemas = page_request.context.registry is not None
    lines = [command("produce", name)]
    if has_schemas:
        lines.append(command("produce", name, "--schema", f"{name}-value"))
    return page_request.page(
        "produce.html",
        title=f"Produce to {name}",
        commands=tuple(lines),
        name=name,
        partition_count=described.partition_count,
        formats=formats_of(page_request),
        has_schemas=has_schemas,
    )


async def produce(page_request: PageRequest) -> HttpResponse:
    """Produce one record, and show it."""
    name, form = page_request.value("topic"), page_request.form
    partition = number_of(form, "partition", -1, least=0, most=2**31 - 1)
    headers = headers_of(form.get("headers", ""))
    key, value = await record_part(page_request, "key"), await record_part(page_request, "value")
    with page_request.audited("produce", name):
        producer = await page_request.clients.producer()
        with trio.move_on_after(PRODUCE_TIMEOUT_S) as scope:
            delivery = await producer.send(
                name,
                value,
                key,
                headers=headers,
                partition=None if partition < 0 else partition,
            )
            found = await delivery.wait()
        if scope.cancelled_caught:
            text = f"the cluster did not take the record within {PRODUCE_TIMEOUT_S:.0f} s"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{text}; it may still come")
    query = {"partition": found.partition, "from_": "offset", "offset": found.offset}
    return redirect(path_to("topics", name, "records", **query, limit=1, done="produced"))
