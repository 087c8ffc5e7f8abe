"""No module of the product knows this sixth kind of table.

Everything that serves tables serves it after one import.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import dagster as dg
import pytest
from click.testing import CliRunner

from orchestration import assembly
from orchestration.calls.fix_trial import follower
from orchestration.cli import surroundings
from orchestration.cli.dead_letters import dead_letters
from orchestration.cli.replay import replay
from orchestration.dead_letters.table import DeadLetters
from orchestration.installation.instance import open_instance, write_configuration
from orchestration.lake.range_commits import append_with_offsets
from orchestration.log_client import connection
from orchestration.offsets.ranges import OffsetRange
from orchestration.project.home import dagster_home
from orchestration.quality import quarantine
from orchestration.resources.lake import LakeResource
from orchestration.retained.lag import measure_lag
from orchestration.settings import load_settings
from orchestration.spark import session
from orchestration.topics.spec import topic_asset
from orchestration.transforms import table_key
from orchestration.transforms.dagster_views.dead_letters import DEAD_LETTERS_KEY
from orchestration.transforms.dagster_views.replays import REPLAYED_TABLE_TAG
from orchestration.transforms.kinds import declared, replayable_names
from orchestration.transforms.replay.plan import ReplayRequest
from tests.platform import sensor_world
from tests.platform.assets_world import World, failure_of
from tests.platform.json_lines import json_lines
from tests.platform.json_lines import run as json_lines_run
from tests.platform.pipeline import ORDERS, order, run_context

pytestmark = [pytest.mark.platform, pytest.mark.timeout(300)]
NAME = "order_lines"
KEY = table_key(NAME)
RULES = (quarantine("amount_is_positive", "amount > 0"),)


def order_lines(records: Any) -> Any:
    """Orders with an amount."""
    return records.selectExpr("_topic_id", "_partition", "_offset", "_timestamp", "id", "amount")


def tenfold(records: Any) -> Any:
    """Orders as a corrected transform makes them."""
    return order_lines(records.selectExpr("* EXCEPT (amount)", "10 * amount AS amount"))


class Lines:
    """The table over a log in memory: what a test appends, and what the folder holds."""

    asset: dg.AssetsDefinition

    def __init__(self, world: World, spark: Any, directory: Path) -> None:
        self.world, self.spark, self.directory = world, spark, directory
        self.partitions = world.log.add_topic("orders", 2).partitions
        self.declare(order_lines)

    def declare(self, function: Any) -> None:
        """Declare the table, or declare it anew with a corrected transform."""
        self.asset = json_lines(name=NAME, topic=ORDERS, directory=self.directory, rules=RULES)(
            function
        )

    def run(self, **config: Any) -> dg.ExecuteInProcessResult:
        """Materialize the asset."""
        run_config = {"ops": {self.asset.op.name: {"config": config}}}
        return dg.materialize(
            [self.asset],
            resources=self.world.resources,
            instance=self.world.instance,
            raise_on_error=False,
            run_config=run_config,
        )

    def committed(self, **config: Any) -> None:
        """Run, and expect success."""
        result = self.run(**config)
        assert result.success, failure_of(result)

    @property
    def rows(self) -> list[tuple[int, int, str, int]]:
        """Every row of every file of the folder, also of files that no commit names."""
        found = [
            json.loads(line)
            for file in self.directory.glob("*.jsonl")
            for line in file.read_text().splitlines()
        ]
        return sorted(
            (row["_partition"], row["_offset"], row["id"], row["amount"]) for row in found
        )

    @property
    def letters(self) -> list[tuple[int, int, str]]:
        return [
            (row["_partition"], row["_offset"], row["rule"])
            for row in DeadLetters(self.world.lake).of_target(NAME)
        ]

    @property
    def lag(self) -> int:
        """The lag behind both partitions."""
        found = measure_lag(self.world.log, self.world.lake, topic="orders", table=NAME)
        assert found is not None
        return found.lag

    @property
    def definitions(self) -> dg.Definitions:
        """The project, as the product assembles it."""
        module = ModuleType("assets.orders")
        vars(module).update(orders=topic_asset(ORDERS), order_lines=self.asset)
        return assembly.assemble([module])


@pytest.fixture
def lines(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        made = Lines(World(tmp_path, spark, instance), spark, tmp_path / "lines")
        for number, partition in enumerate(made.partitions):
            for position in range(3):
                partition.append(order(f"{number}-{position}", position))
        made.partitions[1].append(b"nonsense")
        monkeypatch.setattr(assembly, "default_resources", lambda: made.world.resources)
        yield made


ROWS = [(number, offset, f"{number}-{offset}", offset) for number in (0, 1) for offset in (1, 2)]
LETTERS = [(0, 0, "amount_is_positive"), (1, 0, "amount_is_positive"), (1, 3, "schema")]


def test_the_topic_sensor_starts_its_run_with_a_config_that_fits(
    lake_root: Path, tmp_path: Path
) -> None:
    asset = json_lines(
        name=NAME, topic=sensor_world.ORDERS, directory=tmp_path / "lines", minimum_interval_s=0
    )(order_lines)
    with dg.DagsterInstance.ephemeral() as instance:
        world = sensor_world.World(instance, lake_root)
        world.define(asset)
        sensor_world.append(world, 3)
        context = dg.build_sensor_context(
            instance=instance,
            repository_def=world.repository,
            resources={"log_service": world.log_service, "lake": LakeResource(root=str(lake_root))},
        )
        requests = world.sensor.evaluate_tick(context).run_requests or ()
        assert [one.asset_selection for one in requests] == [[sensor_world.KEY], [KEY]]
        assert requests[1].run_config == {"ops": {asset.op.name: {"config": {"follow_s": 300}}}}
        job = world.repository.get_implicit_job_def_for_assets([KEY])
        assert job is not None
        assert dg.validate_run_config(job.get_subset(asset_selection={KEY}), requests[1].run_config)


def test_a_run_writes_each_row_once_and_commits_offsets_and_dead_letters(lines: Lines) -> None:
    lines.committed()
    lines.committed()
    assert (lines.rows, lines.letters) == (ROWS, LETTERS)
    assert lines.lag == 0
    assert lines.world.log.mirrored == {f"tidelog.{NAME}": {0: 3, 1: 4}}
    shown = lines.world.values(KEY)
    assert {label: shown[label] for label in ("rows", "records", "dead_letters", "lag")} == {
        "rows": 4, "records": 7, "dead_letters": 3, "lag": 0,
    }  # fmt: skip
    assert len(lines.world.instance.fetch_materializations(KEY, limit=10).records) == 1
    lines.partitions[0].append(order("0-3", 3))
    assert lines.lag == 1
    lines.committed(follow_s=1)
    assert lines.rows == sorted([*ROWS, (0, 3, "0-3", 3)])


def test_a_run_that_is_killed_between_file_and_commit_leaves_no_row_twice(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(json_lines_run, "append_with_offsets", die)
        assert not lines.run().success
    assert (lines.rows, lines.letters, lines.lag) == (ROWS, [], 7), (
        "the file is there, and nothing is committed"
    )
    lines.partitions[0].append(order("0-3", 3))
    lines.committed()
    assert (lines.rows, lines.letters, lines.lag) == (sorted([*ROWS, (0, 3, "0-3", 3)]), LETTERS, 0)


def test_a_run_that_is_killed_after_its_commit_is_told_by_the_next_one(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*arguments: Any, **more: Any) -> None:
        append_with_offsets(*arguments, **more)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(json_lines_run, "append_with_offsets", die)
        assert not lines.run().success
    assert (lines.rows, lines.letters, lines.lag) == (ROWS, LETTERS, 0)
    lines.committed()
    assert lines.world.values(KEY)["kind"] == "recovered"
    assert (lines.rows, lines.letters) == (ROWS, LETTERS)


def test_a_replay_replaces_the_rows_of_its_range_and_no_others(lines: Lines) -> None:
    lines.committed()
    lines.declare(tenfold)
    kind = declared(NAME)
    assert kind is not None
    context = run_context(lines.world.log, lines.world.lake.root, lines.spark)
    totals = kind.replay(context, ReplayRequest(ranges=(OffsetRange(partition=1, start=0, end=2),)))
    assert (totals.rows, totals.records, totals.dead_letters, totals.commits) == (1, 2, 1, 1)
    assert lines.rows == [(0, 1, "0-1", 1), (0, 2, "0-2", 2), (1, 1, "1-1", 10), (1, 2, "1-2", 2)]
    assert lines.letters == LETTERS
    assert lines.lag == 0


def test_a_project_gets_its_replay_job_and_its_dead_letters(lines: Lines) -> None:
    graph = lines.definitions.resolve_asset_graph()
    assert graph.get(KEY).parent_keys == {ORDERS.asset_key}
    assert graph.get(DEAD_LETTERS_KEY).parent_keys == {KEY}
    assert f"replay_{NAME}" in {job.name for job in lines.definitions.resolve_all_job_defs()}
    assert NAME in replayable_names()
    assert follower(NAME) is not None


@pytest.fixture
def project(lines: Lines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lines:
    """The table's project as the command line finds it, after a run."""
    lines.committed()

    @contextmanager
    def connect(_servers: str, **_: object) -> Iterator[Any]:
        yield lines.world.log

    settings = load_settings({"TIDELOG_DATA": str(tmp_path)})
    assert settings.lake_root == lines.world.lake.root
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(surroundings, "found_settings", lambda: settings)
    monkeypatch.setattr(surroundings, "loaded_project", lambda: lines.definitions)
    monkeypatch.setattr(connection, "connect", connect)

    def open_noisily(_settings: object) -> Any:
        os.write(2, b"Using Spark's default log4j profile\n")
        return lines.spark

    monkeypatch.setattr(session, "open_session", open_noisily)
    monkeypatch.setattr(session, "close_session", lambda *_: None)
    return lines


