"""The mirror of ``tidelog up``: there where the project has a file for it."""

from pathlib import Path

import pytest

from log_service.common.errors import ConfigError
from log_service.supervisor.components import mirror_components
from log_service.supervisor.spec import HeartbeatReadiness, ServiceContext

FILE = (
    "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
)


@pytest.fixture
def context(tmp_path: Path) -> ServiceContext:
    (tmp_path / "project").mkdir()
    return ServiceContext(
        data_directory=tmp_path / "data",
        project_directory=tmp_path / "project",
        host="127.0.0.1",
        bootstrap_servers="127.0.0.1:9092",
        ui_port=3000,
        spark_port=15002,
    )


def test_a_project_without_a_file_has_no_mirror(context: ServiceContext) -> None:
    assert mirror_components(context, ["broker"]) == []


def test_the_mirror_starts_after_the_brokers_and_gives_signs(context: ServiceContext) -> None:
    (context.project_directory / "mirror.properties").write_text(FILE)
    (component,) = mirror_components(context, ["broker-1", "broker-2"])
    assert (component.name, component.address, component.after) == (
        "mirror",
        "A->B",
        ("broker-1", "broker-2"),
    )
    assert isinstance(component.readiness, HeartbeatReadiness)
    assert str(component.readiness.path) in component.argv
    assert component.complaint_path is not None
    assert str(component.complaint_path) in component.argv
    assert component.complaint_path.parent.is_dir()


def test_a_file_that_makes_no_sense_stops_the_start(context: ServiceContext) -> None:
    (context.project_directory / "mirror.properties").write_text(FILE.replace("A->B", "A->C"))
    with pytest.raises(ConfigError, match="'C' is not among its clusters"):
        mirror_components(context, ["broker"])
