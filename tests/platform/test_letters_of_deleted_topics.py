"""The records of dead letters whose topic was deleted and created anew can be read no more.

The commands say so.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from orchestration.cli import surroundings
from orchestration.cli.dead_letters import dead_letters
from orchestration.dead_letters.fixes import Fixes
from orchestration.lake.tables import Lake
from orchestration.log_client import connection
from orchestration.settings import load_settings
from orchestration.transforms.to_lake.run import run_topic_table
from tests.platform.pipeline import order, orders_table, run_context
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = pytest.mark.platform
OLD, NEW = "id-of-orders", "another-id"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, lake_root: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that rejected the first record of a topic, and of the topic that has its name now."""
    log = MemoryLog()
    table = orders_table()
    for topic_id in (OLD, NEW):
        log.add_topic("orders", 1, topic_id=topic_id).partitions[0].append(order("a", -1))
        run_topic_table(table, run_context(log, lake_root, spark))

    @contextmanager
    def connect(servers: str, **_: object) -> Iterator[MemoryLog]:
        yield log

    settings = load_settings({"TIDELOG_DATA": str(tmp_path)})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(surroundings, "found_settings", lambda: settings)
    monkeypatch.setattr(surroundings, "loaded_project", lambda: None)
    monkeypatch.setattr(connection, "connect", connect)
    (tmp_path / "repairs_of_orders.py").write_text(
        "def repair(value):\n    return value.replace(b'-1', b'1')\n"
    )


def run(*arguments: str) -> Result:
    return CliRunner().invoke(dead_letters, arguments)


@pytest.mark.parametrize("more", [[], ["--execute"]], ids=["plan", "execute"])
def test_a_record_of_a_deleted_topic_is_not_fixed(lake_root: Path, more: list[str]) -> None:
    """A replay would read the offset of the other topic, and never the fix."""
    outcome = run("fix", "clean_orders", f"{OLD}/0:0", "--value", '{"id": "a", "amount": 1}', *more)
    assert outcome.exit_code == 1
    assert (
        f"the topic orders of the id {OLD} is deleted: its records can be replayed no more"
        in outcome.output
    )
    assert Fixes(Lake(lake_root)).of("clean_orders", OLD) == {}


def test_a_function_fixes_the_records_that_are_still_there_and_tells_of_the_others() -> None:
    outcome = run("fix", "clean_orders", "--with", "repairs_of_orders:repair")
    assert outcome.exit_code == 0, outcome.output
    assert f"{NEW}/0:0" in outcome.stdout
    assert f"{OLD}/0:0" not in outcome.stdout
    assert "1 dead letter is of a topic that is deleted, and stays" in outcome.output


def test_the_plan_of_a_replay_counts_what_can_be_replayed() -> None:
    outcome = run("replay", "clean_orders")
    assert "clean_orders: 1 dead letter would be replayed; --execute does it" in outcome.output
    assert "1 dead letter is of a topic that is deleted, and stays" in outcome.output
