"""Counts the instructions of a node's operations, of two checkouts side by side.

    python -m benchmarks.instructions --against DIRECTORY

A node of each checkout runs under valgrind's callgrind, which counts every instruction that the
process executes outside the kernel. One client asks for the same thing again and again. The counts
hardly depend on how busy the machine is, where seconds of CPU swing by a third. They leave out the
kernel and the caches. Memory is read from a node without valgrind.

Each operation is done some times before it is counted, because codecs are compiled and handlers
imported then. It is counted in several windows, of which the least counts, because timers of the
node, such as checkpoints, fall into the others.

``--with KEY=VALUE ...`` gives properties to the node of this checkout alone. ``--authorizer``
counts this checkout without an authorizer and with one, and tells of each operation whether the
authorizer costs it at most ``MAX_COST_PERCENT``.
"""

import argparse
import compileall
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Self
from uuid import UUID, uuid4

import psutil

import log_service
from benchmarks.broker_process import BenchmarkError, free_port, write_properties
from benchmarks.guarded import MAX_COST_PERCENT
from benchmarks.partitions import create_topics, fill, topic_names
from benchmarks.secure_brokers import AUTHORIZER
from benchmarks.wire import Wire, frame_of
from log_service.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from log_service.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from log_service.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from log_service.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from log_service.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from log_service.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from log_service.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from log_service.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from log_service.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from log_service.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from log_service.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from log_service.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from log_service.protocol.schema import Message
from log_service.records.builder import BatchBuilder

