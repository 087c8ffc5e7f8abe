"""A broker process over sockets gets hostile sessions, and crowds that hold on.

The system tells of the process. A finding is a process that ended, a traceback in its log, more
resident memory than ``MEMORY_BUDGET_BYTES``, or a good request that waits longer than
``PATIENCE_SECONDS``. Sessions come in windows; after each the node is looked at, and where it
failed the window is played again to new nodes, with less and less in it.
"""

import re
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from log_service.broker.requests.call import Side
from log_service.protocol.api_versions import KNOWN, ApiKey, response_class
from log_service.protocol.codec import decode
from log_service.protocol.frames import parse_response_header
from log_service.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from log_service.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from log_service.protocol.messages.metadata import MetadataRequest
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from log_service.records.builder import build_batch
from tests.fuzz.cases import Case, Figures, Finding
from tests.fuzz.sessions import SessionDrawing, requests_of
from tests.fuzz.shapes import Vocabulary
from tests.fuzz.shrink import shrink
from tests.fuzz.virtual_node import HONEST, TOPICS
from tests.helpers.broker_process import BrokerProcess, NotStartedError
from tests.integration.wire import Wire

MIB = 1 << 20
MEMORY_BUDGET_BYTES = 400 * MIB
"""What a node of this configuration may take: its own 50 MiB, requests of 64 MiB, a batch opened at
its bound of 128 MiB and its copy.
"""
PATIENCE_SECONDS = 5.0
ANSWER_SECONDS = 0.03
WINDOW = 60
MAX_HELD = 40
CONNECTION_LIMIT = 200
PROPERTIES = {
    "max.connections": str(CONNECTION_LIMIT),
    "socket.listen.backlog.size": "1024",
    "queued.max.request.bytes": str(64 * MIB),
    "log.retention.check.interval.ms": "2000",
    "group.min.session.timeout.ms": "100",
}
TRACES = re.compile(r"^Traceback|its request failed|\S+ from \S+ failed$", re.MULTILINE)


class Node:
    """A broker process with its topics, and what is known of it."""

    ENGINE = "process_node"
    SIDE = Side.BROKER

    def __init__(self, folder: Path, properties: Mapping[str, str] = PROPERTIES) -> None:
        self.broker = BrokerProcess(folder, properties=properties)
        self.topic_ids: dict[str, UUID] = {}
        self.peak_bytes = 0

    @property
    def attacked(self) -> str:
        """The listener that sessions are sent to."""
        return self.broker.bootstrap

    def start(self) -> None:
        """Start it with fresh topics."""
        self.broker.start()
        with Wire(self.broker.bootstrap) as wire:
            topics = [
                CreatableTopic(
                    name=name,
                    num_partitions=2,
                    replication_factor=1,
                    configs=[
                        CreatableTopicConfig(name=key, value=value)
                        for key, value in configs.items()
                    ],
                )
                for name, configs in {**TOPICS, HONEST: {}}.items()
            ]
            answer = wire.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
        self.topic_ids = {topic.name: topic.topic_id for topic in answer.topics}
        deadline = time.monotonic() + 10
        while self.honest_request() and time.monotonic() < deadline:
            time.sleep(0.05)  # the partitions are being opened

    def known_values(self) -> list[Any]:
        """The values that attackers know from the start."""
        return [topic_id for name, topic_id in self.topic_ids.items() if name != HONEST]

    def honest_request(self) -> str:
        """Write a record and read it; returns what went wrong, or nothing."""
        begun = time.monotonic()
        try:
            with Wire(self.broker.bootstrap) as wire:
                wire.ask(MetadataRequest(topics=[]), 12)
                batch = bytes(build_batch([(1_700_000_000_000, b"key", b"honest")]))
                data = [
                    TopicProduceData(
                        name=HONEST, partition_data=[PartitionProduceData(index=0, records=batch)]
                    )
                ]
                told = wire.ask(
                    ProduceRequest(
                        transactional_id=None, acks=-1, timeout_ms=5_000, topic_data=data
                    ),
                    12,
                )
                written = told.responses[0].partition_responses[0]
                if written.error_code:
                    return f"a good record is refused with {written.error_code}"
                partition = FetchPartition(
                    partition=0, fetch_offset=written.base_offset, partition_max_bytes=MIB
                )
                request = FetchRequest(
                    max_wait_ms=2_000,
                    min_bytes=1,
                    max_bytes=MIB,
                    topics=[FetchTopic(topic=HONEST, partitions=[partition])],
                )
                found = wire.ask(request, 12).responses[0].partitions[0]
                if b"honest" not in bytes(found.records or b""):
                    return f"what was written is not read: {found.error_code}"
        except (OSError, TimeoutError) as error:
            return f"no answer to a good request: {type(error).__name__}"
        taken = time.monotonic() - begun
        return f"a good request took {taken:.1f} s" if taken > PATIENCE_SECONDS else ""

    def fault(self) -> str:
        """Return the fault of the node now, or None."""
        memory = self._memory_bytes()
        if memory is None:
            return f"the process ended: {self.broker.log[-300:]}"
        self.peak_bytes = max(self.peak_bytes, memory)
        trace = TRACES.search(self.broker.log)
        if trace is not None:
            return f"a traceback: {self.broker.log[trace.start() :][:3_000]}"
        if memory > MEMORY_BUDGET_BYTES:
            return f"memory: {memory // MIB} MiB resident"
        return self.silence()

    def is_spent(self) -> bool:
        """Whether what was sent rightly put it out of service: the next window needs another node."""
        return False

    def silence(self) -> str:
        """Return what a good client lacks now, or None."""
        return self.honest_request()

    def _memory_bytes(self) -> int | None:
        """The most that was ever resident (Linux), None for a process that is gone."""
        try:
            status = Path(f"/proc/{self.broker.process_id}/status").read_text()
        except OSError:
            return None
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        return int(found.group(1)) * 1_024 if found else None


