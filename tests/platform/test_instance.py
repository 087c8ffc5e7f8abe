"""The instance of an installation gives Dagster its configuration.

Dead runs are settled before anything starts.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import dagster as dg
import pytest
import yaml  # type: ignore[import-untyped]
from dagster._core.instance.config import PoolGranularity
from dagster._core.run_coordinator import DefaultRunCoordinator

from log_service.client import ConfigError
from orchestration.installation import instance as instance_module
from orchestration.installation.instance import (
    DAGSTER_YAML,
    DEAD_RUN,
    POSTGRES_YAML,
    fail_dead_runs,
    open_instance,
    write_configuration,
    write_workspace,
)
from orchestration.project.home import dagster_home
from tests.helpers.postgres import postgres

pytestmark = pytest.mark.platform


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_configuration(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def instance(home: Path) -> Iterator[dg.DagsterInstance]:
    with open_instance(home) as opened:
        yield opened


def test_dagster_understands_every_key(instance: dg.DagsterInstance) -> None:
    assert isinstance(instance.run_coordinator, DefaultRunCoordinator)
    assert instance.run_monitoring_enabled
    assert instance.run_monitoring_poll_interval_seconds == 5
    assert instance.run_retries_enabled
    assert "FRESHNESS_DAEMON" in instance.get_required_daemon_types(), (
        "it judges freshness policies"
    )
    assert instance.run_retries_max_retries == 3
    assert not instance.run_retries_retry_on_asset_or_op_failure
    assert not instance.telemetry_enabled
    assert instance.python_log_level == "INFO"
    assert instance.scheduler is not None
    assert instance.get_settings("sensors") == {
        "use_threads": True,
        "num_workers": 4,
        "num_submit_workers": 4,
    }
    assert instance.event_log_storage.get_pool_config().default_pool_limit == 1
    assert instance.get_concurrency_config().pool_config.pool_granularity is PoolGranularity.OP


def test_no_other_account_can_read_what_runs_tell_nor_lock_the_databases(tmp_path: Path) -> None:
    (tmp_path / "dagster").mkdir(mode=0o755)
    write_configuration(tmp_path / "dagster")
    assert (tmp_path / "dagster").stat().st_mode & 0o777 == 0o700


def test_what_a_person_changed_stays(home: Path) -> None:
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    write_configuration(home)
    assert (home / "dagster.yaml").read_text() == "telemetry:\n  enabled: false\n"


def test_what_an_earlier_release_wrote_is_replaced_where_nobody_changed_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = "telemetry:\n  enabled: false\n# an earlier release\n"
    monkeypatch.setattr(
        instance_module, "EARLIER_CONFIGURATIONS", {sha256(earlier.encode()).hexdigest()}
    )
    (home / "dagster.yaml").write_text(earlier)
    write_configuration(home)
    assert (home / "dagster.yaml").read_text() == DAGSTER_YAML


@pytest.mark.parametrize("text", [DAGSTER_YAML, POSTGRES_YAML], ids=["sqlite", "postgres"])
def test_the_configuration_says_nothing_twice(text: str) -> None:
    keys = [
        line.partition(":")[0]
        for line in text.splitlines()
        if line and not line.startswith((" ", "#"))
    ]
    assert sorted(set(keys)) == sorted(keys) == sorted(yaml.safe_load(text))


def test_the_setting_moves_the_storage_to_postgresql_and_back_where_nobody_changed_the_file(
    home: Path,
) -> None:
    write_configuration(home, is_postgres=True)
    changed = yaml.safe_load((home / "dagster.yaml").read_text())
    assert changed.pop("storage")["custom"]["config"] == {
        "postgres_url": {"env": "TIDELOG_POSTGRES_URL"}
    }
    before = yaml.safe_load(DAGSTER_YAML)
    assert before.pop("storage")
    assert changed == before
    write_configuration(home)
    assert (home / "dagster.yaml").read_text() == DAGSTER_YAML


def test_a_file_of_ones_own_that_does_not_read_the_setting_is_told(home: Path) -> None:
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    with pytest.raises(
        ConfigError,
        match=r"which you have changed, does not read it(.|\n)*env: TIDELOG_POSTGRES_URL",
    ):
        write_configuration(home, is_postgres=True)
    assert (home / "dagster.yaml").read_text() == "telemetry:\n  enabled: false\n"


def test_postgresql_needs_its_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(instance_module, "POSTGRES_PACKAGES", ("no_such_package",))
    with pytest.raises(
        ConfigError, match=r"needs no_such_package: pip install 'tidelog\[platform,postgres\]'"
    ):
        write_workspace(tmp_path / "data", tmp_path, Path("/run/code.sock"), is_postgres=True)


def prepared(home: Path, url: str) -> subprocess.CompletedProcess[str]:
    """Return the output of the preparation of an instance with its history in PostgreSQL.

    `tidelog up` shows the end of that.
    """
    pytest.importorskip("psycopg")
    write_configuration(home, is_postgres=True)
    environment = {**os.environ, "DAGSTER_HOME": str(home), "TIDELOG_POSTGRES_URL": url}
    command = [sys.executable, "-m", "orchestration", "instance", "prepare"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://tests:open%20sesame@127.0.0.1:1/none", "Connection refused"),
        ("postgresql://tests:sesame@127.0.0.1:99999/none", "invalid port"),
        ("postgresql://tests:ses@me@127.0.0.1:1/none", "have to be written as %2F, %3A, %40"),
        ("postgresql://tests:ses/ame@127.0.0.1:1/none", "have to be written as %2F, %3A, %40"),
    ],
)
def test_a_database_that_cannot_be_used_is_told_at_the_end_and_without_its_password(
    home: Path, url: str, said: str
) -> None:
    finished = prepared(home, url)
    assert finished.returncode == 1
    last = finished.stderr.strip().splitlines()[-1]
    assert last.startswith(
        (
            "the database that TIDELOG_POSTGRES_URL names cannot be used: ",
            "TIDELOG_POSTGRES_URL cannot be read",
        )
    )
    assert said in last
    assert "ses" not in finished.stderr


def test_a_database_that_is_not_there_is_named(home: Path) -> None:
    with postgres() as url:
        finished = prepared(home, url.replace("+psycopg", "").replace("/postgres?", "/none_such?"))
        assert finished.returncode == 1
        assert 'database "none_such" does not exist' in finished.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    "status",
    [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED],
)
def test_a_run_whose_process_is_gone_is_failed_and_tried_again(
    instance: dg.DagsterInstance, status: dg.DagsterRunStatus
) -> None:
    dead = dg.DagsterRun(job_name="job", status=status)
    instance.add_run(dead)
    ended = dg.DagsterRun(job_name="job", status=dg.DagsterRunStatus.SUCCESS)
    instance.add_run(ended)
    assert [run.run_id for run in fail_dead_runs(instance)] == [dead.run_id]
    failed = instance.get_run_by_id(dead.run_id)
    assert failed is not None
    assert failed.status is dg.DagsterRunStatus.FAILURE
    assert failed.tags["dagster/will_retry"] == "true"
    assert any(entry.message == DEAD_RUN for entry in instance.all_logs(dead.run_id))
    assert fail_dead_runs(instance) == []


def test_the_command_settles_dead_runs_and_names_them(
    instance: dg.DagsterInstance, home: Path
) -> None:
    dead = dg.DagsterRun(job_name="job", status=dg.DagsterRunStatus.STARTED)
    instance.add_run(dead)
    command = [sys.executable, "-m", "orchestration", "instance", "prepare"]
    finished = subprocess.run(
        command,
        env={**os.environ, "DAGSTER_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert finished.stdout == f"run {dead.run_id} failed, its process was gone\n"


def test_a_workspace_needs_a_project(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"is not a project: it has no folder assets/ .* tidelog init NAME"
    ):
        write_workspace(tmp_path / "data", tmp_path, Path("/run/code.sock"))
    (tmp_path / "assets").mkdir()
    with pytest.raises(ConfigError, match=r"its folder assets/ has no __init__.py"):
        write_workspace(tmp_path / "data", tmp_path, Path("/run/code.sock"))
    (tmp_path / "assets" / "__init__.py").write_text("")
    path = write_workspace(tmp_path / "data", tmp_path, Path("/run/code.sock"))
    assert path.parent == dagster_home(tmp_path / "data")
    assert (
        yaml.safe_load(path.read_text())["load_from"][0]["grpc_server"]["socket"]
        == "/run/code.sock"
    )


PRINTS = """
import os, sys
import psutil
from pathlib import Path
from orchestration.installation.instance import open_instance
with open_instance(Path(sys.argv[1])) as instance, instance.compute_log_manager.capture_logs(["run", "compute_logs", "step"]):
    print("printed by the step")
    os.write(2, b"written by a library\\n")
    assert psutil.Process().children() == [], psutil.Process().children()
"""


def test_what_a_run_prints_is_kept_and_nothing_is_started_for_it(
    instance: dg.DagsterInstance, home: Path
) -> None:
    said = subprocess.run(
        [sys.executable, "-c", PRINTS, str(home)], check=True, capture_output=True, text=True
    )
    found = instance.compute_log_manager.get_log_data(["run", "compute_logs", "step"])
    assert (found.stdout, found.stderr) == (b"printed by the step\n", b"written by a library\n")
    assert said.stdout == "", "it is not mirrored"
    assert list((home / "storage" / "run" / "compute_logs").glob("step.out"))
