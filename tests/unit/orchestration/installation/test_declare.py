"""The topics of a project are written for its brokers before they start.

Nothing of a project keeps them from it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from log_service.broker.topic_creation.declared import parse_declared
from log_service.supervisor.components import prepared
from log_service.supervisor.spec import Component, UptimeReadiness
from orchestration.installation.declare import is_up_to_date

ROOT = Path(__file__).resolve().parents[4]
TOPICS = "from orchestration.topics.spec import TopicSpec, topic_asset\n\norders = topic_asset(TopicSpec(name='orders', partitions=4))\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    (folder / "assets").mkdir(parents=True)
    (folder / "assets" / "__init__.py").write_text("")
    (folder / "assets" / "topics.py").write_text(TOPICS)
    return folder


def declare(project: Path, file: Path) -> "subprocess.CompletedProcess[str]":
    command = [
        sys.executable,
        "-m",
        "orchestration",
        "declare",
        "--project",
        str(project),
        "--file",
        str(file),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command,
        cwd=file.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_a_project_is_loaded_where_it_is_newer_and_one_that_is_broken_changes_nothing(
    project: Path, tmp_path: Path
) -> None:
    file = tmp_path / "declared.json"
    assert not is_up_to_date(file, project)
    assert declare(project, file).returncode == 0
    assert [
        (one.name, one.num_partitions) for one in parse_declared(file.read_bytes()).values()
    ] == [("orders", 4)]
    assert is_up_to_date(file, project)
    assert not is_up_to_date(file, tmp_path)
    before = file.read_bytes()
    broken = project / "assets" / "broken.py"
    broken.write_text("nowhere()\n")
    os.utime(broken, (4e9, 4e9))
    assert not is_up_to_date(file, project)
    told = declare(project, file)
    assert (told.returncode, file.read_bytes()) == (0, before)
    assert (
        f"the declared topics are as they were: {broken}, line 1, cannot be loaded: NameError"
        in told.stderr
    )


def test_what_was_written_by_something_else_is_not_up_to_date(
    project: Path, tmp_path: Path
) -> None:
    file = tmp_path / "declared.json"
    for content in ("", "[]", json.dumps({"project": "/other"})):
        file.write_text(content)
        assert not is_up_to_date(file, project)


def test_only_brokers_of_the_installation_run_it_first_and_start_whatever_it_ends_with() -> None:
    own = Component(
        name="broker", argv=("serve",), prepare=(("mine",),), readiness=UptimeReadiness()
    )
    mirror = Component(
        name="mirror", argv=("mirror",), is_essential=False, readiness=UptimeReadiness()
    )
    fails = (sys.executable, "-c", "raise SystemExit(3)")
    code = Component(
        name="code", argv=("code",), before_brokers=(fails,), readiness=UptimeReadiness()
    )
    broker, other = prepared([own, mirror], [code])
    assert (broker.prepare[0], other.prepare) == (("mine",), ())
    assert subprocess.run(broker.prepare[1], check=False).returncode == 0
