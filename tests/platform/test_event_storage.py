"""Dagster's storage keeps connections.

Every other program that opens the files sees every event, and files are closed again.
"""

import threading
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events.log import EventLogEntry
from sqlalchemy import Engine, event, text

from orchestration.installation.event_storage import (
    MAX_KEPT,
    KeptEngines,
    KeptEventLogStorage,
    KeptRunStorage,
    KeptScheduleStorage,
    shared_connections,
)
from orchestration.installation.instance import open_instance, write_configuration

pytestmark = pytest.mark.platform
KEY = dg.AssetKey("a")


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    write_configuration(tmp_path)
    with open_instance(tmp_path) as instance:
        assert isinstance(instance.event_log_storage, KeptEventLogStorage)
        assert isinstance(instance.run_storage, KeptRunStorage)
        assert isinstance(instance.schedule_storage, KeptScheduleStorage)
        yield instance


def stock(directory: Path) -> dg.DagsterInstance:
    """Return an instance over the same files with Dagster's own storage.

    A dagster.yaml without ours has it.
    """
    return dg.DagsterInstance.from_config(str(directory), config_filename="no-such.yaml")


def new_run(instance: dg.DagsterInstance) -> dg.DagsterRun:
    run = dg.DagsterRun(job_name="job")
    instance.add_run(run)
    return run