class Attack:
    """Plays sessions against one node."""

    def __init__(self, node: Node, figures: Figures, vocabulary: Vocabulary) -> None:
        self.node = node
        self.figures = figures
        self.vocabulary = vocabulary
        self.held: list[socket.socket] = []

    def session(self, pieces: Sequence[bytes]) -> None:
        """One connection: send, read for a moment, and stay or go, by its bytes."""
        host, _, port = self.node.attacked.rpartition(":")
        rng = Random(b"".join(pieces)[:200])
        try:
            connection = socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS)
        except OSError:
            return  # the limit of connections, or the end: whoever looks after the window says which
        connection.settimeout(ANSWER_SECONDS)
        with suppress(OSError):
            connection.sendall(b"".join(pieces))
            self._read(connection, pieces)
        if rng.random() < 0.1:
            self.held.append(connection)
            for old in self.held[:-MAX_HELD]:
                old.close()
            del self.held[:-MAX_HELD]
            return
        if rng.random() < 0.3:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    def _read(self, connection: socket.socket, pieces: Sequence[bytes]) -> None:
        expected = [request for piece in pieces for request in requests_of(piece)]
        received = bytearray()
        while expected:
            part = connection.recv(65_536)
            if not part:
                return
            received += part
            while (
                expected
                and len(received) >= 4
                and len(received) >= 4 + (size := int.from_bytes(received[:4], "big"))
            ):
                self._learn(*expected.pop(0), bytes(received[4 : 4 + size]))
                del received[: 4 + size]

    def _learn(self, key: int, version: int, frame: bytes) -> None:
        spec = KNOWN.get(key)
        if (
            spec is None
            or not spec.min_version <= version <= spec.max_version
            or key in {ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CONFIGS}
        ):
            return
        with suppress(Exception):  # acks=0 has no answer: the next one is another's
            _, body = parse_response_header(spec.key, version, frame)
            answer, end = decode(response_class(spec.key), version, frame, body)
            if end == len(frame):
                self.figures.tried[f"{spec.name} answered"] += 1
                self.vocabulary.learn(answer)

    def crowd(self, rng: Random) -> str:
        """Many at once: beyond the limit of connections, announcing what they do not send, slow,
        not reading. Returns its name.
        """
        host, _, port = self.node.attacked.rpartition(":")
        kind = rng.choice(("flood", "announcing", "slow", "not reading"))
        with ExitStack() as stack:
            for number in range(3 * CONNECTION_LIMIT if kind == "flood" else CONNECTION_LIMIT // 2):
                connection = stack.enter_context(socket.socket())
                connection.settimeout(1.0)
                with suppress(OSError):
                    connection.connect((host, int(port)))
                    connection.sendall(CROWD_BYTES[kind](number))
            if kind != "flood":
                self.figures.notes[f"crowd of {kind}"] = (
                    self.node.honest_request() or "served beside it"
                )
            for held in self.held:
                held.close()
            self.held.clear()
        return kind

    def close(self) -> None:
        """Leave."""
        for connection in self.held:
            connection.close()


def _fetch_forever(number: int) -> bytes:
    """Thirty requests for everything, from somebody who reads nothing."""
    body = (
        struct.pack(">iiiibii", -1, 0, 1, 50 * MIB, 0, 0, -1)
        + struct.pack(">i", 1)
        + b"\0\5plain"
        + struct.pack(">i", 1)
    )
    body += struct.pack(">iiqqi", 0, -1, 0, -1, 50 * MIB) + struct.pack(">i", 0) + b"\0\0"
    frame = struct.pack(">hhih", ApiKey.FETCH, 11, number, -1) + body
    return (struct.pack(">i", len(frame)) + frame) * 30


CROWD_BYTES = {
    "flood": lambda _number: b"\0\0\0\x0a\0\x12\0\0\0\0\0\7\xff\xff",
    "announcing": lambda number: struct.pack(">i", 100 * MIB) + bytes(number * 1_000),
    "slow": lambda number: b"\0\0\0\x0a\0\x12\0\0\0\0\0\7\xff\xff"[: 1 + number % 13],
    "not reading": _fetch_forever,
}


def fuzz(
    seed: int,
    *,
    seconds: float = float("inf"),
    rounds: int = 1 << 60,
    tries: int = 40,
    kind: type[Node] = Node,
) -> tuple[Figures, list[Finding]]:
    """Play windows of sessions until the time or the rounds are over.

    A finding ends its node, and the next window gets another.
    """
    figures, findings, seen = Figures(), [], set()
    begun = time.perf_counter()
    number = 0
    while time.perf_counter() - begun < seconds and number < rounds:
        folder = Path(tempfile.mkdtemp(prefix="fuzz-node-"))
        node = kind(folder)
        try:
            node.start()
            while time.perf_counter() - begun < seconds and number < rounds:
                sent, fault = _window(Random(f"process {seed} {number}"), node, figures)
                number += 1
                if fault and fault[:200] not in seen:
                    seen.add(fault[:200])
                    ids = tuple((name, topic_id.hex) for name, topic_id in node.topic_ids.items())
                    case = Case(
                        engine=kind.ENGINE,
                        target="session",
                        seed=seed,
                        sessions=tuple(sent),
                        ids=ids,
                    )
                    findings.append(Finding(text=fault, case=small(case, fault, tries, kind)))
                if fault or node.is_spent():
                    break
        finally:
            node.broker.kill()
            shutil.rmtree(folder, ignore_errors=True)
        figures.notes["most memory"] = (
            f"{max(node.peak_bytes // MIB, int(figures.notes.get('most memory', '0').split()[0]))} MiB resident"
        )
    figures.seconds = time.perf_counter() - begun
    return figures, findings


def _window(rng: Random, node: Node, figures: Figures) -> tuple[list[tuple[bytes, ...]], str]:
    """Play one window; returns what was sent, and what was wrong after it."""
    vocabulary = Vocabulary(forbidden=frozenset({HONEST, node.topic_ids[HONEST], "1"}))
    vocabulary.learn(node.known_values())
    drawing, attack = SessionDrawing(rng, vocabulary, node.SIDE), Attack(node, figures, vocabulary)
    sent = []
    for _ in range(WINDOW):
        frames = drawing.session()
        for frame in frames:
            figures.count(frame.spec.name, frame.kind)
        sent.append(tuple(frame.content for frame in frames))
        attack.session(sent[-1])
    if rng.random() < 0.1:
        figures.tried[f"crowd: {attack.crowd(rng)}"] += 1
    fault = node.fault()
    attack.close()
    return sent, fault


def small(case: Case, fault: str, tries: int, kind: type[Node]) -> Case:
    """The case without what it does not need, where it fails again at all."""
    return shrink(
        case, lambda tried: fingerprint(replay(tried, kind)) == fingerprint(fault), tries=tries
    )


def fingerprint(fault: str) -> str:
    """Return the text that two findings of one bug have in common.

    It is the beginning of the text, and the last line of ours in a traceback.
    """
    lines = re.findall(r'log_service/\S+", line \d+', fault)
    return f"{fault[:12]} {lines[-1] if lines else ''}"


def replay(case: Case, kind: type[Node] = Node) -> str:
    """Play one case to a new node; returns what it broke, or nothing."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-node-"))
    node = kind(folder)
    try:
        node.start()
        attack = Attack(node, Figures(), Vocabulary())
        for session in case.sessions:
            attack.session([_renamed(piece, case, node) for piece in session])
        fault = node.fault()
        attack.close()
    except NotStartedError as error:
        return f"the process ended: {error}"
    else:
        return fault
    finally:
        node.broker.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _renamed(piece: bytes, case: Case, node: Node) -> bytes:
    """The bytes with this node's topic ids in place of those of the node that they were sent to."""
    for name, topic_id in case.ids:
        piece = piece.replace(bytes.fromhex(topic_id), node.topic_ids[name].bytes)
    return piece
