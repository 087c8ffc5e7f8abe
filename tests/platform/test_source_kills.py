"""Sources whose runs are killed at every step: readers of committed records find each change, and each line of a file, once.

On a broker of a process of its own; tables in SQLite and PostgreSQL.
"""

import json
from collections import Counter
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from orchestration.connection import connect
from orchestration.offsets import OffsetRange
from orchestration.sources.dropped_files import DroppedFiles
from orchestration.sources.sql_rows import SqlRows
from tests.helpers.broker_process import BrokerProcess
from tests.platform.databases import Database, database
from tests.platform.dying import KILLED
from tests.platform.forking import forking
from tests.platform.installation import wait_until
from tests.platform.killed_sources import CHANGES, FILE_STEPS, STEPS, exit_code

pytestmark = [pytest.mark.platform, pytest.mark.timeout(600)]
MARKED_WITHIN_S = 30
Records = Counter[tuple[bytes | None, bytes | None]]


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    with BrokerProcess(tmp_path / "broker") as broker:
        yield broker.bootstrap


@pytest.fixture(scope="module")
def forked() -> ForkServerContext:
    return forking()


def found(bootstrap: str) -> Records:
    """Return what readers of committed records find, once no transaction is open any more."""
    records: Records = Counter()
    with connect(bootstrap) as log:

        def is_settled() -> bool:
            return all(one.last_stable_offset == one.high_watermark for one in log.partition_offsets(CHANGES.name))

        wait_until(is_settled, MARKED_WITHIN_S, lambda: "a transaction is open for ever")
        read = log.range_reader()
        for one in log.partition_offsets(CHANGES.name):
            for batch in read(CHANGES.name, OffsetRange(partition=one.partition, start=0, end=one.high_watermark)):
                records.update(zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True))
    return records


class Table:
    """A table that changes, and the record that each change is."""

    def __init__(self, place: Database) -> None:
        self.place = place
        self.rows: dict[int, tuple[str, int]] = {}
        self.clock = 0
        place.execute("CREATE TABLE people (id BIGINT PRIMARY KEY, name TEXT, changed BIGINT)")

    def put(self, identity: int, name: str) -> tuple[bytes, bytes]:
        self.clock += 1
        self.rows[identity] = (name, self.clock)
        self.place.execute(f"DELETE FROM people WHERE id = {identity}")
        self.place.execute(f"INSERT INTO people VALUES ({identity}, '{name}', {self.clock})")
        value = {"id": identity, "name": name, "changed": self.clock}
        return str(identity).encode(), json.dumps(value, separators=(",", ":")).encode()

    def remove(self, identity: int) -> tuple[bytes, None]:
        del self.rows[identity]
        self.place.execute(f"DELETE FROM people WHERE id = {identity}")
        return str(identity).encode(), None


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "is_compared"), [("postgresql", False), ("sqlite", True)], ids=["by-cursor", "by-comparison"])
def test_each_change_of_a_table_is_sent_once(
    kind: str, is_compared: bool, bootstrap: str, forked: ForkServerContext, tmp_path: Path
) -> None:
    expected: Records = Counter()
    with database(kind, tmp_path) as place:
        table = Table(place)
        cursor = None if is_compared else "changed"
        source = SqlRows(url=place.address, table="people", key=("id",), cursor=cursor, compare_every_s=0 if is_compared else None)
        for number, step in enumerate(STEPS):
            changes: list[tuple[bytes, bytes | None]] = [table.put(10 * number + position, "new") for position in range(7)]
            if number:
                changes += [table.put(10 * number - 10 + position, "old") for position in range(3)]
                removed = table.remove(10 * number - 5)
                changes += [removed] if is_compared else []
            expected.update(changes)
            assert exit_code(forked, bootstrap, source, step) == KILLED, step
            assert exit_code(forked, bootstrap, source, "none") == 0, step
            assert found(bootstrap) == expected, f"recovered from {step}"


@pytest.mark.slow
def test_each_line_of_a_file_is_sent_once(bootstrap: str, forked: ForkServerContext, tmp_path: Path) -> None:
    folder = tmp_path / "inbox"
    folder.mkdir()
    source = DroppedFiles(folder=folder, key="id", settle_s=0)
    expected: Records = Counter()
    for number, step in enumerate(FILE_STEPS):
        lines = [json.dumps({"id": f"{number}-{position}"}).encode() for position in range(7)]
        draft = folder / ".draft"
        draft.write_bytes(b"\n".join(lines))
        draft.rename(folder / f"orders-{number % 2}.jsonl")
        expected.update((json.loads(line)["id"].encode(), line) for line in lines)
        assert exit_code(forked, bootstrap, source, step) == KILLED, step
        assert exit_code(forked, bootstrap, source, "none") == 0, step
        assert found(bootstrap) == expected, f"recovered from {step}"
        assert [path.name for path in folder.iterdir()] == ["done"], step
    assert len(list((folder / "done").iterdir())) == len(FILE_STEPS)
