"""Measures version 1 of the REST proxy: writes, writes with a key, and streams to many readers.

The peer is our own client, which a program in Python would use instead. The HTTP clients are
written by hand, because a library would take more of the processor than the proxy. A stream is
written at a fixed rate, and its figure is the part of it that each of the readers gets in time.
"""

import contextlib
import json
import selectors
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.broker_process import BenchmarkError, BrokerProcess, cpu_s
from benchmarks.registry import CONNECTIONS, Frames, Served
from benchmarks.rounds import Bench, Sides
from benchmarks.table import OURS, Row
from log_service.client import BlockingAdmin, BlockingProducer, NewTopic

CLIENT = "our client"
TOPIC, STREAMED = "written", "streamed"
VALUE = {"customer": "ann", "amount": 17, "note": "x" * 100}
WRITES, SAMPLES, KEYED, LONG = 10_000, 2_000, 100, 100_000
READERS, RATE, STREAM_S, GRACE_S = 100, 5_000, 10, 20.0


@contextlib.contextmanager
def rest(bench: Bench) -> Iterator[Sides]:
    """Start a broker and a proxy, and yield both sides."""
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelog-rest-")))
        broker: BrokerProcess = stack.enter_context(bench.kinds[OURS](directory).running())
        with BlockingAdmin(broker.address) as admin:
            names = (TOPIC, STREAMED)
            admin.create_topics([NewTopic(name=name, partition_count=1) for name in names])
        served = stack.enter_context(RestServed.running(broker.address, directory))
        keys = count(1)
        yield Sides(
            measures={
                OURS: partial(_measure, served, broker.address, bench, keys),
                CLIENT: partial(_measure_client, broker.address, bench),
            },
            peer=CLIENT,
        )


class RestServed(Served):
    """A proxy in a process of its own."""

    kind = "rest"
    servers_key = "bootstrap.servers"
    first_requests = (("GET", "/readyz", ""),)
    media_type = "application/x-ndjson"


def _measure(served: Served, bootstrap: str, bench: Bench, keys: Iterator[int]) -> list[Row]:
    """Measure one round of the proxy."""
    writes = bench.count(WRITES, at_least=100)
    path, body = f"/v1/topics/{TOPIC}/records", json.dumps({"value": VALUE})
    frame = served.frame("POST", path, body)
    frames: Frames = lambda _number: frame  # noqa: E731
    before = cpu_s(served.process)
    seconds = served.ask(frames, 0, writes)
    cpu_us = (cpu_s(served.process) - before) * 1e6 / writes
    head, _, content = frame.partition(b"\r\n\r\n")
    keyed: Frames = lambda _number: (  # noqa: E731
        head + f"\r\nIdempotency-Key: {next(keys)}\r\n\r\n".encode() + content
    )
    return [
        Row(figure="write of one record, 8 clients", unit="/s", rounds=(writes / seconds,)),
        Row(figure="  CPU of the proxy for one write", unit="us", rounds=(cpu_us,)),
        _p99("write of one record", served.times(frames, bench.count(SAMPLES, at_least=50))),
        _p99("write with a key", served.times(keyed, bench.count(KEYED, at_least=20))),
        _long_write(served, path, body, bench.count(LONG, at_least=1_000)),
        *_stream(served, bootstrap, bench.count(STREAM_S, at_least=2)),
    ]


def _long_write(served: Served, path: str, body: str, record_count: int) -> Row:
    """Measure one request with many records, whose response has a line for each."""
    frame = served.frame("POST", path, f"{body}\n" * record_count)
    began, line_count = time.perf_counter(), 0
    address = ("127.0.0.1", served.port)
    with (
        socket.create_connection(address, timeout=60) as connection,
        ThreadPoolExecutor(1) as threads,
    ):
        sending = threads.submit(connection.sendall, frame)
        while line_count < record_count:
            received = connection.recv(1 << 20)
            if not received:
                raise BenchmarkError("the proxy closed the connection")
            line_count += received.count(b'"offset":')
        sending.result()
    rate = record_count / (time.perf_counter() - began)
    return Row(figure="records of one long write", unit="/s", rounds=(rate,))


