"""Readers of committed records find each change of a source, and each line of a file, once.

Its runs are killed at every step. On a broker of a process of its own; tables in SQLite and
PostgreSQL.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestration.sources.dropped_files import DroppedFiles
from orchestration.sources.sql_rows import SqlRows
from tests.helpers.broker_process import BrokerProcess
from tests.platform.captured import CapturedTable, Records, found_records
from tests.platform.databases import database
from tests.platform.dying import KILLED, exit_code
from tests.platform.killed_sources import CHANGES, FILE_STEPS, STEPS, run

pytestmark = [pytest.mark.platform, pytest.mark.timeout(600)]


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    with BrokerProcess(tmp_path / "broker") as broker:
        yield broker.bootstrap


@pytest.mark.parametrize(
    ("kind", "is_compared"),
    [("postgresql", False), ("sqlite", True)],
    ids=["by-cursor", "by-comparison"],
)
def test_each_change_of_a_table_is_sent_once(
    kind: str, is_compared: bool, bootstrap: str, tmp_path: Path
) -> None:
    expected: Records = Counter()
    with database(kind, tmp_path) as place:
        table = CapturedTable(place)
        cursor = None if is_compared else "changed"
        source = SqlRows(
            url=place.address,
            table="people",
            key=("id",),
            cursor=cursor,
            compare_every_s=0 if is_compared else None,
        )
        for number, step in enumerate(STEPS):
            changes: list[tuple[bytes, bytes | None]] = [
                table.put(10 * number + position, "new") for position in range(7)
            ]
            if number:
                changes += [table.put(10 * number - 10 + position, "old") for position in range(3)]
                removed = table.remove(10 * number - 5)
                changes += [removed] if is_compared else []
            expected.update(changes)
            assert exit_code(run, bootstrap, source, step) == KILLED, step
            assert exit_code(run, bootstrap, source, "none") == 0, step
            assert found_records(bootstrap, CHANGES.name) == expected, f"recovered from {step}"


def test_each_line_of_a_file_is_sent_once(bootstrap: str, tmp_path: Path) -> None:
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
        assert exit_code(run, bootstrap, source, step) == KILLED, step
        assert exit_code(run, bootstrap, source, "none") == 0, step
        assert found_records(bootstrap, CHANGES.name) == expected, f"recovered from {step}"
        assert [path.name for path in folder.iterdir()] == ["done"], step
    assert len(list((folder / "done").iterdir())) == len(FILE_STEPS)
