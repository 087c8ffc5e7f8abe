"""Streams of records over a real node: where they begin, go on and end, and slow readers."""

import contextlib
import json
import re
import signal
import socket
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from log_service.client import BlockingAdmin, BlockingProducer, NewTopic
from tests.helpers.broker_process import BrokerProcess
from tests.helpers.rest_process import RestProcess
from tests.integration.http.event_reader import events_of

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def topic(bootstrap: str, request: pytest.FixtureRequest) -> str:
    """A topic of this test alone, with two partitions."""
    plain = re.sub(r"[^-\w.]", "-", request.node.name)[:200]
    name = f"{plain}-{uuid4().hex[:8]}"
    with BlockingAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(name=name, partition_count=2)])
    return name


def write(bootstrap: str, topic: str, values: Iterable[object], partition: int = 0) -> None:
    """Write records with JSON values."""
    with BlockingProducer(bootstrap) as producer:
        for value in values:
            producer.send(topic, json.dumps(value).encode(), b"k", partition=partition)
        producer.flush()


def lines(response: httpx.Response) -> list[dict[str, Any]]:
    """Return the lines of a stream that has ended."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in response.text.splitlines() if line]


def test_records_come_with_their_places_and_the_end_says_where_to_go_on(
    bootstrap: str, client: httpx.Client, topic: str
) -> None:
    write(bootstrap, topic, [{"n": n} for n in range(5)])
    write(bootstrap, topic, [{"n": 10}], partition=1)
    *records, last = lines(client.get(f"/v1/topics/{topic}/records"))
    assert sorted((each["partition"], each["offset"]) for each in records) == [
        *((0, n) for n in range(5)),
        (1, 0),
    ]
    assert {each["value_type"] for each in records} == {"json"}
    assert last["end"]["reason"] == "caught_up"
    assert last["end"]["next"] == "0:5,1:1"
    write(bootstrap, topic, [{"n": 99}])
    more = lines(client.get(f"/v1/topics/{topic}/records", params={"from": last["end"]["next"]}))
    assert [each["value"] for each in more[:-1]] == [{"n": 99}]


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ({"from": "3"}, [3, 4]),
        ({"from": "0:4"}, [4]),
        ({"from": "latest"}, []),
        ({"from": "1971-01-01"}, [0, 1, 2, 3, 4]),
        ({"from": "2400-01-01"}, []),
        ({"limit": "2"}, [0, 1]),
        ({"filter": "value.n = 3"}, [3]),
        ({"partitions": "1"}, []),
    ],
)
def test_the_query_chooses_the_records(
    bootstrap: str, client: httpx.Client, topic: str, query: dict[str, str], numbers: list[int]
) -> None:
    write(bootstrap, topic, [{"n": n} for n in range(5)])
    *sent, last = lines(client.get(f"/v1/topics/{topic}/records", params=query))
    assert [each["value"]["n"] for each in sent if "gap" not in each] == numbers
    assert last["end"]["reason"] == ("limit" if "limit" in query else "caught_up")


def test_bytes_are_shown_as_they_are_asked_for(
    bootstrap: str, client: httpx.Client, topic: str
) -> None:
    write(bootstrap, topic, [7])
    found = [
        lines(client.get(f"/v1/topics/{topic}/records", params={"encoding": name}))[0]["value"]
        for name in ("auto", "json", "string", "binary")
    ]
    assert found == [7, 7, "7", "Nw=="]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("no-such-topic/records", 404, "not found"),
        ("{topic}/records?partitions=9", 404, "Partition 9"),
        ("{topic}/records?from=newest", 422, "earliest"),
        ("{topic}/records?filter=nonsense", 400, "filter"),
    ],
)
def test_a_wrong_question_is_refused_before_the_stream(
    client: httpx.Client, topic: str, path: str, status: int, words: str
) -> None:
    response = client.get(f"/v1/topics/{path.format(topic=topic)}")
    assert response.status_code == status
    assert words in response.json()["message"]


def test_a_reader_of_events_misses_and_repeats_nothing(
    bootstrap: str, client: httpx.Client, topic: str
) -> None:
    """It reconnects after each few records, as a browser does."""
    write(bootstrap, topic, range(20))
    write(bootstrap, topic, range(100, 120), partition=1)
    seen, last_id = list[int](), ""
    while len(seen) < 40:
        headers = {"accept": "text/event-stream", "last-event-id": last_id}
        query = {"follow": "true", "from": "earliest"}
        with client.stream(
            "GET", f"/v1/topics/{topic}/records", params=query, headers=headers
        ) as response:
            assert response.headers["content-type"] == "text/event-stream"
            for _, event in zip(range(7), events_of(response.iter_raw()), strict=False):
                assert event.kind == "message"
                seen.append(event.json()["value"])
                last_id = event.last_id
                if len(seen) == 40:
                    break
    assert sorted(seen) == [*range(20), *range(100, 120)]


def test_a_stream_that_follows_gets_new_records_and_new_partitions(
    bootstrap: str, client: httpx.Client, topic: str
) -> None:
    with client.stream(
        "GET", f"/v1/topics/{topic}/records", params={"follow": "1", "format": "sse", "limit": "2"}
    ) as response:
        write(bootstrap, topic, ["first"])
        events = events_of(response.iter_raw())
        assert next(events).json()["value"] == "first"
        with BlockingAdmin(bootstrap) as admin:
            admin.create_partitions({topic: 3})
        write(bootstrap, topic, ["second"], partition=2)
        assert next(events).json()["partition"] == 2
        last = next(events)
    assert (last.kind, last.json()["reason"]) == ("end", "limit")


def test_a_deleted_topic_ends_its_streams(bootstrap: str, client: httpx.Client, topic: str) -> None:
    with client.stream(
        "GET", f"/v1/topics/{topic}/records", params={"follow": "true", "format": "sse"}
    ) as response:
        events = events_of(response.iter_raw())
        write(bootstrap, topic, [1])
        assert next(events).json()["value"] == 1
        with BlockingAdmin(bootstrap) as admin:
            admin.delete_topics([topic])
        last = next(events)
    assert (last.kind, last.json()["reason"]) == ("end", "topic_deleted")


def test_a_topic_that_is_created_anew_is_another_one(
    bootstrap: str, client: httpx.Client, topic: str
) -> None:
    """No record of it comes, although the stream's position is in it, too."""
    query = {"follow": "true", "from": "earliest"}
    with client.stream("GET", f"/v1/topics/{topic}/records", params=query) as response:
        found = response.iter_lines()
        write(bootstrap, topic, ["old"])
        assert json.loads(next(found))["value"] == "old"
        with BlockingAdmin(bootstrap) as admin:
            admin.delete_topics([topic])
            admin.create_topics([NewTopic(name=topic, partition_count=2)])
        write(bootstrap, topic, ["new"] * 3)
        (last,) = [json.loads(line) for line in found if line]
    assert last["end"]["reason"] in {"topic_deleted", "offset_out_of_range"}


