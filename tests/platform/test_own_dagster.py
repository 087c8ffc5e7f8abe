"""Dagster's own commands run beside a broker that somebody else started.

``dagster dev`` runs in another folder, over a project of YAML, with PostgreSQL as its storage, and
``dg dev`` over the project that ``tidelog init`` writes.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy as sa

from log_service.client import BlockingProducer
from orchestration.installation.instance import open_instance, write_configuration
from orchestration.lake.tables import Lake
from orchestration.log_client.connection import connect
from orchestration.maintenance.history import Limits, prune
from orchestration.project.home import dagster_home
from orchestration.project.new import write_project
from orchestration.resources.database import open_engine
from orchestration.settings import load_settings
from tests.helpers.broker_process import BrokerProcess
from tests.helpers.ports import free_port
from tests.helpers.postgres import postgres
from tests.platform.installation import ROOT, environment, wait_until

pytestmark = [pytest.mark.platform, pytest.mark.timeout(600)]
PATIENCE_S = 180.0
COMPONENTS = """\
type: orchestration.components.TopicComponent
attributes:
  name: payments
  partitions: 2
  value_schema: id BIGINT NOT NULL, paid DOUBLE
---
type: orchestration.components.SqlTransformComponent
attributes:
  name: clean_payments
  topic: payments
  sql: SELECT id, paid * 2 AS paid, _topic_id, _partition, _offset FROM payments WHERE id < 100
  rules:
    - name: paid_is_positive
      condition: paid > 0
"""
AVRO = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
DECLARATIONS = """\
from pathlib import Path

from orchestration.formats import avro_schema, protobuf_schema
from orchestration.infrastructure.mirrors import mirror_assets
from orchestration.settings import load_settings
from orchestration.sources.assets import declared_source, folder_source
from orchestration.spark.session import spark_environment
from orchestration.topics.spec import TopicSpec, topic_asset

