"""Measures how long a polite producer waits beside greedy ones and beside busy processes.

    python -m benchmarks.busy_host --floods 6 --busy 16

Three nodes of each product take turns. A polite producer sends 200 records a second with acks=all.
Floods are producers at full rate, with records of 1 KiB and no linger. Busy processes only compute.
Each node and the polite producer run in sessions of their own, because Linux shares processors
fairly between sessions first (sched_autogroup), as it does between services and containers. Within
one session it shares them between threads: a product with more threads would get more, and a polite
producer beside busy processes would wait for its own turn, which says nothing about a broker.
"""

import argparse
import contextlib
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from confluent_kafka import Producer

from benchmarks.cluster_nodes import PRODUCTS, Nodes, new_name, running_cluster, spread
from benchmarks.latency import percentile
from log_service.client import BlockingAdmin

PARTITIONS = 12
POLITE_BYTES, GREEDY_BYTES = 100, 1_024
POLITE_PAUSE_S = 0.005
DELIVERY_MS = 120_000
LONG_GAP_S = 1.0
FLUSH_S = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """How a polite producer was served. Times are in seconds."""

    acknowledged_count: int
    failed_count: int
    p50: float
    p99: float
    first: float
    """The time from the start of the producer to its first acknowledgement."""
    longest_gap: float
    """The longest time between two acknowledgements."""
    long_gaps: float
    """The time within gaps of more than a second."""
    own_pause: float
    """The longest time in which the producer's own loop did not run, which makes gaps, too."""


def be_polite(bootstrap: str, topic: str, seconds: float) -> None:
    """Send small records at a steady rate, and print a ``Wait`` as JSON."""
    acknowledged: list[tuple[float, float]] = []
    failed_count = 0

    def note(sent: float, error: object, _record: object) -> None:
        nonlocal failed_count
        if error is None:
            acknowledged.append((sent, time.perf_counter()))
        else:
            failed_count += 1

    producer = _producer(bootstrap, **{"enable.idempotence": True})
    began = sent = time.perf_counter()
    own_pause = 0.0
    while sent < began + seconds:
        producer.produce(topic, b"x" * POLITE_BYTES, on_delivery=partial(note, sent))
        producer.poll(POLITE_PAUSE_S)
        now = time.perf_counter()
        own_pause = max(own_pause, now - sent)
        sent = now
    producer.flush(FLUSH_S)
    waits = sorted(end - start for start, end in acknowledged) or [FLUSH_S]
    moments = sorted(end for _, end in acknowledged)
    gaps = [later - earlier for earlier, later in itertools.pairwise(moments)]
    found = Wait(
        acknowledged_count=len(acknowledged),
        failed_count=failed_count,
        p50=percentile(waits, 0.5),
        p99=percentile(waits, 0.99),
        first=min(moments, default=began + FLUSH_S) - began,
        longest_gap=max(gaps, default=FLUSH_S),
        long_gaps=sum(gap for gap in gaps if gap > LONG_GAP_S),
        own_pause=own_pause,
    )
    print(json.dumps(asdict(found)), flush=True)


def be_greedy(bootstrap: str, topic: str, _seconds: float) -> None:
    """Send records as fast as the brokers take them, until killed."""
    producer = _producer(bootstrap)
    while True:
        try:
            producer.produce(topic, b"y" * GREEDY_BYTES)
            producer.poll(0)
        except BufferError:
            producer.poll(0.1)


def be_busy(_bootstrap: str, _topic: str, _seconds: float) -> None:
    """Compute until killed."""
    while True:
        pass


ROLES = {"polite": be_polite, "greedy": be_greedy, "busy": be_busy}


def _producer(bootstrap: str, **more: Any) -> Producer:
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 0,
            "message.timeout.ms": DELIVERY_MS,
            "log_level": 0,
            **more,
        }
    )


def _start(role: str, nodes: Nodes, topic: str, seconds: float) -> "subprocess.Popen[bytes]":
    argv = [sys.executable, "-m", "benchmarks.busy_host", "--be", role]
    argv += ["--bootstrap", nodes.bootstrap, "--topic", topic, "--seconds", str(seconds)]
    return subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=role == "polite"
    )


@contextlib.contextmanager
def _beside(role: str, count: int, nodes: Nodes, topic: str) -> Iterator[None]:
    """Run processes of one role, and kill them at the end."""
    processes = [_start(role, nodes, topic, 0) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def measure(nodes: Nodes, floods: int, busy: int, seconds: float) -> tuple[Wait, float, int]:
    """Return the polite producer's waits, the records/s of floods, and elections of the quorum.

    The floods run for five seconds before the polite producer begins.
    """
    topic = new_name()
    nodes.create_topic(topic, spread(PARTITIONS))
    with BlockingAdmin(nodes.bootstrap) as admin:
        epoch = admin.describe_metadata_quorum().leader_epoch
    with _beside("greedy", floods, nodes, topic), _beside("busy", busy, nodes, topic):
        time.sleep(5)
        before, began = _log_bytes(nodes, topic), time.monotonic()
        polite = _start("polite", nodes, topic, seconds)
        output, _ = polite.communicate(timeout=seconds + FLUSH_S + 60)
        took, after = time.monotonic() - began, _log_bytes(nodes, topic)
    with BlockingAdmin(nodes.bootstrap) as admin:
        elections = admin.describe_metadata_quorum().leader_epoch - epoch
    greedy = (after - before) / GREEDY_BYTES / took
    return Wait(**json.loads(output)), greedy, elections


def _log_bytes(nodes: Nodes, topic: str) -> float:
    """Return the bytes in a replica's log of the topic, on average over the nodes."""
    segments = nodes.directory.glob(f"data*/{topic}-*/*.log")
    return sum(segment.stat().st_size for segment in segments) / len(nodes.addresses)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.busy_host",
        description="How long a polite producer waits on a busy host.",
    )
    parser.add_argument("--products", nargs="+", choices=PRODUCTS.values(), default=None)
    parser.add_argument("--floods", type=int, default=6)
    parser.add_argument("--busy", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=1)
    for name in ("be", "bootstrap", "topic"):
        parser.add_argument(f"--{name}", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.be:
        ROLES[given.be](given.bootstrap, given.topic, given.seconds)
        return
    for round_number in range(given.rounds):
        for product in given.products or PRODUCTS.values():
            with running_cluster(product) as nodes:
                wait, greedy, elections = measure(nodes, given.floods, given.busy, given.seconds)
            print(
                f"round {round_number + 1}, {product}: p50 {wait.p50:.3f} s, p99 {wait.p99:.2f} s,"
                f" first {wait.first:.2f} s, longest gap {wait.longest_gap:.2f} s,"
                f" in gaps over 1 s {wait.long_gaps:.1f} s, own pause {wait.own_pause:.2f} s,"
                f" acknowledged {wait.acknowledged_count}, failed {wait.failed_count};"
                f" greedy {greedy:,.0f} records/s; quorum elections {elections}",
                flush=True,
            )


if __name__ == "__main__":
    main()
