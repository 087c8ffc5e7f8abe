"""Sends the same requests to tidelog and to Apache Kafka, and compares their responses.

Clients would see the difference, and natural differences are left out.

    def test_a_taken_name_is_refused(duel: Duel) -> None:
        duel.create_topic("taken")
        duel.compare(CreateTopicsRequest(topics=[CreatableTopic(name="taken")]), 7)

A test holds tidelog to the responses of Apache Kafka 4.3.1 that lie in ``recorded/<module>.json``,
which never needs Java. Where ``TIDELOG_KAFKA_LIBS`` is set (see ``client_clusters``) the tests of a
module that has changed since it was recorded (see ``stories``), and in a long run all tests, ask a
real Apache Kafka as well, compare, and check that the recording still holds; with
``TIDELOG_RECORD=1`` all ask it and write the recordings instead. Where the variable is not set a
test says loudly that it asked nobody else.

Both clusters are without topics when a module begins, so that topics may have plain names. Modules
share them, one after the other; a module whose clusters need properties of their own, or are
changed for good, names these in ``PROPERTIES`` and gets two that are new. Ids, ports, hosts and
times are masked; texts count only as "there" or "not there"; lists of structs are compared without
their order, because Kafka's comes from hash maps (``ordered=True`` where the order is a promise).
"""

import dataclasses
import json
import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import crc32c

from log_service.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from log_service.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.integration.wire import Wire

RECORD = "TIDELOG_RECORD"
RECORDINGS = Path(__file__).parent / "recorded"
READY_SECONDS = 20.0
LONGEST_SHOWN = 32
"""Bytes that are shown and recorded one by one; of more only size and checksum are."""

MASKED_TEXTS = frozenset({"error_message", "documentation"})
MASKED_NUMBERS = frozenset({"port", "finalized_features_epoch"})
MASKED_NAMES = frozenset({"host", "cluster_id", "log_dir"})
LEFT_OUT = frozenset({"throttle_time_ms"})
NO_LEADER: Mapping[str, int] = MappingProxyType({"leader_id": -1, "leader_epoch": -1})
"""What tidelog tells of the leader beside an error that is not about it. Kafka tells zeros, which a
client may take for broker 0.
"""

Request = Any
"""A request message, or a function of a ``Cluster`` that returns one (for ids, which differ)."""


@dataclass(slots=True, kw_only=True)
class Cluster:
    """One side: its address, a connection, and what differs from the other side."""

    bootstrap: str
    wire: Wire
    topic_ids: dict[str, UUID] = field(default_factory=dict)

    def topic_id(self, name: str) -> UUID:
        """The id that this side gave to a topic of ``Duel.create_topic``."""
        return self.topic_ids[name]

    def ask(self, request: Request, version: int) -> Any:
        """The response of this side.

        Raises:
            ConnectionError: it closed the connection instead.
        """
        asked = request(self) if callable(request) else request
        try:
            return self.wire.ask(asked, version)
        except (ConnectionError, TimeoutError):
            self.wire.close()  # the next question of this test, or of another one, gets a connection of its own
            self.wire = Wire(self.bootstrap)
            raise


@dataclass(slots=True, kw_only=True)
class Clusters:
    """Both sides; ``kafka`` is None where only recordings are at hand."""

    tidelog: Cluster
    kafka: Cluster | None

    def sides(self) -> list[Cluster]:
        """Return the sides that are there."""
        return [self.tidelog] if self.kafka is None else [self.tidelog, self.kafka]


class Recording:
    """Kafka's responses to one module's tests, by test and in the order of the questions."""

    def __init__(self, module: str) -> None:
        self._path = RECORDINGS / f"{module}.json"
        self._responses: dict[str, list[Any]] = (
            json.loads(self._path.read_text()) if self._path.exists() else {}
        )

    def responses(self, test: str) -> list[Any]:
        """Return the recorded responses for a test, none if it was never recorded."""
        return self._responses.get(test, [])

    def keep(self, test: str, responses: list[Any]) -> None:
        """Write the responses of a test down."""
        self._responses[test] = responses
        self._path.parent.mkdir(exist_ok=True)
        self._path.write_text(one_response_a_line(self._responses))


def one_response_a_line(responses: dict[str, list[Any]]) -> str:
    """Return JSON in which each response has a line, so that what changed can be seen."""
    tests = []
    for test, told in sorted(responses.items()):
        lines = ",\n".join(
            json.dumps(response, sort_keys=True, separators=(",", ":")) for response in told
        )
        tests.append(f"{json.dumps(test)}: [\n{lines}\n]")
    return "{\n" + ",\n".join(tests) + "\n}\n"


