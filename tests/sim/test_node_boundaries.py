"""A node may die at any operation of the disk in a story.

It dies at every thirteenth of them here, at every ninth in a long run, and at each of them with
``python -m tests.sim.node_boundaries``.
"""

from collections import Counter
from functools import cache
from pathlib import Path
from random import Random
from unittest import mock

from log_service.storage.segment import Segment
from tests.helpers.whole import of_a_run
from tests.sim.disk import Disk
from tests.sim.files import MemoryFiles
from tests.sim.node_boundaries import (
    Ending,
    Least,
    MovingStory,
    boundaries,
    count_operations,
    judge,
    play,
)

STRIDE = of_a_run(13, whole=9)
MOVING_STRIDE = of_a_run(61, whole=41)

operations_of_the_story = cache(count_operations)


def test_no_death_at_any_boundary_breaks_a_promise() -> None:
    operations = operations_of_the_story()
    kinds = Counter(name.partition(" ")[0] for name in operations)
    assert kinds.keys() >= {
        "append",
        "sync",
        "rename",
        "sync_directory",
        "truncate",
        "remove",
        "open",
        "make_directory",
    }
    crashes = boundaries(len(operations), stride=STRIDE)
    assert {ending for _, ending in crashes} == set(Ending)
    failed = [verdict for verdict in map(judge, crashes) if verdict.violations]
    assert not failed, "\n".join(map(str, failed[:5]))


def test_every_boundary_gets_every_ending_without_a_stride() -> None:
    assert len(boundaries(7)) == 7 * len(Ending)


def test_a_death_is_where_it_was_asked_for() -> None:
    operations = operations_of_the_story()
    verdict, story, _ = play(200, Ending.TORN)
    assert verdict.operation == operations[199]
    assert story.death_count == 2


def test_a_torn_tail_that_is_believed_is_noticed() -> None:
    """A planted bug: recovery keeps what a torn write left."""
    with mock.patch.object(Segment, "cut_torn_tail", return_value=None):
        appends = [
            at
            for at, name in enumerate(operations_of_the_story(), 1)
            if name.startswith("append /data/synced-0/")
        ]
        assert any(judge((at, Ending.TORN)).violations for at in appends[:10])


def test_the_least_that_a_disk_may_keep_is_nothing() -> None:
    for seed in range(5):
        files, path = MemoryFiles(Disk(are_names_durable=True), rng=Random(seed)), Path("/file")
        files.open(path).append_gathered([b"1234"])
        files.crash(Least(seed))
        assert files.read_bytes(path) == b""


def test_no_death_at_any_boundary_of_a_move_breaks_a_promise() -> None:
    operations = count_operations(MovingStory)
    crashes = boundaries(len(operations), stride=MOVING_STRIDE)
    assert {ending for _, ending in crashes} == set(Ending)
    assert sum("-future" in name for name in operations) > len(operations) / 10
    failed = [
        verdict
        for verdict in (judge(crash, MovingStory) for crash in crashes)
        if verdict.violations
    ]
    assert not failed, "\n".join(map(str, failed[:5]))