def messages(instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[str]:
    return [entry.message for entry in instance.all_logs(run.run_id)]


def test_others_see_each_event_at_once_and_write_beside_us(
    kept: dg.DagsterInstance, tmp_path: Path
) -> None:
    run = new_run(kept)
    kept.report_engine_event("first", run)
    kept.report_runless_asset_event(dg.AssetMaterialization(KEY, metadata={"rows": 1}))
    with stock(tmp_path) as other:
        assert messages(other, run) == ["first"]
        other.report_engine_event("second", run)
        other.add_run_tags(run.run_id, {"seen": "yes"})
        event = other.get_latest_materialization_event(KEY)
        assert event is not None
    assert messages(kept, run) == ["first", "second"]
    found = kept.get_run_by_id(run.run_id)
    assert found is not None
    assert found.tags["seen"] == "yes"


def test_a_commit_waits_for_no_disk_and_no_loss_of_power_breaks_a_database(
    kept: dg.DagsterInstance,
) -> None:
    storage = kept.event_log_storage
    assert isinstance(storage, KeptEventLogStorage)
    with storage.index_connection() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 1


def test_the_ui_is_told_of_an_event_while_the_run_goes_on(
    kept: dg.DagsterInstance, tmp_path: Path
) -> None:
    run = new_run(kept)
    kept.report_engine_event("first", run)
    seen, is_seen = [], threading.Event()

    def note(entry: EventLogEntry, _cursor: str) -> None:
        seen.append(entry.message)
        is_seen.set()

    with stock(tmp_path) as other:
        other.event_log_storage.watch(run.run_id, None, note)
        kept.report_engine_event("second", run)
        assert is_seen.wait(30)
        other.event_log_storage.end_watch(run.run_id, note)
    assert seen[:1] == ["first"]


def test_files_that_exist_are_opened_as_they_are_and_missing_ones_are_made(
    kept: dg.DagsterInstance, tmp_path: Path
) -> None:
    run = new_run(kept)
    kept.report_engine_event("first", run)
    kept.dispose()
    for _ in range(2):
        with open_instance(tmp_path) as again:
            assert isinstance(again.schedule_storage, KeptScheduleStorage)
            assert messages(again, run) == ["first"]
            assert again.all_instigator_state() == []
    (tmp_path / "schedules" / "schedules.db").unlink()
    with open_instance(tmp_path) as again:
        assert again.all_instigator_state() == []


def test_only_so_many_files_stay_open_and_none_after_the_end(
    kept: dg.DagsterInstance, tmp_path: Path
) -> None:
    runs = [new_run(kept) for _ in range(MAX_KEPT + 3)]
    for run in runs:
        kept.report_engine_event("first", run)
    assert len(open_databases(tmp_path / "history")) <= MAX_KEPT + 1  # those of events, the runs
    for run in runs:
        kept.report_engine_event("second", run)
    assert [messages(kept, run) for run in runs] == [["first", "second"]] * len(runs)
    kept.dispose()
    assert open_databases(tmp_path / "history") == set()


def open_databases(directory: Path) -> set[Path]:
    targets = {link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()}
    return {one for one in targets if one.is_relative_to(directory) and one.suffix == ".db"}


def test_a_data_directory_may_be_moved(
    kept: dg.DagsterInstance, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = new_run(kept)
    kept.report_engine_event("first", run)
    kept.dispose()
    moved = tmp_path.rename(tmp_path_factory.mktemp("elsewhere") / "dagster")
    with open_instance(moved) as again:
        assert messages(again, run) == ["first"]


def test_threads_that_ask_at_once_get_one_engine(tmp_path: Path) -> None:
    engines = KeptEngines()
    gate = threading.Barrier(8)
    got: list[object] = []

    def ask() -> None:
        gate.wait()
        got.extend(engines.of(f"sqlite:///{tmp_path / 'one.db'}") for _ in range(200))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    engines.close()
    assert len(set(map(id, got))) == 1


def test_what_a_database_has_been_seen_to_have_is_not_looked_for_again(
    kept: dg.DagsterInstance,
) -> None:
    """Each tick of a sensor asks for states several times.

    Dagster listed the tables before each of them.
    """
    states = [kept.all_instigator_state() for _ in range(2)]
    statements: list[str] = []
    storage = kept.schedule_storage
    assert storage is not None
    with storage.connect() as connection:  # type: ignore[attr-defined]
        engine = connection.engine

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(" ".join(statement.split()))

    event.listen(engine, "before_cursor_execute", note)
    assert kept.all_instigator_state() == states[0]
    assert [one.partition(" FROM ")[2].partition(" ")[0] for one in statements] == ["instigators"]


def look(directory: Path) -> list[str]:
    """Open the instance, as a tick of a sensor does, and return the jobs of its runs."""
    with open_instance(directory) as instance:
        instance.all_instigator_state()
        instance.get_latest_materialization_event(KEY)
        return [run.job_name for run in instance.get_runs()]


def test_an_instance_that_is_opened_again_and_again_opens_no_file_again(
    kept: dg.DagsterInstance, tmp_path: Path
) -> None:
    """Each tick of a sensor opens the instance.

    To open its files was half of the cost of a tick of nothing.
    """
    opened: list[object] = []
    new_run(kept)

    def note(connection: object, _record: object) -> None:
        opened.append(connection)

    event.listen(Engine, "connect", note)
    try:
        with shared_connections():
            assert look(tmp_path) == ["job"]
            at_first = len(opened)
            new_run(kept)
            assert look(tmp_path) == look(tmp_path) == ["job", "job"], "what others wrote is seen"
            assert len(opened) == at_first
            kept.dispose()
            assert open_databases(tmp_path / "history")
        assert open_databases(tmp_path / "history") == set(), "the end closes all of them"
        assert look(tmp_path) == ["job", "job"]
        assert len(opened) > at_first
    finally:
        event.remove(Engine, "connect", note)


def test_what_one_storage_has_seen_the_next_one_looks_for_no_more(
    kept: dg.DagsterInstance, tmp_path: Path
) -> None:
    run = new_run(kept)
    kept.report_runless_asset_event(dg.AssetMaterialization(KEY))
    statements: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(" ".join(statement.split()))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        with shared_connections():
            look(tmp_path)
            statements.clear()
            look(tmp_path)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    looked = [
        one
        for one in statements
        if "alembic_version" in one or "secondary_indexes" in one or "sqlite_master" in one
    ]
    assert looked == []
    assert run.job_name == "job"


def test_a_run_s_file_that_was_removed_is_made_again_by_a_storage_that_shares(
    kept: dg.DagsterInstance, tmp_path: Path
) -> None:
    run = new_run(kept)
    kept.report_engine_event("first", run)
    with shared_connections():
        for expected in (["first"], []):
            with open_instance(tmp_path) as instance:
                assert messages(instance, run) == expected
                storage = instance.event_log_storage
                assert isinstance(storage, KeptEventLogStorage)
                path = Path(storage.path_for_shard(run.run_id))
                for one in path.parent.glob(f"{run.run_id}*"):
                    one.unlink()
                storage._kept.close()


def test_threads_that_look_at_once_share(kept: dg.DagsterInstance, tmp_path: Path) -> None:
    new_run(kept)
    found: list[list[str]] = []
    with shared_connections():
        threads = [threading.Thread(target=lambda: found.append(look(tmp_path))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [["job"]] * 4