ONE, MANY = "one", "many"
"""The topics, with one partition and with a hundred."""
MANY_COUNT = 100
GROUP = "group"
TRANSACTIONAL_ID = "writer"
OF_GROUP, OF_TRANSACTION = 0, 1
"""The kinds of coordinators."""
TRANSACTION_MS = 900_000
SESSION_MS = 1_800_000
"""The members' session timeout. It is long, because the counted node is fifty times slower."""
TOPIC_CONFIG = 2
PARK_S = 0.05
"""The time a fetch gets until it waits for records."""
MARKING_S = 0.4
"""The time of rest after which a counted node's transaction is taken for complete."""
START_S, SETTLE_S, RESTING_S = 3_600.0, 2.0, 0.1
COUNTED = ("valgrind", "--tool=callgrind")
UNCOUNTED = (*COUNTED, "--instr-atstart=no")
"""Arguments of a node that counts nothing yet, and so is several times as fast."""
WINDOWS = 8
MEGABYTES = ", MB"
"""The ending of the names of memory figures."""
CLIENT_COUNT = 16
"""The number of clients that send at once.

Their requests share the turns of the event loop, as under load.
"""
QUIET = {
    "offsets_topic_num_partitions": "4",
    "group_max_session_timeout_ms": str(SESSION_MS),
    "broker_heartbeat_interval_ms": "300000",
    "broker_session_timeout_ms": "900000",
    "replica_high_watermark_checkpoint_interval_ms": str(SESSION_MS),
    "log_flush_offset_checkpoint_interval_ms": str(SESSION_MS),
    "log_flush_start_offset_checkpoint_interval_ms": str(SESSION_MS),
    "log_retention_check_interval_ms": str(SESSION_MS),
    "log_cleaner_enable": "false",
}
"""Properties that put off the node's own work, as far as properties can."""
TOTALS = re.compile(rb"^(?:totals|summary): (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A counted checkout: the sources in a directory, and more properties of the node.

    The node has ``QUIET`` beside them.
    """

    sources: Path
    properties: Mapping[str, str]

    def __str__(self) -> str:
        return (
            f"{self.sources}{''.join(f' {name}={text}' for name, text in self.properties.items())}"
        )


class Counted:
    """A node of a checkout, in an empty directory or in that of an earlier node."""

    def __init__(
        self, checkout: "Checkout", directory: Path, *, valgrind: Sequence[str] = ()
    ) -> None:
        sources = checkout.sources
        compileall.compile_dir(sources / "log_service", quiet=1)
        self.address = f"127.0.0.1:{free_port()}"
        self._directory = directory
        self._profile = directory / "callgrind"
        properties = write_properties(directory, self.address, **QUIET, **checkout.properties)
        counting = [*valgrind, f"--callgrind-out-file={self._profile}"] if valgrind else []
        argv = [*counting, sys.executable, "-m", "log_service.cli.main", "serve", str(properties)]
        environment = {**os.environ, "PYTHONPATH": str(sources), "PYTHONHASHSEED": "0"}
        with (directory / "output.txt").open("wb") as output:
            self.process = psutil.Popen(
                argv, cwd=sources, env=environment, stdout=output, stderr=output
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):  # it may have stopped in order
            self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Stop the node in order."""
        self.process.terminate()
        self.process.wait(START_S)

    def connect(self) -> Wire:
        """Return a connection, as soon as the node listens.

        Raises:
            BenchmarkError: it did not start.
        """
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError):
                return Wire(self.address)
            time.sleep(0.05)
        raise BenchmarkError(
            f"the node did not start:\n{(self._directory / 'output.txt').read_text()[-2000:]}"
        )

    def begin_to_count(self) -> None:
        """Count from now on, in a node that began ``UNCOUNTED``."""
        subprocess.run(
            ["callgrind_control", "--instr=on", str(self.process.pid)],
            check=True,
            capture_output=True,
        )

    def executed(self) -> int:
        """Return the number of instructions since the last call."""
        for old in self._directory.glob("callgrind.*"):
            old.unlink()
        subprocess.run(
            ["callgrind_control", "--dump", str(self.process.pid)], check=True, capture_output=True
        )
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            for path in self._directory.glob("callgrind.*"):
                if found := TOTALS.search(path.read_bytes()):
                    return int(found[1])
            time.sleep(0.05)
        raise BenchmarkError("callgrind wrote no counts")

    def settle(self, pause_s: float = SETTLE_S) -> None:
        """Wait until the process rests.

        After a start it imports and compiles for a while in the background.
        """
        spent, least_s = -1.0, RESTING_S * pause_s / SETTLE_S
        while (now := sum(self.process.cpu_times()[:2])) > spent + least_s:
            spent = now
            time.sleep(pause_s)

    def rss_bytes(self) -> int:
        """Return the memory of a node that runs without valgrind."""
        return int(self.process.memory_info().rss)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A counted operation. ``do`` does it once and returns the response."""

    count: int
    do: Callable[[], object]


class Session:
    """The requests of one client to a node."""

    def __init__(self, node: Counted, topic_ids: Mapping[str, UUID]) -> None:
        self._node = node
        self._wire, self._waiting = node.connect(), node.connect()
        self._beside = [node.connect() for _ in range(CLIENT_COUNT)]
        self._ids = topic_ids
        self._member_id, self._generation_id = self._join()
        self._next_offset = self._produce(9).responses[0].partition_responses[0].base_offset + 1
        self._produce(9, MANY, MANY_COUNT)
        self._serial = 0
        self._producer = self._init_producer()

    def operations(self) -> dict[str, Operation]:
        """Return all counted operations."""
        return {
            "ApiVersions": Operation(count=96, do=self._api_versions),
            "produce of one record, again and again": Operation(
                count=96, do=lambda: self._produce(9)
            ),
            f"produce of one record by each of {CLIENT_COUNT} clients": Operation(
                count=40, do=lambda: self._by_each(produce_request(ONE, 1), 9, ProduceResponse)
            ),
            f"fetch of 1 partition by each of {CLIENT_COUNT} clients": Operation(
                count=40,
                do=lambda: self._by_each(self._fetch_request(ONE, 1, 0), 13, FetchResponse),
            ),
            "produce of one record, version 8": Operation(count=96, do=lambda: self._produce(8)),
            "produce to 100 partitions": Operation(
                count=40, do=lambda: self._produce(9, MANY, MANY_COUNT)
            ),
            "fetch of 1 partition": Operation(count=96, do=lambda: self._fetch(ONE, 1)),
            "fetch of 100 partitions": Operation(
                count=40, do=lambda: self._fetch(MANY, MANY_COUNT)
            ),
            "fetch that waits, and the produce that ends it": Operation(
                count=96, do=self._fetch_that_waits
            ),
            "metadata of a topic": Operation(count=96, do=self._metadata),
            "offset commit": Operation(count=96, do=self._commit),
            "transaction over 1 partition, until it is complete": Operation(
                count=40, do=lambda: self._transaction(ONE, 1)
            ),
            "transaction over 100 partitions, until it is complete": Operation(
                count=16, do=lambda: self._transaction(MANY, MANY_COUNT)
            ),
            "heartbeat of a member": Operation(count=96, do=self._heartbeat),
            "heartbeat that is refused": Operation(count=96, do=self._refused_heartbeat),
            "create topic": Operation(count=40, do=self._create_topic),
            "config change of a topic (one metadata record)": Operation(
                count=40, do=self._alter_config
            ),
        }

    def _find_coordinator(self, key: str, key_type: int) -> None:
        """Make the node the coordinator of a name, for which it creates the topic first."""
        wanted = FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)
        while self._wire.ask(wanted, 4, FindCoordinatorResponse).coordinators[0].error_code:
            time.sleep(PARK_S)

    def _join(self) -> tuple[str, int]:
        self._find_coordinator(GROUP, OF_GROUP)
        member_id, found = "", JoinGroupResponse(error_code=-1)
        while found.error_code:
            request = JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=SESSION_MS,
                member_id=member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range")],
            )
            found = self._wire.ask(request, 7, JoinGroupResponse)
            member_id = found.member_id
            time.sleep(PARK_S)
        generation_id = found.generation_id
        assignments = [SyncGroupRequestAssignment(member_id=member_id)]
        sync = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation_id,
            member_id=member_id,
            assignments=assignments,
        )
        sync.protocol_type, sync.protocol_name = "consumer", "range"
        self._wire.ask(sync, 5, SyncGroupResponse)
        return member_id, generation_id

    def _api_versions(self) -> ApiVersionsResponse:
        return self._wire.ask(
            ApiVersionsRequest(client_software_name="bench", client_software_version="1"),
            3,
            ApiVersionsResponse,
        )

    def _produce(self, version: int, topic: str = ONE, partition_count: int = 1) -> ProduceResponse:
        return self._wire.ask(produce_request(topic, partition_count), version, ProduceResponse)

    def _by_each(
        self, request: Message, version: int, response_type: type[Message]
    ) -> list[Message]:
        """Send the same request over many connections before the first response is read."""
        frame = frame_of(request, version)
        for wire in self._beside:
            wire.send(frame)
        return [wire.response(request, version, response_type) for wire in self._beside]

    def _fetch_request(self, topic: str, partition_count: int, offset: int) -> FetchRequest:
        partitions = [
            FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=100)
            for number in range(partition_count)
        ]
        return FetchRequest(
            max_wait_ms=60_000,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[FetchTopic(topic_id=self._ids[topic], partitions=partitions)],
        )

    def _fetch(self, topic: str, partition_count: int) -> FetchResponse:
        return self._wire.ask(self._fetch_request(topic, partition_count, 0), 13, FetchResponse)

    def _fetch_that_waits(self) -> ProduceResponse:
        if self._serial == 0:
            self._next_offset = self._produce(9).responses[0].partition_responses[0].base_offset + 1
        self._serial += 1
        self._waiting.send(frame_of(self._fetch_request(ONE, 1, self._next_offset), 13))
        time.sleep(PARK_S)
        produced = self._produce(9)
        self._waiting.receive()
        self._next_offset += 1
        return produced

    def _metadata(self) -> MetadataResponse:
        return self._wire.ask(
            MetadataRequest(topics=[MetadataRequestTopic(name=ONE)]), 12, MetadataResponse
        )

    def _commit(self) -> OffsetCommitResponse:
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self._generation_id,
            member_id=self._member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=ONE, partitions=[OffsetCommitRequestPartition(committed_offset=1)]
                )
            ],
        )
        return self._wire.ask(request, 8, OffsetCommitResponse)

    def _init_producer(self) -> InitProducerIdResponse:
        self._find_coordinator(TRANSACTIONAL_ID, OF_TRANSACTION)
        found = InitProducerIdResponse(error_code=-1)
        while found.error_code:
            request = InitProducerIdRequest(
                transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=TRANSACTION_MS
            )
            found = self._wire.ask(request, 4, InitProducerIdResponse)
            time.sleep(PARK_S)
        return found

    def _transaction(self, topic: str, partition_count: int) -> EndTxnResponse:
        """Commit a transaction that has written nothing.

        Its partitions are announced, and get their markers.
        """
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTIONAL_ID,
            v3_and_below_producer_id=self._producer.producer_id,
            v3_and_below_producer_epoch=self._producer.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=list(range(partition_count)))
            ],
        )
        self._wire.ask(add, 3, AddPartitionsToTxnResponse)
        end = EndTxnRequest(
            transactional_id=TRANSACTIONAL_ID,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.producer_epoch,
            committed=True,
        )
        ended = self._wire.ask(end, 3, EndTxnResponse)
        # Markers are written after the response. A request that asks for them would be counted.
        self._node.settle(MARKING_S)
        return ended

    def _heartbeat(self) -> HeartbeatResponse:
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=self._generation_id, member_id=self._member_id
        )
        return self._wire.ask(request, 4, HeartbeatResponse)

    def _refused_heartbeat(self) -> object:
        response = self._wire.ask(
            HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="absent"),
            4,
            HeartbeatResponse,
        )
        return None if response.error_code else response

    def _create_topic(self) -> CreateTopicsResponse:
        return self._wire.ask(create_request(f"topic-{uuid4().hex}", 1), 7, CreateTopicsResponse)

    def _alter_config(self) -> IncrementalAlterConfigsResponse:
        self._serial += 1
        change = AlterableConfig(name="retention.ms", value=str(1_000_000 + self._serial))
        resource = AlterConfigsResource(
            resource_type=TOPIC_CONFIG, resource_name=ONE, configs=[change]
        )
        return self._wire.ask(
            IncrementalAlterConfigsRequest(resources=[resource]), 1, IncrementalAlterConfigsResponse
        )


def create_request(name: str, partition_count: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=partition_count, replication_factor=1)]
    )


def produce_request(topic: str, partition_count: int) -> ProduceRequest:
    builder = BatchBuilder()
    builder.append(1_700_000_000_000, None, bytes(100))
    records = bytes(builder.build())
    partitions = [
        PartitionProduceData(index=number, records=records) for number in range(partition_count)
    ]
    return ProduceRequest(
        acks=-1,
        timeout_ms=60_000,
        topic_data=[TopicProduceData(name=topic, partition_data=partitions)],
    )


def first_topics(node: Counted) -> dict[str, UUID]:
    """Create the topics, produce a first record, and return the ids."""
    wire = node.connect()
    response = wire.ask(create_request(ONE, 1), 7, CreateTopicsResponse)
    wire.ask(produce_request(ONE, 1), 9, ProduceResponse)
    return {topic.name: topic.topic_id for topic in response.topics}


def refused(response: object) -> bool:
    """Return whether a response carries an error anywhere."""
    if isinstance(response, list):
        return any(map(refused, response))
    if not is_dataclass(response):
        return False
    return bool(getattr(response, "error_code", 0)) or any(
        refused(getattr(response, each.name)) for each in fields(response)
    )


def start_of(checkout: Checkout) -> float:
    """Return the thousands of instructions from the process's start to the first record.

    That record is acknowledged.
    """
    with (
        tempfile.TemporaryDirectory(prefix="instructions-") as directory,
        Counted(checkout, Path(directory), valgrind=COUNTED) as node,
    ):
        first_topics(node)
        return node.executed() / 1e3


def counts_of(checkout: Checkout, wanted: str) -> Iterator[tuple[str, float]]:
    """Yield the thousands of instructions of each operation of a checkout.

    The operations are those whose name contains ``wanted``.
    """
    with (
        tempfile.TemporaryDirectory(prefix="instructions-") as directory,
        Counted(checkout, Path(directory), valgrind=UNCOUNTED) as node,
    ):
        ids = first_topics(node)
        node.settle()
        many = node.connect().ask(create_request(MANY, MANY_COUNT), 7, CreateTopicsResponse)
        session = Session(node, {**ids, MANY: many.topics[0].topic_id})
        node.begin_to_count()
        for name, operation in session.operations().items():
            if wanted not in name:
                continue
            window = range(operation.count // WINDOWS)
            responses = [operation.do() for _ in window]
            counts = []
            for _ in range(WINDOWS):
                node.executed()
                responses += [operation.do() for _ in window]
                counts.append(node.executed())
            yield name, min(counts) / len(window) / 1e3
            if any(map(refused, responses)):
                raise BenchmarkError(f"{name}: the node refused: {responses[-1]}")


def idle_mb(checkout: Checkout) -> float:
    """Return the memory of a node that has taken one record."""
    with (
        tempfile.TemporaryDirectory(prefix="instructions-") as directory,
        Counted(checkout, Path(directory)) as node,
    ):
        first_topics(node)
        node.settle()
        return node.rss_bytes() / 1e6


def restart_of_partitions(checkout: Checkout, partition_count: int) -> tuple[float, float]:
    """Return the cost of a restart with so many partitions.

    That is thousands of instructions, and the memory in MB after a restart.
    """
    topics = topic_names(partition_count)
    with tempfile.TemporaryDirectory(prefix="instructions-") as directory:
        with Counted(checkout, Path(directory)) as node:
            first_topics(node)
            create_topics(node.address, topics)
            fill(node.address, topics)
            node.stop()
        with Counted(checkout, Path(directory)) as node:
            first_topics(node)
            node.settle()
            memory_mb = node.rss_bytes() / 1e6
            node.stop()
        with Counted(checkout, Path(directory), valgrind=COUNTED) as node:
            first_topics(node)
            node.connect().ask(MetadataRequest(topics=None), 12, MetadataResponse)
            return node.executed() / 1e3, memory_mb


def figures(checkout: Checkout, wanted: str, partition_count: int) -> dict[str, float]:
    """Return all figures of a checkout, by their names."""
    found = {}
    if not wanted:
        found["start until the first record is acknowledged"] = start_of(checkout)
    for name, value in counts_of(checkout, wanted):
        found[name] = value
        print(f"{checkout}: {name}: {value:,.1f}", file=sys.stderr, flush=True)
    found[f"idle memory{MEGABYTES}"] = idle_mb(checkout)
    if partition_count:
        name = f"restart with {partition_count:,} partitions"
        found[name], found[f"memory after a {name}{MEGABYTES}"] = restart_of_partitions(
            checkout, partition_count
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.instructions",
        description="Thousands of instructions for each operation.",
    )
    parser.add_argument(
        "--against", type=Path, nargs="*", default=[], help="other checkouts, the oldest first"
    )
    parser.add_argument("--only", default="", help="only operations whose name contains this")
    parser.add_argument(
        "--with",
        dest="properties",
        nargs="*",
        default=[],
        metavar="KEY=VALUE",
        help="properties of this checkout's node alone",
    )
    parser.add_argument(
        "--partitions", type=int, default=0, help="also restart with so many partitions"
    )
    parser.add_argument(
        "--authorizer", action="store_true", help="what an authorizer costs this checkout"
    )
    options = parser.parse_args()
    own = Path(log_service.__file__).parents[1]
    told = dict(text.split("=", 1) for text in options.properties)
    if options.authorizer:
        if options.against or told:
            parser.error(
                "--authorizer compares this checkout with itself: it goes with neither --against"
                " nor --with"
            )
        options.against, told = (
            [own],
            {name.replace("_", "."): text for name, text in AUTHORIZER.items()},
        )
        options.properties = [f"{name}={text}" for name, text in told.items()]
    checkouts = [Checkout(sources=sources.resolve(), properties={}) for sources in options.against]
    checkouts.append(Checkout(sources=own, properties=told))
    columns = [figures(checkout, options.only, options.partitions) for checkout in checkouts]
    names = [
        *(str(sources) for sources in options.against),
        f"this checkout {' '.join(options.properties)}".strip(),
    ]
    print("| thousands of instructions | " + " | ".join(names) + " | last to first |")
    print("| --- |" + " --: |" * (len(names) + 1))
    for figure in columns[-1]:
        values = [column[figure] for column in columns]
        print(
            f"| {figure} | "
            + " | ".join(f"{value:,.1f}" for value in values)
            + f" | {values[-1] / values[0]:.3f} |"
        )
    if options.authorizer:
        print(f"\n{cost_verdict(*columns)}")


def cost_verdict(plain: Mapping[str, float], guarded: Mapping[str, float]) -> str:
    """Return a line that names the operations on which an authorizer costs more than it may.

    It compares all figures without an authorizer and with one, except those of memory.
    """
    costs = {
        name: (guarded[name] / plain[name] - 1) * 100
        for name in guarded
        if not name.endswith(MEGABYTES)
    }
    missed = [f"{name} ({cost:.1f} %)" for name, cost in costs.items() if cost > MAX_COST_PERCENT]
    met = (
        f"an authorizer costs at most {MAX_COST_PERCENT:g} %: {len(costs) - len(missed)} of"
        f" {len(costs)} met"
    )
    return f"{met}; missed: {', '.join(missed)}" if missed else met


if __name__ == "__main__":
    main()
