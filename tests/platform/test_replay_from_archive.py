"""A replay restores the table as it was, from an archive of records of all kinds.

There is a real broker, DeleteRecords, and replays in processes of their own.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from log_service.client import BlockingAdmin, BlockingProducer, NewTopic
from orchestration.lake.tables import Lake
from orchestration.log_client.connection import connect
from orchestration.log_client.protocol import LogClient
from orchestration.offsets.planning import ProgressError
from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.archiving import Archive
from orchestration.transforms.archiving.run import ArchiveContext, run_archive
from orchestration.transforms.replay.plan import ReplayRequest, plan
from orchestration.transforms.run.context import RunContext
from orchestration.transforms.to_lake.replay import run_replay
from orchestration.transforms.to_lake.run import run_topic_table
from tests.helpers.broker_process import BrokerProcess
from tests.platform import dying, killed_archived_replay
from tests.platform.dying import KILLED
from tests.platform.installation import wait_until
from tests.platform.killed_archived_replay import TABLE
from tests.platform.pipeline import run_context

pytestmark = [pytest.mark.platform, pytest.mark.timeout(400)]
DAY_MS = 86_400_000
DAYS = 8
START_MS = 1_767_225_600_000
KILLED_AT = ("replay-before-dead-letters", "replay-before-target", "replay-after-target")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path) as process:
        with BlockingAdmin(process.bootstrap) as admin:
            admin.create_topics([NewTopic(name="events", partition_count=2, replication_factor=1)])
        send(process.bootstrap)
        yield process


def send(bootstrap: str) -> None:
    """Send records of several days.

    They are with and without key, value and headers, bytes that are no text, one transaction and an
    aborted one.
    """
    with BlockingProducer(bootstrap, transactional_id="t", compression="zstd") as producer:
        producer.init_transactions()
        for number, is_kept in ((0, True), (1, False), (2, True)):
            producer.begin_transaction()
            for position in range(10):
                headers = (
                    [("again", b"1"), ("again", None)]
                    if position % 2
                    else [("n", b"\xff%d" % position)]
                )
                stamp = START_MS + number * DAY_MS
                producer.send(
                    "events",
                    b"%d-%d" % (number, position),
                    key=b"\xfe\x00",
                    headers=headers,
                    timestamp_ms=stamp,
                    partition=0,
                )
            producer.flush()
            producer.commit_transaction() if is_kept else producer.abort_transaction()
    with connect(bootstrap) as log:
        wait_until(
            lambda: is_settled(log), 60, lambda: "the markers of the transactions did not come"
        )
    with BlockingProducer(bootstrap) as producer:
        for number in range(60):
            value = None if number % 9 == 0 else b"\x80" * (number % 3)
            stamp = START_MS + 3 * DAY_MS + (number % 7) * DAY_MS // 2
            producer.send(
                "events",
                value,
                key=None if number % 4 else b"",
                timestamp_ms=stamp,
                partition=number % 2,
            )
        producer.flush()


def is_settled(log: LogClient) -> bool:
    return all(
        one.last_stable_offset == one.high_watermark for one in log.partition_offsets("events")
    )


def archive(log: LogClient, lake: Lake) -> None:
    spec = TopicSpec(name="events", archive=Archive(chunk_records=16))
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


def rows(lake: Lake) -> list[dict[str, Any]]:
    found = lake.existing("events_kept").dataset().to_table()
    return list(found.sort_by([("_partition", "ascending"), ("_offset", "ascending")]).to_pylist())


def spoil(lake: Lake) -> None:
    """Spoil every row, so that only what a replay has read can be right."""
    snapshot = lake.existing("events_kept")
    table = snapshot.dataset().to_table()
    spoilt = table.set_column(
        table.schema.get_field_index("_value"),
        "_value",
        pa.array([b"spoilt"] * table.num_rows, pa.binary()),
    )
    write_deltalake(snapshot.delta, spoilt, mode="overwrite")


def test_a_replay_reads_what_the_broker_has_deleted_as_it_was(
    broker: BrokerProcess, spark_remote: str, tmp_path: Path
) -> None:
    lake_root = tmp_path / "lake"
    lake, arguments = Lake(lake_root), (spark_remote, broker.bootstrap, str(lake_root))
    code, output = dying.start(killed_archived_replay.main, tmp_path, *arguments, "run").finish()
    assert code == 0, output
    before = rows(lake)
    assert len(before) == 80
    with connect(broker.bootstrap) as log:
        archive(log, lake)
        ends = {one.partition: one.high_watermark for one in log.partition_offsets("events")}
        log.delete_records("events", {0: ends[0] - 5, 1: ends[1]})
    for step in KILLED_AT:
        spoil(lake)
        code, output = dying.start(killed_archived_replay.main, tmp_path, *arguments, step).finish()
        assert code == KILLED, output
        assert [(row["_partition"], row["_offset"]) for row in rows(lake)] == [
            (row["_partition"], row["_offset"]) for row in before
        ]
    code, output = dying.start(killed_archived_replay.main, tmp_path, *arguments, "replay").finish()
    assert code == 0, output
    assert rows(lake) == before


@pytest.mark.parametrize("arrow_records", [1_000, 3], ids=["the run reads", "workers read"])
def test_ranges_and_days_are_found_and_replayed(
    broker: BrokerProcess, spark: Any, tmp_path: Path, arrow_records: int
) -> None:
    lake = Lake(tmp_path / "lake")
    requests = [
        ReplayRequest(ranges=(OffsetRange(partition=0, start=3, end=40),)),
        *(
            ReplayRequest(from_ms=START_MS + day * DAY_MS, to_ms=START_MS + (day + 1) * DAY_MS)
            for day in range(DAYS)
        ),
    ]
    with connect(broker.bootstrap) as log:
        context = context_of(log, lake, spark, tmp_path, arrow_records)
        run_topic_table(TABLE, context)
        before = rows(lake)
        planned = [
            (0, row["_offset"])
            for row in before
            if row["_partition"] == 0 and row["_offset"] in requests[0].ranges[0]
        ]
        archive(log, lake)
        ends = {one.partition: one.high_watermark for one in log.partition_offsets("events")}
        log.delete_records("events", ends)
        spoil(lake)
        found = [places_in(before, plan(TABLE, context, one).ranges) for one in requests]
        assert found == [planned, *(of_day(before, day) for day in range(DAYS))]
        assert sum(map(len, found[1:])) == len(before)
        for one in requests[1:]:
            list(run_replay(TABLE, context, one))
        assert rows(lake) == before


def of_day(found: list[dict[str, Any]], day: int) -> list[tuple[int, int]]:
    """Return the places of the records of a day.

    A record counts as at least as late as those before it in its partition.
    """
    places, newest = [], {0: 0, 1: 0}
    for row in found:
        number = row["_partition"]
        newest[number] = max(newest[number], int(row["_timestamp"].timestamp() * 1000))
        if day == (newest[number] - START_MS) // DAY_MS:
            places.append((number, row["_offset"]))
    return places


def places_in(found: list[dict[str, Any]], ranges: OffsetRanges) -> list[tuple[int, int]]:
    """Return the places of the records in ``ranges``."""
    places = [(row["_partition"], row["_offset"]) for row in found]
    return [
        place
        for place in places
        if any(place[0] == one.partition and place[1] in one for one in ranges)
    ]


def context_of(
    log: LogClient, lake: Lake, spark: Any, directory: Path, arrow_records: int
) -> RunContext:
    return run_context(
        log,  # type: ignore[arg-type]
        lake.root,
        spark,
        arrow_records=arrow_records,
        scratch=directory / "scratch",
    )


def test_without_an_archive_the_records_are_lost(
    broker: BrokerProcess, spark: Any, tmp_path: Path
) -> None:
    lake = Lake(tmp_path / "lake")
    with connect(broker.bootstrap) as log:
        context = context_of(log, lake, spark, tmp_path, 1_000)
        run_topic_table(TABLE, context)
        log.delete_records("events", {0: 10})
        with pytest.raises(
            ProgressError,
            match=r"neither the log nor an archive of the topic holds \[3, 10\): those records are gone",
        ):
            list(
                run_replay(
                    TABLE,
                    context,
                    ReplayRequest(ranges=(OffsetRange(partition=0, start=3, end=40),)),
                )
            )


RUN_KILLED_AT = ("before-dead-letters", "before-target", "after-target")


def test_a_table_that_retention_has_overtaken_reads_the_archive_and_is_as_the_log_was(
    broker: BrokerProcess, spark_remote: str, tmp_path: Path
) -> None:
    """It is killed meanwhile, and comes from the archive to the log without a run that says so."""
    whole, behind = Lake(tmp_path / "whole"), Lake(tmp_path / "behind")
    arguments = (spark_remote, broker.bootstrap)

    def run(lake: Lake, step: str) -> int | None:
        code, output = dying.start(
            killed_archived_replay.main, tmp_path, *arguments, str(lake.root), step
        ).finish()
        assert code in {0, KILLED}, output
        return code

    assert run(behind, "piece") == 0
    assert run(whole, "run") == 0
    with connect(broker.bootstrap) as log:
        archive(log, behind)
        ends = {one.partition: one.high_watermark for one in log.partition_offsets("events")}
        assert len(rows(behind)) < len(rows(whole)) == 80
        log.delete_records("events", {0: ends[0] - 5, 1: ends[1]})
    assert [run(behind, step) for step in RUN_KILLED_AT] == [KILLED] * len(RUN_KILLED_AT)
    assert run(behind, "run") == 0
    assert rows(behind) == rows(whole)


@pytest.mark.parametrize("arrow_records", [1_000, 3], ids=["the run reads", "workers read"])
def test_what_the_archive_does_not_hold_is_refused_and_nothing_of_it_is_passed_over(
    broker: BrokerProcess, spark: Any, tmp_path: Path, arrow_records: int
) -> None:
    """Retention has removed more than was archived: the archive alone does not make a gap a run's
    own.
    """
    lake = Lake(tmp_path / "lake")
    with connect(broker.bootstrap) as log:
        context = replace(context_of(log, lake, spark, tmp_path, arrow_records), records_per_run=20)
        run_topic_table(TABLE, context)
        before = rows(lake)
        archive(log, lake)
        with BlockingProducer(broker.bootstrap) as producer:
            for _ in range(3):
                producer.send("events", b"late", partition=1)
            producer.flush()
        ends = {one.partition: one.high_watermark for one in log.partition_offsets("events")}
        log.delete_records("events", {1: ends[1]})
        with pytest.raises(
            ProgressError,
            match=r"events-1: the offsets \[10, 33\) were removed from the log before the table read them",
        ):
            run_topic_table(TABLE, context)
        assert rows(lake) == before