def said(command: click.Command, *arguments: str) -> str:
    outcome = CliRunner().invoke(command, arguments)
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def test_the_command_line_replays_its_ranges(project: Lines) -> None:
    project.declare(tenfold)
    arguments = (NAME, "--offsets", "0:2-3")
    assert f"{NAME}: 1 offset would be replayed: 0:[2,3)" in said(replay, *arguments)
    assert said(replay, f"lake/{NAME}", *arguments[1:]) == said(replay, *arguments)
    assert project.rows == ROWS
    assert f"{NAME}: 1 record replayed in 1 commit: 1 row, 0 dead letters" in said(
        replay, *arguments, "--execute"
    )
    assert project.rows == [(0, 1, "0-1", 1), (0, 2, "0-2", 20), *ROWS[2:]]


def test_only_a_replay_that_is_carried_out_is_a_run_of_the_installation(
    project: Lines, tmp_path: Path
) -> None:
    """Dry replays were runs that succeeded, and refused ones were runs that failed."""
    home = dagster_home(tmp_path)
    write_configuration(home)
    said(replay, NAME, "--offsets", "0:2-3")
    refused = CliRunner().invoke(replay, [NAME, "--offsets", "0:2-99", "--execute"])
    assert refused.exit_code == 1
    assert "reaches above the checkpoint 3" in refused.output
    with open_instance(home) as instance:
        assert instance.get_runs() == []
    said(replay, NAME, "--offsets", "0:2-3", "--execute")
    with open_instance(home) as instance:
        (run,) = instance.get_runs()
    assert (run.status, run.tags[REPLAYED_TABLE_TAG]) == (dg.DagsterRunStatus.SUCCESS, NAME)


