"""Measures the cost of schema validation: produce to a topic with it, and to one without.

Both topics are on one broker and are measured by turns, ``TURNS`` times in a round. The cost is the
additional work of the broker for the topic with validation, in per cent. A small server stands for
the schema registry, because the broker asks it once. Apache Kafka has no such validation.
"""

import contextlib
import json
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.broker_process import ERRORS_ONLY, BrokerProcess, tidelog_in, touch_memory
from benchmarks.guarded import Taken, cost_rows
from benchmarks.measured import Asked
from benchmarks.produce import produce_values
from benchmarks.rounds import Bench, Sides
from benchmarks.table import OURS, Row

TURNS = 3
VALUE_BYTES, COUNT = 100, 1_500_000
CODECS = ("none", "lz4")
VALIDATED = {"confluent.value.schema.validation": "true"}
WITHOUT, WITH = "plain", "validated"


class OneSchema(BaseHTTPRequestHandler):
    """Responds that the schema with id 0, which values of zeros name, is registered."""

    def do_GET(self) -> None:
        content = json.dumps([f"{WITH}-value"]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_arguments: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def one_schema() -> Iterator[str]:
    """Run the stand-in of a registry, and yield its URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), OneSchema) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def topics(address: str) -> Iterator[tuple[str, str]]:
    """Create the topic without validation and the one with it, and delete them afterwards."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": ERRORS_ONLY})
    wanted = [NewTopic(WITHOUT, 1, 1), NewTopic(WITH, 1, 1, config=VALIDATED)]
    for created in admin.create_topics(wanted).values():
        created.result(timeout=30)
    try:
        yield WITHOUT, WITH
    finally:
        for deleted in admin.delete_topics([WITHOUT, WITH]).values():
            deleted.result(timeout=30)


def take(broker: BrokerProcess, topic: str, codec: str, count: int) -> Taken:
    """Produce to a topic once."""
    touch_memory(int(VALUE_BYTES * count * 1.3))
    cpu_before = broker.cpu_s()
    seconds = produce_values(broker.address, topic, VALUE_BYTES, count, compression_type=codec)
    return Taken(per_s=count / seconds, cpu_us_each=(broker.cpu_s() - cpu_before) / count * 1e6)


def measure(broker: BrokerProcess, bench: Asked) -> list[Row]:
    """Measure one round."""
    rows: list[Row] = []
    count = bench.count(COUNT, at_least=10_000)
    for codec in CODECS:
        taken: tuple[list[Taken], list[Taken]] = ([], [])
        for turn in range(TURNS):
            with topics(broker.address) as both:
                for which in (1, 0) if turn % 2 else (0, 1):
                    taken[which].append(take(broker, both[which], codec, count))
        name = f"produce {VALUE_BYTES} B, {codec}"
        for kind, found in zip(("no validation", "validation"), taken, strict=True):
            rounds = tuple(each.mb_per_s(VALUE_BYTES) for each in found)
            rows.append(Row(figure=f"{name}, {kind}", unit="MB/s", rounds=rounds))
        rows += cost_rows(name, *taken, of="schema validation")
    return rows


@contextlib.contextmanager
def schema_validation(bench: Bench) -> Iterator[Sides]:
    """Keep a broker with a registry from round to round."""
    bench.stop_brokers()
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory, one_schema() as url:
        prepared = tidelog_in(Path(directory), confluent_schema_registry_url=url)
        with prepared.running() as broker:
            measure(broker, bench.at_scale(1 / 10))
            yield Sides(measures={OURS: partial(measure, broker, bench)})