def test_a_proxy_that_stops_says_so_to_its_readers(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    write(bootstrap, topic, [1])
    with (
        RestProcess(tmp_path, bootstrap) as own,
        httpx.stream(
            "GET",
            f"{own.url}/v1/topics/{topic}/records",
            params={"follow": "true", "from": "earliest"},
            timeout=60,
        ) as response,
    ):
        found = response.iter_lines()
        assert json.loads(next(found))["value"] == 1
        own.send(signal.SIGTERM)
        last = json.loads(next(found))
        assert last["end"]["reason"] == "stopping"
        assert last["end"]["next"] == "0:1,1:0"
        assert list(found) == []


def test_a_proxy_has_a_bound_of_streams(bootstrap: str, topic: str, tmp_path: Path) -> None:
    with (
        RestProcess(tmp_path, bootstrap, **{"streams.max": "2"}) as own,
        httpx.Client(base_url=own.url, timeout=60) as client,
        contextlib.ExitStack() as stack,
    ):
        path = f"/v1/topics/{topic}/records"
        for _ in range(2):
            opened = stack.enter_context(
                client.stream("GET", path, params={"follow": "true", "format": "sse"})
            )
            next(opened.iter_raw())  # the proxy asks browsers to come back
        refused = client.get(path)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 0
    assert "streams.max" in refused.json()["message"]


def test_a_slow_reader_holds_back_itself_alone(
    bootstrap: str, proxy: RestProcess, client: httpx.Client, topic: str
) -> None:
    """It takes a sixth of 30 MB while another gets all, and then gets each record once."""
    target, content = f"/v1/topics/{topic}/records", bytearray()
    values = [f"{number} " + "x" * 100_000 for number in range(300)]
    writer = threading.Thread(target=write, args=(bootstrap, topic, values))
    host, _, port = proxy.url.rpartition("/")[2].partition(":")
    with (
        socket.create_connection((host, int(port)), timeout=60) as slow,
        client.stream("GET", target, params={"follow": "true", "limit": "300"}) as fast,
    ):
        query = "follow=true&limit=300&from=earliest"
        slow.sendall(f"GET {target}?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        writer.start()
        for number, line in enumerate(filter(None, fast.iter_lines())):
            assert json.loads(line).get("offset") == (number if number < 300 else None)
            if not number % 4:
                content += slow.recv(64 << 10)  # enough that the proxy does not cut it off
        writer.join()
        assert len(lines(client.get(target))) == 301
        while not content.endswith(b"\r\n0\r\n\r\n"):
            received = slow.recv(1 << 20)
            assert received, "the proxy closed the connection"
            content += received
    numbers = re.findall(rb'"value": "(\d+) ', re.sub(rb"\r\n[0-9a-f]+\r\n", b"", content))
    assert numbers == [b"%d" % number for number in range(300)]


def test_streams_that_ask_for_the_same_share_a_reader(bootstrap: str, tmp_path: Path) -> None:
    """Wherever they begin, each gets each of its records once, in order."""
    starts = ["earliest", "latest", "0:250", "0:990", "1970-01-01", "earliest"] * 4
    read = dict[int, list[int]]()

    def follow(number: int, start: str) -> None:
        kind = ("sse", "ndjson")[number % 2]
        count = 1_000 if start == "latest" else 2_000 - int(start[2:] if start[1] == ":" else 0)
        query = {"follow": "true", "from": start, "format": kind, "limit": str(count)}
        with own.stream("GET", "/v1/topics/t/records", params=query) as response:
            begun.release()
            if kind == "sse":
                found = [each.json() for each in events_of(response.iter_raw())]
            else:
                found = [json.loads(line) for line in response.iter_lines() if line]
        read[number] = [2_000 - count, *(each["offset"] for each in found[:-1])]

    begun = threading.Semaphore(0)
    with (
        BrokerProcess(tmp_path / "broker") as broker,
        BlockingAdmin(broker.bootstrap) as admin,
        RestProcess(tmp_path, broker.bootstrap) as running,
        httpx.Client(base_url=running.url, timeout=60, limits=httpx.Limits()) as own,
    ):
        admin.create_topics([NewTopic(name="t", partition_count=1)])
        write(broker.bootstrap, "t", range(1_000))
        threads = [threading.Thread(target=follow, args=each) for each in enumerate(starts)]
        for each in threads:
            each.start()
        for _ in threads:
            begun.acquire()
        write(broker.bootstrap, "t", range(1_000))
        for each in threads:
            each.join()
        assert "tidelog_rest_stream_readers 0\n" in own.get("/metrics").text
        target = "/v1/topics/t/records?follow=true&format=sse"
        with own.stream("GET", target) as one, own.stream("GET", target) as other:
            write(broker.bootstrap, "t", [1])
            assert {next(events_of(each.iter_raw())).data for each in (one, other)}
            assert "tidelog_rest_stream_readers 1\n" in own.get("/metrics").text
    for offsets in read.values():
        assert offsets[1:] == list(range(offsets[0], 2_000))
    assert len(read) == len(starts)


def test_uncommitted_records_are_for_those_who_ask(
    tmp_path: Path,
) -> None:
    """An open transaction holds the stream back, and an aborted one is skipped."""
    with (
        BrokerProcess(tmp_path / "broker") as broker,
        RestProcess(tmp_path, broker.bootstrap) as own,
        httpx.Client(base_url=own.url, timeout=60) as client,
        BlockingAdmin(broker.bootstrap) as admin,
        BlockingProducer(broker.bootstrap, transactional_id="t") as producer,
    ):
        admin.create_topics([NewTopic(name="t", partition_count=1)])
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"1").wait()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("t", b"2").wait()
        producer.commit_transaction()
        found = [
            [each["value"] for each in lines(client.get("/v1/topics/t/records", params=query))[:-1]]
            for query in ({}, {"isolation": "read_uncommitted"})
        ]
    assert found == [[2], [1, 2]]
