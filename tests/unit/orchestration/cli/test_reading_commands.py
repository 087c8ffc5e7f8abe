"""Commands that read leave nothing behind in the folder that they are called in."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["dead-letters", "list"], "no table has rejected anything"),
        (
            ["dead-letters", "list", "clean_orders"],
            "there is no table or topic clean_orders; there are none",
        ),
        (["dead-letters", "show", "clean_orders", "0:1"], "clean_orders"),
        (
            ["dead-letters", "replay", "clean_orders"],
            "there is no table or topic clean_orders; there are none",
        ),
        (["sql", "SELECT count(*) AS letters FROM dead_letters"], "LETTERS"),
    ],
    ids=" ".join,
)
def test_a_reading_command_creates_nothing(tmp_path: Path, command: list[str], said: str) -> None:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TIDELOG_", "DAGSTER_"))
    }
    ran = subprocess.run(
        [sys.executable, "-m", "log_service.cli.main", *command],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    assert list(tmp_path.iterdir()) == []
