"""``tidelog sql`` about what a project declares and nothing has built yet."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestration.project.new import write_project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "shop"
    write_project(folder)
    return folder


def asked(project: Path, question: str) -> str:
    """Return the sentence on a question that has no answer."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TIDELOG_", "DAGSTER_"))
    }
    command = [sys.executable, "-m", "log_service.cli.main", "sql", question]
    ran = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1, ran
    return ran.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "revenue_by_country",
            "The project declares the mart revenue_by_country, and it was never built",
        ),
        (
            "clean_orders",
            "The project declares the table clean_orders, and nothing was committed to it yet. `tidelog up` starts a run",
        ),
        ("orders", "orders is a topic of the project: SELECT ... FROM topics.orders"),
        ("nowhere", ""),
    ],
)
def test_what_the_project_declares_is_said_of_a_relation_that_is_not_there(
    project: Path, name: str, said: str
) -> None:
    told = asked(project, f"SELECT * FROM {name}")
    assert f"Table with name {name} does not exist!" in told
    assert "pg_" not in told
    assert said in told
    assert bool(said) == ("of the project" in told or "The project" in told)
