"""Nothing that a run leaves or shows holds a planted password of the cluster or the database.

A real run sends rows of a database to a broker that asks for a login, two others fail. Then all
files of Dagster's storage, of the runs' output and of the broker, the objects that were alive
during the run, and the arguments of all processes are searched.
"""

import base64
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from log_service.client import BlockingAdmin, ScramUser
from log_service.supervisor.spec import ServiceContext
from orchestration.installation.services import components
from orchestration.log_client.protocol import LogServiceError, OutgoingRecord
from orchestration.offsets.ranges import OffsetRange
from orchestration.resources import LogServiceResource
from tests.helpers.broker_process import HOST, BrokerProcess
from tests.helpers.ports import free_ports

pytestmark = [pytest.mark.platform, pytest.mark.timeout(300)]
PLANTED = "planted-5d02be"
ROOT = Path(__file__).parents[2]
USER = {
    "TIDELOG_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    "TIDELOG_SASL_MECHANISM": "SCRAM-SHA-256",
    "TIDELOG_SASL_USERNAME": "shop",
}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[str]:
    """The address of a listener that lets in who knows the planted password."""
    port = free_ports(1)[0]
    properties = {
        "listeners": f"PLAINTEXT://{HOST}:0,GUARDED://{HOST}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,GUARDED:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.guarded.scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    }
    with BrokerProcess(tmp_path / "broker", properties=properties) as broker:
        with BlockingAdmin(broker.bootstrap) as admin:
            admin.set_scram_users(
                [ScramUser(name="shop", mechanism="SCRAM-SHA-256", password=PLANTED)]
            )
        yield f"{HOST}:{port}"


def holds_secret(content: bytes) -> bool:
    encoded = base64.b64encode(PLANTED.encode()).rstrip(b"=")[:-1]
    return any(one in content for one in (PLANTED.encode(), PLANTED.encode("utf-16-le"), encoded))


def test_nothing_of_a_run_shows_a_secret(tmp_path: Path, guarded: str) -> None:
    database = tmp_path / "people.db"
    engine = sa.create_engine(f"sqlite:///{database}")
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT)"))
        connection.execute(sa.text("INSERT INTO people VALUES (1, 'Ada'), (2, 'Bob')"))
    engine.dispose()
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    environment = {
        **os.environ,
        **USER,
        "TIDELOG_BOOTSTRAP_SERVERS": guarded,
        "TIDELOG_SASL_PASSWORD": PLANTED,
        "TIDELOG_SQL_URL": f"sqlite:///file:{database}?uri=true&mode=rwc&password={PLANTED}",
        "DAGSTER_HOME": str(home),
        "PYTHONPATH": str(ROOT),
    }
    run = subprocess.run(
        [sys.executable, "-m", "tests.platform.planted_project"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "looked around" in run.stdout, run.stderr
    assert "shown by" not in run.stdout
    assert run.stderr.count("STEP_FAILURE") == 2, run.stderr
    assert not holds_secret(run.stdout.encode())
    assert not [line for line in run.stderr.splitlines() if holds_secret(line.encode())]
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert [file for file in files if file.suffix == ".db" and file.is_relative_to(home)], (
        "events are stored"
    )
    assert not [file for file in files if holds_secret(file.read_bytes())]


def test_two_resources_log_in_by_files_of_their_own(
    tmp_path: Path, guarded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**USER, "TIDELOG_SASL_PASSWORD": "of another cluster"}.items():
        monkeypatch.setenv(name, value)
    files = {}
    for name, password in (("right", PLANTED), ("wrong", "wrong")):
        files[name] = tmp_path / f"{name}.properties"
        jaas = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="shop" password="{password}";'
        files[name].write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={jaas}\n"
        )
    right = LogServiceResource(bootstrap_servers=guarded, client_config=str(files["right"]))
    with right.open() as log:
        log.create_topic("told", partitions=1, replication_factor=1, configs={})
        with log.open_sender("told") as sender:
            sender.send_all([("told", OutgoingRecord(key=None, value=b"v"))])
        reader = pickle.loads(pickle.dumps(log.range_reader()))
        (batch,) = reader("told", OffsetRange(partition=0, start=0, end=1))
        assert batch["value"].to_pylist() == [b"v"]
    with right.open_admin() as admin:
        assert [topic.name for topic in admin.list_topics()] == ["told"]
    assert PLANTED not in repr(right)
    wrong = LogServiceResource(bootstrap_servers=guarded, client_config=str(files["wrong"]))
    for other in (wrong, LogServiceResource(bootstrap_servers=guarded)):
        with (
            pytest.raises(LogServiceError, match="SASL_AUTHENTICATION_FAILED"),
            other.open() as log,
        ):
            log.describe_topic("told")


def test_no_process_of_the_platform_is_told_a_secret_by_an_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {
        **USER,
        "TIDELOG_SASL_PASSWORD": PLANTED,
        "TIDELOG_SQL_URL": f"postgresql+psycopg://shop:{PLANTED}@db/shop",
        "TIDELOG_POSTGRES_URL": f"postgresql://shop:{PLANTED}@db/shop",
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    context = ServiceContext(
        data_directory=tmp_path,
        project_directory=ROOT,
        host=HOST,
        bootstrap_servers=f"{HOST}:9092",
        ui_port=1,
        spark_port=2,
        spark_remote="sc://127.0.0.1:3",
    )
    found = components(context)
    assert len(found) == 4
    for component in found:
        told = (component.argv, component.prepare, component.before_stop)
        assert PLANTED not in repr(told), component.name
        assert PLANTED not in repr(component), component.name
    assert not [
        file for file in tmp_path.rglob("*") if file.is_file() and holds_secret(file.read_bytes())
    ]