ORDERS = TopicSpec(name="orders", schema=avro_schema("orders.avsc", older=["orders.avsc"]))
OTHERS = TopicSpec(name="others", schema=protobuf_schema("orders.proto", message="shop.Order"))
LINES = TopicSpec(name="lines")
topics = [topic_asset(ORDERS), topic_asset(OTHERS), topic_asset(LINES)]
(mirror,) = mirror_assets()
assert mirror.key.path == ["mirrors", "A_to_B"], mirror.description
inbox = folder_source("inbox", topic=LINES, folder="inbox")
project = Path(__file__).parents[1]
assert declared_source("inbox").folder == project / "inbox"
assert str(project) in spark_environment(load_settings({"TIDELOG_DATA": str(project)}), {})["PYTHONPATH"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    (folder / "assets" / "payments").mkdir(parents=True)
    (folder / "assets" / "__init__.py").write_text("")
    (folder / "assets" / "payments" / "defs.yaml").write_text(COMPONENTS)
    write_workspace(folder)
    return folder


def write_workspace(project: Path) -> Path:
    """Write a workspace.yaml as the documents show it, in a folder beside the project, and return
    it.
    """
    elsewhere = project.parent / "elsewhere"
    elsewhere.mkdir()
    location = f"{{module_name: orchestration.definitions, location_name: shop, working_directory: {project}}}"
    file = elsewhere / "workspace.yaml"
    file.write_text(f"load_from:\n  - python_module: {location}\n")
    return file


@pytest.fixture
def postgres_url() -> Iterator[str]:
    with postgres() as url:
        yield url.replace("+psycopg", "")


DAGSTER_DEV = (sys.executable, "-m", "dagster", "dev")
DG_DEV = (sys.executable, "-c", "from dagster_dg_cli.cli import main; main()", "dev")


@contextmanager
def running_dagster(
    folder: Path, variables: dict[str, str], command: Sequence[str] = DAGSTER_DEV
) -> Iterator[Callable[[], str]]:
    """Run ``dagster dev`` in a folder, or ``dg dev``; yields what returns its log. Nothing of it is
    left afterwards.
    """
    log = folder.parent / "dagster.log"
    with log.open("wb") as output:
        whole = [*command, "--port", str(free_port())]
        process = subprocess.Popen(
            whole, cwd=folder, env=variables, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield lambda: f"exit code {process.poll()}\n{log.read_text()[-6000:]}"
    finally:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def partition_count(bootstrap: str, topic: str = "payments") -> int:
    with connect(bootstrap) as log:
        found = log.describe_topic(topic)
    return found.partitions if found else 0


def row_count(data: Path) -> int:
    snapshot = Lake(data / "lake").snapshot("clean_payments")
    return snapshot.row_count if snapshot else 0


def test_relative_paths_begin_at_the_project_wherever_dagster_was_started(tmp_path: Path) -> None:
    """The folder in which Dagster is started is another project.

    It has files of the same names that are no schemas.
    """
    project = tmp_path / "shop"
    workspace = write_workspace(project)
    elsewhere = workspace.parent
    for folder, content in ((project, AVRO), (elsewhere, "of another project")):
        (folder / "assets").mkdir(parents=True)
        (folder / "assets" / "__init__.py").write_text("")
        (folder / "orders.avsc").write_text(content)
        (folder / "mirror.properties").write_text(content)
    (project / "orders.proto").write_text(
        'syntax = "proto3"; package shop; message Order { int64 id = 1; }'
    )
    (project / "mirror.properties").write_text(
        "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
    )
    (elsewhere / "assets" / "orders.py").write_text(
        "raise RuntimeError('another project was loaded')\n"
    )
    (project / "assets" / "orders.py").write_text(DECLARATIONS)

    validate = (sys.executable, "-m", "dagster", "definitions", "validate", "-w", str(workspace))
    variables = environment(DAGSTER_HOME=str(elsewhere), PYTHONPATH=str(ROOT))
    finished = subprocess.run(
        validate,
        cwd=elsewhere,
        env=variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_its_sensor_commits_to_the_lake_and_its_history_is_in_postgresql(
    tmp_path: Path,
    project: Path,
    postgres_url: str,
    spark_remote: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = tmp_path / "data"
    home = dagster_home(data)
    write_configuration(home, is_postgres=True)
    with BrokerProcess(tmp_path / "broker") as broker:
        settings = {
            "TIDELOG_DATA": str(data),
            "TIDELOG_BOOTSTRAP_SERVERS": broker.bootstrap,
            "TIDELOG_SPARK_REMOTE": spark_remote,
            "TIDELOG_POSTGRES_URL": postgres_url,
        }
        variables = environment(**settings, DAGSTER_HOME=str(home), PYTHONPATH=str(ROOT))
        with running_dagster(project.parent / "elsewhere", variables) as explain:
            wait_until(lambda: partition_count(broker.bootstrap) == 2, PATIENCE_S, explain)
            with BlockingProducer(broker.bootstrap) as producer:
                for number in (1, 2, 3, -4, 500):
                    producer.send(
                        "payments", value=json.dumps({"id": number, "paid": float(number)}).encode()
                    )
                producer.flush()
            wait_until(lambda: row_count(data) == 3, PATIENCE_S, explain)
    assert Lake(data / "lake").existing("dead_letters").row_count == 1

    monkeypatch.setenv("TIDELOG_POSTGRES_URL", postgres_url)
    with open_instance(home) as instance:
        assert type(instance.run_storage).__name__ == "PostgresRunStorage"
        event = instance.get_latest_materialization_event(dg.AssetKey(["lake", "clean_payments"]))
        assert event is not None
        run = dg.DagsterRun(job_name="job", status=dg.DagsterRunStatus.SUCCESS)
        instance.add_run(run)
        before = instance.get_runs_count()
        assert prune(instance, Limits(days=0, event_days=0, succeeded_runs=0), 4e9).runs >= 1
        assert instance.get_runs_count() < before
    assert not (home / "history").exists(), "nothing of it is in SQLite"

    engine = open_engine(load_settings({"TIDELOG_POSTGRES_URL": postgres_url}).sql_url.reveal())
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM runs")).scalar() is not None
    engine.dispose()


def test_dg_dev_takes_a_new_project_and_its_sensors_are_on(tmp_path: Path) -> None:
    """The first tick of the topic sensor creates the topic that the project declares."""
    project, home = tmp_path / "shop", tmp_path / "dagster"
    write_project(project)
    write_configuration(home)
    with BrokerProcess(tmp_path / "broker") as broker:
        settings = {
            "TIDELOG_BOOTSTRAP_SERVERS": broker.bootstrap,
            "DAGSTER_HOME": str(home),
            "PYTHONPATH": str(ROOT),
        }
        with running_dagster(project, environment(**settings), DG_DEV) as explain:
            wait_until(
                lambda: partition_count(broker.bootstrap, "orders") == 4, PATIENCE_S, explain
            )
