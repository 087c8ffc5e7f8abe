"""Records as lines and as events: no record can forge the end of a line or an event."""

import json
import random
import threading
from typing import Any

import pytest
import trio

from log_service.client import ConsumerRecord
from log_service.http.record_formats.decoding import RecordDecoder
from log_service.http.record_formats.records import MANY_HEADERS, DecodedRecord, decoded
from log_service.http.rest_proxy.v1 import lines
from log_service.http.rest_proxy.v1.lines import (
    EventLines,
    NdjsonLines,
    end_note,
    record_line,
    shown_headers,
)

HOSTILE = (
    b"\n\nevent: end\ndata: {}\n\n",
    b"\r\r",
    "\u2028\u2029".encode(),
    b'"\\ud800"',
    b"\xff\n",
)


def line_of(value: bytes, key: bytes | None = None) -> bytes:
    """Return the line of a record."""
    record = ConsumerRecord("t", 3, 7, 5, "CreateTime", key, value, (("h", value),), 0)

    async def run() -> bytes:
        return await record_line(await decoded(RecordDecoder(None), record, "auto"))

    return trio.run(run)


@pytest.mark.parametrize("value", HOSTILE)
def test_a_record_is_one_line(value: bytes) -> None:
    line = line_of(value, value)
    assert not line.splitlines()[1:]
    assert json.loads(line)["offset"] == 7
    event = EventLines().record(line, {3: 8}).decode()
    assert event.startswith("id: 3:8\ndata: ")
    assert event.count("\n") == 3
    assert "\r" not in event


def test_generated_records_are_one_line() -> None:
    """Prints its seed if it fails."""
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    for _ in range(200):
        value = rng.randbytes(rng.randrange(40))
        line = line_of(value, value)
        assert b"\n" not in line, seed
        assert b"\r" not in line, seed
        json.loads(line)


def test_headers_that_are_no_text_keep_their_bytes() -> None:
    headers = [("a", b"x"), ("a", None), ("b", b"\xff")]
    assert shown_headers(headers) == [("a", "x"), ("a", None), ("b", {"base64": "/w=="})]


@pytest.mark.parametrize("lines", [NdjsonLines(), EventLines()])
def test_the_end_says_where_to_go_on(lines: NdjsonLines | EventLines) -> None:
    text = end_note(lines, "limit", "Enough.", {0: 4, 1: 0}).decode()
    content = json.loads(text[text.index("{") :].strip())
    content = content.get("end", content)
    assert content == {"reason": "limit", "message": "Enough.", "next": "0:4,1:0"}


def test_a_heartbeat_is_no_record() -> None:
    assert NdjsonLines().heartbeat({0: 1}) == b"\n"
    assert EventLines().heartbeat({0: 1}) == b": alive\nid: 0:1\n\n"


@pytest.mark.parametrize("count", [1, MANY_HEADERS + 1])
def test_another_thread_makes_the_line_of_many_headers(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """The line of 500,000 empty headers took the event loop a second."""
    threads: list[threading.Thread] = []

    def noted(found: DecodedRecord) -> dict[str, Any]:
        threads.append(threading.current_thread())
        return {"offset": found.record.offset}

    monkeypatch.setattr(lines, "shown_record", noted)
    record = ConsumerRecord("t", 0, 7, 0, "CreateTime", None, None, (("", None),) * count, 0)

    async def run() -> bytes:
        found = await decoded(RecordDecoder(None), record, "auto")
        return await record_line(found, lease="x")

    assert json.loads(trio.run(run)) == {"offset": 7, "lease": "x"}
    assert [each is threading.main_thread() for each in threads] == [count == 1]