def _stream(served: Served, bootstrap: str, seconds: int) -> list[Row]:
    """Write at a fixed rate, and count what the readers of streams get."""
    total = RATE * seconds
    target = f"/v1/topics/{STREAMED}/records?follow=true&from=latest&format=sse"
    ask = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(READERS):
            address = ("127.0.0.1", served.port)
            reader = stack.enter_context(socket.create_connection(address, timeout=60))
            reader.sendall(ask)
            while b"retry:" not in reader.recv(65_536):
                pass  # the stream has not begun
            selector.register(reader, selectors.EVENT_READ)
        time.sleep(2)  # the consumers of all streams are at the end of the topic
        threads = stack.enter_context(ThreadPoolExecutor(1))
        before, began = cpu_s(served.process), time.perf_counter()
        threads.submit(_write_at_rate, bootstrap, total)
        in_time, found = _received(selector, total * READERS, began, seconds)
        cpu_us = (cpu_s(served.process) - before) * 1e6 / found
        rate = found / (time.perf_counter() - began)
    return [
        Row(
            figure=f"records of {RATE} a second that {READERS} readers get in time",
            unit="%",
            rounds=(in_time / (total * READERS) * 100,),
        ),
        Row(
            figure=f"  records to {READERS} readers together",
            unit="/s",
            rounds=(rate,),
        ),
        Row(figure="  CPU of the proxy for one record to one", unit="us", rounds=(cpu_us,)),
    ]


def _received(
    selector: selectors.BaseSelector, wanted: int, began: float, seconds: int
) -> tuple[int, int]:
    """Return the records that came while they were written, and those until a while later."""
    found = in_time = 0
    now_s = 0.0
    while found < wanted and now_s < seconds + GRACE_S:
        for key, _ in selector.select(1):
            found += key.fileobj.recv(1 << 20).count(b"data: ")  # type: ignore[union-attr]
        now_s = time.perf_counter() - began
        in_time = found if now_s <= seconds + 1 else in_time
    return in_time, found


def _write_at_rate(bootstrap: str, total: int) -> None:
    value, began = json.dumps(VALUE).encode(), time.perf_counter()
    with BlockingProducer(bootstrap) as producer:
        for number in range(total):
            due_s = number / RATE - (time.perf_counter() - began)
            if due_s > 0.01:
                time.sleep(due_s)
            producer.send(STREAMED, value)
        producer.flush()


def _measure_client(bootstrap: str, bench: Bench) -> list[Row]:
    """Measure the same writes by our client."""
    value = json.dumps(VALUE, separators=(",", ":")).encode()
    writes = bench.count(WRITES, at_least=100)
    with BlockingProducer(bootstrap) as producer:

        def write(_number: int) -> None:
            producer.send(TOPIC, value).wait()

        write(0)
        with ThreadPoolExecutor(CONNECTIONS) as threads:
            seconds = _seconds_of(lambda: list(threads.map(write, range(writes))))
        times = [
            _seconds_of(partial(write, each)) for each in range(bench.count(SAMPLES, at_least=50))
        ]
        long = bench.count(LONG, at_least=1_000)

        def write_all() -> None:
            for _ in range(long):
                producer.send(TOPIC, value)
            producer.flush()

        long_s = _seconds_of(write_all)
    return [
        Row(figure="write of one record, 8 clients", unit="/s", rounds=(writes / seconds,)),
        _p99("write of one record", sorted(times)),
        Row(figure="records of one long write", unit="/s", rounds=(long / long_s,)),
    ]


def _seconds_of(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _p99(figure: str, times_s: list[float]) -> Row:
    p99_ms = times_s[len(times_s) * 99 // 100] * 1_000
    return Row(figure=f"  p99 of a {figure}, one at a time", unit="ms", rounds=(p99_ms,))
