"""Retention has overtaken a table of newest rows, which goes on as if the log still held all.

The broker is real, with an archive of the topic. Other shapes are in ``test_overtaken_runs``.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from log_service.client import BlockingAdmin, BlockingProducer, NewTopic
from orchestration.lake.tables import Lake
from orchestration.log_client.connection import connect
from orchestration.log_client.protocol import LogClient
from orchestration.rows.upserts import remembered_deletions
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.archiving import Archive
from orchestration.transforms.archiving.run import ArchiveContext, run_archive
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.run.context import RunContext, TopicRunResult
from orchestration.transforms.to_database.run import Storing
from orchestration.transforms.to_lake.replay import run_replay
from orchestration.transforms.to_lake.run import run_topic_table
from tests.helpers.broker_process import BrokerProcess
from tests.platform import killed_storing
from tests.platform.accounts import accounts_table, held_accounts
from tests.platform.databases import database
from tests.platform.pipeline import letters_of, run_context

pytestmark = [pytest.mark.platform, pytest.mark.timeout(400)]
MINUTE_MS = 60_000
START_MS = 1_767_225_600_000
Sent = tuple[int, str, int | None, int]
"""Partition, account, balance (None: deleted), minute."""
READ: list[Sent] = [(0, "a", 1, 1), (0, "moved", 1, 2), (1, "b", 1, 1)]
TAKEN: list[Sent] = [
    *[
        (0, "moved", None, 50),
        (0, "a", 2, 51),
        (0, "c", 1, 52),
        (0, "a", -5, 53),
        (0, "e", 1, 54),
        (0, "e", None, 55),
    ],
    *[
        (1, "b", None, 51),
        (1, "f", 1, 52),
        (1, "g", 1, 53),
        (1, "h", 1, 54),
        (1, "moved", 7, 10),
        (1, "i", 1, 56),
    ],
]
"""What retention takes. An older record of an account that was deleted lies in the other partition,
and is read last.
"""
LEFT: list[Sent] = [(0, "c", 3, 60), (1, "f", None, 61)]
EXPECTED = {"a": 2, "c": 3, "g": 1, "h": 1, "i": 1}

Run = Callable[[RunContext], TopicRunResult]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker") as process:
        with BlockingAdmin(process.bootstrap) as admin:
            admin.create_topics(
                [NewTopic(name="accounts", partition_count=2, replication_factor=1)]
            )
        yield process


def send(broker: BrokerProcess, records: list[Sent]) -> None:
    with BlockingProducer(broker.bootstrap) as producer:
        for partition, identity, balance, minute in records:
            value = (
                None
                if balance is None
                else json.dumps({"id": identity, "balance": balance, "status": "open"})
            )
            producer.send(
                "accounts",
                value,
                key=identity,
                partition=partition,
                timestamp_ms=START_MS + minute * MINUTE_MS,
            )


def archive(log: LogClient, lake: Lake) -> None:
    spec = TopicSpec(name="accounts", archive=Archive(chunk_records=4))
    run_archive(
        spec,
        ArchiveContext(
            log=log,
            lake=lake,
            note=lambda _: None,
            pin=lambda _: None,
            run_id="archive",
            commit_attempts=3,
        ),
    )


def overtake(
    broker: BrokerProcess, log: LogClient, lake: Lake, run: Callable[..., TopicRunResult]
) -> None:
    """Have the table read the first records, retention take what comes next, and the table read on."""
    send(broker, READ)
    run()
    send(broker, TAKEN)
    archive(log, lake)
    log.delete_records(
        "accounts", {one.partition: one.high_watermark for one in log.partition_offsets("accounts")}
    )
    send(broker, LEFT)
    while run().version is not None:
        pass


@pytest.mark.parametrize("limit", [1_000, 4], ids=["at once", "in pieces"])
def test_a_table_of_the_lake_is_as_if_the_log_still_held_all(
    broker: BrokerProcess, spark: Any, tmp_path: Path, limit: int
) -> None:
    lake, table = Lake(tmp_path / "lake"), accounts_table()
    with connect(broker.bootstrap) as log:
        context = run_context(log, lake.root, spark, records_per_run=limit)  # type: ignore[arg-type]
        overtake(broker, log, lake, lambda: run_topic_table(table, context))
        assert held_accounts(lake.root) == EXPECTED
        assert [letter[:3] for letter in letters_of(lake.root)] == [(0, 5, "balance_is_positive")]

        send(broker, [(0, "a", 4, 70), (1, "g", 2, 70)])
        run_topic_table(table, context)
        remembered = remembered_deletions(lake.existing("accounts"))
        assert remembered is not None
        assert remembered["id"].to_pylist() == ["f"], (
            "what was read from the archive is past, and forgotten as ever"
        )

        (replayed,) = run_replay(table, context, ReplayRequest(is_everything=True))
        assert str(replayed.ranges) == "0:[0,10) 1:[0,9)"
        assert held_accounts(lake.root) == {**EXPECTED, "a": 4, "g": 2}


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_table_of_a_database_is_as_if_the_log_still_held_all(
    broker: BrokerProcess, spark: Any, tmp_path: Path, kind: str
) -> None:
    lake, table = Lake(tmp_path / "lake"), killed_storing.follower("mine", is_keyed=True)
    with connect(broker.bootstrap) as log, storing(kind, tmp_path) as (place, work):
        context = run_context(log, lake.root, spark, records_per_run=4)  # type: ignore[arg-type]
        overtake(broker, log, lake, lambda: work.run(table, context))
        assert dict(place.rows("mine", "id", "balance")) == EXPECTED


@contextmanager
def storing(kind: str, directory: Path) -> Iterator[tuple[Any, Storing]]:
    table = killed_storing.follower("mine", is_keyed=True)
    with database(kind, directory) as place, place.store("mine", table.latest_by) as store:
        yield place, Storing(declared=killed_storing.declared(place, table), store=store)
