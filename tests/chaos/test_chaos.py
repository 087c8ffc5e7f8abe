"""Every run of the tests plays a few kills of a loaded node, and every case of a disk.

``make chaos`` plays two hundred kills.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from log_service.records.builder import build_batch
from tests.chaos.disks import CASES, UnfitError
from tests.chaos.kills import run
from tests.chaos.load import GROUP, PARTITION_COUNT, TOPIC, ConfluentWriter, Place, Reader
from tests.chaos.verdicts import Segments, first_gap, judge
from tests.integration.client_clusters import tidelog
from tests.integration.confluent import consumer, create_topic

pytestmark = pytest.mark.integration


def test_kills_of_a_loaded_node_lose_nothing(tmp_path: Path) -> None:
    outcome = run(tmp_path, 5, seed=1)
    assert not outcome.faults, str(outcome)
    assert outcome.acknowledged_count > 100


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_a_disk_does_is_told_and_costs_no_record_in_silence(
    case: Callable[[Path], None], tmp_path: Path
) -> None:
    try:
        case(tmp_path)
    except UnfitError as reason:
        pytest.skip(f"this machine cannot play it: {reason}")


# The judge notices


def writer_of(acknowledged: dict[Place, str]) -> ConfluentWriter:
    writer = ConfluentWriter("w", "nowhere:1", 1)
    writer.acknowledged = acknowledged
    return writer


@pytest.mark.parametrize(
    ("log", "acknowledged", "said"),
    [
        pytest.param(
            {("t", 0, 0): "w:0:1:"},
            {("t", 0, 0): "w:0:1:", ("t", 0, 1): "w:0:2:"},
            "acknowledged",
            id="lost",
        ),
        pytest.param({("t", 0, 0): "w:0:1:", ("t", 0, 1): "w:0:1:"}, {}, "twice", id="twice"),
        pytest.param(
            {("t", 0, 0): "w:0:2:", ("t", 0, 1): "w:0:1:"}, {}, "out of order", id="out of order"
        ),
    ],
)
def test_the_judge_notices_what_is_broken(
    log: dict[Place, str], acknowledged: dict[Place, str], said: str
) -> None:
    (fault,) = judge(log, [writer_of(acknowledged)], [])
    assert said in fault


def test_the_judge_looks_for_what_was_acknowledged_without_an_offset() -> None:
    writer = writer_of({})
    writer.acknowledge(TOPIC, 0, None, "w:0:1:")
    assert judge({(TOPIC, 0, 7): "w:0:1:"}, [writer], []) == []
    (fault,) = judge({(TOPIC, 1, 7): "w:0:1:"}, [writer], [])
    assert "acknowledged in loaded-0 and is not there" in fault


def test_the_judge_notices_a_reader_that_saw_something_else() -> None:
    reader = Reader("r", "nowhere:1")
    reader.got = {("t", 0, 0): "w:0:9:"}
    (fault,) = judge({("t", 0, 0): "w:0:1:"}, [], [reader])
    assert "the log has another" in fault


def test_a_reader_commits_nothing_of_an_assignment_that_is_over() -> None:
    reader = Reader("r", "nowhere:1")
    reader.next_offsets = {("t", 0): 363, ("t", 2): 7}
    reader.forget_positions(None, [])
    assert not reader.next_offsets


@pytest.mark.parametrize("has_left", [True, False])
def test_a_close_that_hangs_is_held_against_the_cluster_unless_the_member_has_left(
    has_left: bool, servers: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr("tests.chaos.load.STOP_SECONDS", 1.0)
    reader = HangingReader("hanging", servers, has_left=has_left)
    reader.start()
    assert reader.hangs.wait(60)
    reader.stop()
    reader.goes_on.set()
    assert (reader.failures, len(reader.notes)) == (
        ([], 1) if has_left else (["hanging does not end"], 0)
    )


class HangingReader(Reader):
    """A member joins, maybe leaves, and does not end before it may.

    Librdkafka's close hangs too seldom to wait for it.
    """

    def __init__(self, name: str, bootstrap: str, *, has_left: bool) -> None:
        super().__init__(name, bootstrap, group=f"{GROUP}-{has_left}")
        self.has_left = has_left
        self.hangs, self.goes_on = threading.Event(), threading.Event()

    def work(self) -> None:
        source = consumer(self.bootstrap, self.group, client_id=self.name)
        source.subscribe([TOPIC])
        while not source.assignment():
            source.consume(1, 0.1)
        self._is_closing = True
        if self.has_left:
            source.close()
        self.hangs.set()
        self.goes_on.wait(60)
        if not self.has_left:
            source.close()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with tidelog(tmp_path_factory.mktemp("cluster")) as bootstrap:
        create_topic(bootstrap, TOPIC, PARTITION_COUNT)
        yield bootstrap


def batch(offset: int, epoch: int, sequence: int) -> bytes:
    return build_batch(
        [(0, None, b"v")],
        base_offset=offset,
        producer_id=7,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


@pytest.mark.parametrize(
    ("second", "said"),
    [
        pytest.param(
            (0, 0), ["twice", "where (0, 1) is due"], id="the broker appended a sequence twice"
        ),
        pytest.param((0, 1), ["twice"], id="the client numbered a record twice in one epoch"),
        pytest.param((1, 1), ["where (1, 0) is due"], id="an epoch begins in its middle"),
        pytest.param((1, 0), [], id="the client began a new epoch with the record"),
    ],
)
def test_the_judge_tells_whose_doing_a_second_copy_is(
    second: tuple[int, int], said: list[str]
) -> None:
    segments: Segments = {("t", 0): batch(0, 0, 0) + batch(1, *second)}
    faults = judge({("t", 0, 0): "w:0:1:", ("t", 0, 1): "w:0:1:"}, [], [], segments)
    assert len(faults) == len(said)
    assert all(text in fault for text, fault in zip(said, faults, strict=True))


def test_the_judge_notices_a_fenced_producer_in_the_log() -> None:
    segments: Segments = {("t", 0): batch(0, 1, 0) + batch(1, 0, 1)}
    (fault,) = judge({("t", 0, 0): "w:0:1:", ("t", 0, 1): "w:0:2:"}, [], [], segments)
    assert "(0, 1), where (1, 1) is due" in fault


def test_a_gap_is_named() -> None:
    assert first_gap([4, 5, 7]) == "5 is followed by 7"