def test_the_start_of_spark_is_not_told_at_the_terminal(
    project: Lines, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Six lines of Spark's start stood before the answer of a dry fix."""
    capfd.readouterr()
    assert "1 of 1 would be rejected again" in said(
        dead_letters, "fix", NAME, "1:3", "--value", order("1-3", -3).decode()
    )
    assert "log4j" not in capfd.readouterr().err
    assert "log4j" in (tmp_path / "spark" / surroundings.SPARK_LOG).read_text()
    os.write(2, b"afterwards")
    assert capfd.readouterr().err == "afterwards"


def test_the_command_line_lists_tries_fixes_and_replays_its_dead_letters(project: Lines) -> None:
    assert "1:3" in said(dead_letters, "list", NAME, "--rule", "schema")
    fix = ("fix", NAME, "1:3", "--value")
    assert "1 of 1 would be rejected again" in said(dead_letters, *fix, order("1-3", -3).decode())
    assert f"{NAME}: 1 fixed; 1 record replayed: 1 row" in said(
        dead_letters, *fix, order("1-3", 3).decode(), "--execute"
    )
    assert (project.rows, project.letters) == (sorted([*ROWS, (1, 3, "1-3", 3)]), LETTERS[:2])
    project.declare(
        lambda records: order_lines(records.selectExpr("* EXCEPT (amount)", "amount + 1 AS amount"))
    )
    assert "2 dead letters would be replayed" in said(dead_letters, "replay", NAME)
    assert "2 rows, 0 dead letters" in said(dead_letters, "replay", NAME, "--execute")
    assert (project.rows, project.letters) == (
        sorted([(0, 0, "0-0", 1), (1, 0, "1-0", 1), (1, 3, "1-3", 3), *ROWS]),
        [],
    )