class Duel:
    """One test's questions to both sides."""

    def __init__(self, clusters: Clusters, recording: Recording, test: str) -> None:
        self.clusters = clusters
        self._recording = recording
        self._test = test
        self._responses: list[Any] = []
        self._is_recording = clusters.kafka is not None and bool(os.environ.get(RECORD))

    def compare(
        self, request: Request, version: int, *, ignore: Collection[str] = (), ordered: bool = False
    ) -> Any:
        """Ask both, fail where their responses differ, and return tidelog's own response
        (unmasked).

        ``ignore`` names fields that differ by nature; a test says why.
        """
        ours: list[Any] = []

        def tell(cluster: Cluster) -> Any:
            response = cluster.ask(request, version)
            ours.append(response)
            return normalise(response, ignore=ignore, ordered=ordered)

        self.compare_told(tell)
        return ours[0]

    def compare_told(self, tell: Callable[[Cluster], Any]) -> None:
        """Have ``tell`` do the same with both, and fail if its results differ.

        They are plain values that JSON knows.
        """
        shown = tell(self.clusters.tidelog)
        if self.clusters.kafka is not None:
            theirs = tell(self.clusters.kafka)
            self._responses.append(theirs)
            assert shown == theirs, self._difference("Apache Kafka responds", theirs, shown)
        else:
            self._responses.append(shown)
        if not self._is_recording:
            self._check_recorded(shown)

    def _check_recorded(self, shown: Any) -> None:
        recorded = self._recording.responses(self._test)
        position = len(self._responses) - 1
        assert position < len(recorded), (
            f"response {position} of {self._test} was never recorded: run it once with TIDELOG_KAFKA_LIBS=... {RECORD}=1"
        )
        assert shown == recorded[position], self._difference(
            "Apache Kafka responded", recorded[position], shown
        )

    def _difference(self, title: str, theirs: Any, ours: Any) -> str:
        expected, shown = (
            json.dumps(said, indent=1, sort_keys=True).splitlines() for said in (theirs, ours)
        )
        lines = unified_diff(expected, shown, title, "tidelog responds", n=12, lineterm="")
        return "\n".join([f"question {len(self._responses) - 1}", *lines])

    def finish(self) -> None:
        """Write the recording, where that is wanted."""
        if self._is_recording:
            self._recording.keep(self._test, self._responses)

    # What tests need on both sides

    def on_both(self, request: Request, version: int) -> None:
        """Ask both without looking at the responses."""
        for cluster in self.clusters.sides():
            cluster.ask(request, version)

    def until(self, request: Request, version: int, is_there: Callable[[Any], bool]) -> None:
        """Ask each side again until its response is as it should be.

        Kafka responds before everything of a change is in place.
        """
        for cluster in self.clusters.sides():
            deadline = time.monotonic() + READY_SECONDS
            while not is_there(response := cluster.ask(request, version)):
                assert time.monotonic() < deadline, (
                    f"{cluster.bootstrap} never got there: {response}"
                )
                time.sleep(0.05)

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic on both sides and wait until its leaders are there."""
        named = [
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ]
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, configs=named
        )
        for cluster in self.clusters.sides():
            created = cluster.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics[
                0
            ]
            assert created.error_code == 0, created
            cluster.topic_ids[name] = created.topic_id
        wanted = MetadataRequest(
            topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
        )
        self.until(wanted, 12, lambda response: _has_leaders(response.topics[0], partitions))


def _has_leaders(topic: Any, partitions: int) -> bool:
    return len(topic.partitions) == partitions and all(
        partition.error_code == 0 for partition in topic.partitions
    )


def normalise(value: Any, *, ignore: Collection[str] = (), ordered: bool = False) -> Any:
    """Return a response as plain values that JSON knows.

    Values that differ from one cluster to the next are left out.
    """
    if dataclasses.is_dataclass(value):
        names = [
            item.name
            for item in dataclasses.fields(value)
            if item.name not in LEFT_OUT and item.name not in ignore
        ]
        return {
            name: _masked(name, normalise(getattr(value, name), ignore=ignore, ordered=ordered))
            for name in names
        }
    if isinstance(value, list | tuple):
        items = [normalise(item, ignore=ignore, ordered=ordered) for item in value]
        is_sortable = not ordered and any(isinstance(item, dict) for item in items)
        return (
            sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
            if is_sortable
            else items
        )
    if isinstance(value, UUID):
        return "<id>" if value.int else ""
    if isinstance(value, bytes | bytearray | memoryview):
        content = bytes(value)
        return (
            content.hex()
            if len(content) <= LONGEST_SHOWN
            else f"{len(content)} bytes of CRC-32C {crc32c.crc32c(content):08x}"
        )
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _masked(name: str, value: Any) -> Any:
    if name in MASKED_TEXTS:
        return "<text>" if value else value
    if name in MASKED_NUMBERS:
        return "<number>" if value is not None and value >= 0 else value
    if name in MASKED_NAMES:
        return f"<{name}>" if value else value
    if name == "current_leader" and value == NO_LEADER:
        return dict.fromkeys(NO_LEADER, 0)
    return value
