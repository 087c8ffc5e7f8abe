"""An archive holds each record once when its runs are killed at every step, or are rivals.

Readers see nothing unfinished.
"""

import pickle
from collections import Counter
from pathlib import Path

import pytest

from orchestration.lake.tables import Lake
from orchestration.retained.archive_reading import archived_topic
from orchestration.warehouse.store import Warehouse
from orchestration.warehouse.topics_in_sql import TopicRelations
from tests.platform import dying, killed_archiving
from tests.platform.dying import KILLED, Running
from tests.platform.killed_archiving import SECOND_COMMIT, STEPS
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = [pytest.mark.platform, pytest.mark.timeout(400)]
RIVALS = 3


def append(log: MemoryLog, number: int) -> None:
    """Append two chunks and a half to one partition and less than a chunk to the other, with gaps."""
    for partition, count in zip(log.topics["orders"].partitions, (23, 4), strict=True):
        for position in range(count):
            partition.append(b"%d-%d" % (number, position), key=b"k")
            partition.skip(position % 2)


def start(log: MemoryLog, directory: Path, step: str) -> Running:
    return dying.start(
        killed_archiving.main, directory, stored(log, directory), str(directory / "lake"), step
    )


def recover(log: MemoryLog, directory: Path) -> None:
    """Do what the next run does."""
    killed_archiving.main(stored(log, directory), str(directory / "lake"), "none")


def stored(log: MemoryLog, directory: Path) -> str:
    """Write the log where a process finds it; one that is reading it meanwhile has the file of
    before.
    """
    path, fresh = directory / "log.pickle", directory / "log.pickle.new"
    fresh.write_bytes(pickle.dumps(log))
    fresh.replace(path)
    return str(path)


def appended(log: MemoryLog) -> Counter[tuple[int, int, bytes]]:
    partitions = enumerate(log.topics["orders"].partitions)
    return Counter(
        (number, offset, one[3] or b"")
        for number, part in partitions
        for offset, one in part.records.items()
    )


def archived(lake: Lake) -> Counter[tuple[int, int, bytes]]:
    snapshot = lake.snapshot("orders_archive")
    if snapshot is None:
        return Counter()
    table = snapshot.dataset().to_table(columns=["_partition", "_offset", "_value"])
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("step", STEPS)
def test_an_archive_is_exact_however_its_runs_are_killed(step: str, tmp_path: Path) -> None:
    log, lake = MemoryLog(), Lake(tmp_path / "lake")
    log.add_topic("orders", 2)
    if "table" not in step:
        append(log, 0)
        recover(log, tmp_path)
    before = archived(lake)
    append(log, 1)
    code, said = start(log, tmp_path, step).finish()
    assert code == KILLED, said
    assert (archived(lake) != before) is (step in SECOND_COMMIT)
    validate_what_is_seen(log, lake)
    recover(log, tmp_path)
    assert archived(lake) == appended(log)
    lake.vacuum("orders_archive", retention_hours=0)
    folder = lake.existing("orders_archive").folder
    assert sorted(folder.glob("_partition=*/*")) == sorted(lake.existing("orders_archive").files)
    assert archived(lake) == appended(log)


def validate_what_is_seen(log: MemoryLog, lake: Lake) -> None:
    """Check that all records below the archive's ends are in it, and no others.

    In SQL it makes one with the log.
    """
    snapshot = lake.snapshot("orders_archive")
    covered = {} if snapshot is None else archived_topic(snapshot, "id-of-orders").ranges([0, 1])
    expected = Counter(
        {
            place: 1
            for place in appended(log)
            if place[0] in covered and place[1] < covered[place[0]].end
        }
    )
    assert archived(lake) == expected
    asked = Warehouse(lake.root.parent / "warehouse", lake).query(
        "SELECT _partition, _offset, _bytes FROM topics.orders", TopicRelations(log, {}, lake)
    )
    assert Counter(tuple(row.values()) for row in asked.to_pylist()) == appended(log)


def test_rivals_archive_each_record_once(tmp_path: Path) -> None:
    log, lake = MemoryLog(), Lake(tmp_path / "lake")
    log.add_topic("orders", 2)
    append(log, 0)
    append(log, 1)
    for ended in [one.finish() for one in [start(log, tmp_path, "none") for _ in range(RIVALS)]]:
        assert ended[0] == 0, ended[1]
    assert archived(lake) == appended(log)
