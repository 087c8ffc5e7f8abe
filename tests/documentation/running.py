"""Runs what the documents show: Python as it is printed, and commands as they are typed."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from tests.helpers.documents import ROOT, Block

ADDRESS = "127.0.0.1:9092"
REGISTRY = "http://127.0.0.1:8081"


def environment(bootstrap: str) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TIDELOG_BOOTSTRAP_SERVERS": bootstrap,
        "COLUMNS": "120",
    }


def run_python(block: Block, bootstrap: str, directory: Path, registry: str = REGISTRY) -> None:
    """Run a block against a cluster and a registry, and hold it to what it says that it prints."""
    script = directory / "as_printed.py"
    script.write_text(block.text.replace(ADDRESS, bootstrap).replace(REGISTRY, registry))
    ran = subprocess.run(
        [sys.executable, script],
        cwd=directory,
        env=environment(bootstrap),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    shown = [
        line.partition("# ")[2]
        for line in block.text.splitlines()
        if "print(" in line and "# " in line
    ]
    for line, printed in zip(shown, ran.stdout.splitlines(), strict=True):
        assert printed.startswith(line.partition("...")[0]), (
            f"{block} shows {line}, and this was printed: {printed}"
        )


def words(command: str) -> list[str]:
    program, *arguments = shlex.split(command)
    assert program == "tidelog", f"no test knows how to run {command}"
    return [sys.executable, "-m", "log_service.cli.main", *arguments]
