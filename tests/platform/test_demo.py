"""A stranger runs the demo with one command, no Java in sight, and a small share of the data.

All has to hold.
"""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from orchestration.dead_letters.table import DeadLetters
from orchestration.demo.directory import DemoError
from orchestration.demo.freshness import Pipeline
from orchestration.demo.story import Story
from orchestration.lake.tables import Lake
from orchestration.settings import load_settings
from orchestration.warehouse.store import Warehouse
from tests.helpers.java_archives import QUICK, SPARK_OPTIONS
from tests.helpers.ports import free_port
from tests.platform.installation import ROOT, environment, path_without_java

pytestmark = [pytest.mark.platform, pytest.mark.timeout(900)]
FLIGHTS = 20_000
SPARK_TOKEN = Path("spark") / "connect.token"
PRIVATE_KEY = re.compile(rb"-----BEGIN PRIVATE KEY-----\s+(\S{40,})")
REFERENCE_ROWS = {
    "airlines": 16,
    "airports": 1_458,
    "planes": 3_322,
    "weather": 26_114,
    "clean_flights": FLIGHTS,
}


def demo(data: Path, path: str, *more: str, directory: Path = ROOT) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "log_service.cli.main", "demo", "--data", str(data), *more]
    variables = environment(PATH=path, COLUMNS="140", **{SPARK_OPTIONS: " ".join(QUICK)})
    return subprocess.Popen(
        command,
        cwd=directory,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return path_without_java(tmp_path_factory.mktemp("path") / "bin")


def test_demo_without_java_ends_well(tmp_path: Path, path: str) -> None:
    data = tmp_path / "demo"
    child = demo(data, path, "--flights", str(FLIGHTS), "--timeout", "600")
    output, _ = child.communicate(timeout=800)
    assert child.returncode == 0, output
    assert "All holds" in output
    assert f"tidelog up --data {data}" in output.replace("\n", "")
    lake = Lake(data / "lake")
    assert {name: lake.existing(name).row_count for name in REFERENCE_ROWS} == REFERENCE_ROWS
    assert lake.existing("flights_with_weather").row_count == FLIGHTS
    assert [row["rule"] for row in DeadLetters(lake).summary()] == ["wind_speed_is_possible"]
    answer = Warehouse(data / "warehouse", lake).query(
        "SELECT sum(flights) AS n FROM arrival_delay_by_carrier_and_hour"
    )
    assert answer["n"].to_pylist() == [FLIGHTS]
    assert (data / "java" / "bin" / "java").exists(), (
        "it ran on some other Java than the one that is installed with it"
    )


@pytest.mark.repeats
def test_demo_on_a_secured_installation_ends_well_and_tells_no_secret(
    tmp_path: Path, path: str
) -> None:
    data = tmp_path / "demo"
    child = demo(data, path, "--secure", "--flights", "2000", "--timeout", "600")
    output, _ = child.communicate(timeout=800)
    assert child.returncode == 0, output
    assert "All holds" in output
    assert "authorizer.class.name" in (data / "broker" / "server.properties").read_text()
    secrets = secrets_of(data)
    assert len(secrets) == 5, "authority, node, operator, platform, Spark's token"
    told = {
        path: path.read_bytes()
        for path in data.rglob("*")
        if path.is_file() and not is_secret(path.relative_to(data))
    }
    assert any(
        path.suffix == ".db" and b"ASSET_MATERIALIZATION" in content
        for path, content in told.items()
    ), "events of real runs"
    assert not [path for path, content in told.items() for secret in secrets if secret in content]
    assert not [secret for secret in secrets if secret in output.encode()]


def is_secret(path: Path) -> bool:
    return path.parts[0] in {"security", "java"} or path == SPARK_TOKEN


def secrets_of(data: Path) -> set[bytes]:
    """Return the beginning of each private key's text, and Spark's token."""
    files = [path for path in (data / "security").rglob("*") if path.suffix in {".pem", ".key"}]
    keys = {match[1] for path in files if (match := PRIVATE_KEY.search(path.read_bytes()))}
    return {*keys, (data / SPARK_TOKEN).read_bytes().strip()}


def test_interrupted_demo_stops_everything_and_says_so(tmp_path: Path, path: str) -> None:
    data = tmp_path / "demo"
    child = demo(data, path, "--flights", "1000")
    deadline = time.monotonic() + 120
    while not (data / "logs" / "spark.log").exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    output, _ = child.communicate(timeout=120)
    assert child.returncode == 130, output
    assert "interrupted" in output
    assert "broker  stopped" in output


def test_a_broker_that_is_not_there_yet_is_waited_for_without_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = load_settings(
        {"TIDELOG_DATA": str(tmp_path), "TIDELOG_BOOTSTRAP_SERVERS": f"127.0.0.1:{free_port()}"}
    )
    pipeline = Pipeline.of([])
    story = Story(
        pipeline=pipeline,
        settings=settings,
        console=Console(quiet=True),
        flights=None,
        deadline_s=0.1,
        next_command="",
    )
    with pytest.raises(DemoError, match="nothing more happened"):
        story.run()
    assert not caplog.records


def test_demo_refuses_a_directory_that_is_not_its_own(tmp_path: Path, path: str) -> None:
    (tmp_path / "precious").write_text("mine")
    child = demo(tmp_path, path)
    output, _ = child.communicate(timeout=120)
    assert child.returncode == 1
    assert "was not made by a demo, so it is not emptied" in output
    assert (tmp_path / "precious").read_text() == "mine"


def test_demo_in_a_directory_of_a_stranger_says_where_its_project_is(
    tmp_path: Path, path: str
) -> None:
    """A new project would not help: the demo has no data for its topics."""
    child = demo(tmp_path / "demo", path, directory=tmp_path)
    output, _ = child.communicate(timeout=120)
    assert child.returncode == 1
    assert "start it in a checkout, or name one with --project" in output.replace("\n", " ")
    assert "tidelog init" not in output
    assert not (tmp_path / "demo").exists()
