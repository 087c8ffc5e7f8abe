"""``make`` installs with uv where it is on the PATH, and with pip where uv cannot: no package is installed here."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def program(path: Path, code: int) -> None:
    """Write a program that notes in ``said`` beside its folder what it was asked, and ends with ``code``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\necho "{path.name} $*" >>"{path.parent.parent}/said"\nexit {code}\n')
    path.chmod(0o755)


@pytest.mark.parametrize(("code_of_uv", "code_of_pip", "asked"), [(0, 1, ["uv"]), (1, 0, ["uv", "python"]), (None, 0, ["python"])])
def test_packages_come_by_uv_and_else_by_pip(tmp_path: Path, code_of_uv: int | None, code_of_pip: int, asked: list[str]) -> None:
    if code_of_uv is not None:
        program(tmp_path / "own/uv", code_of_uv)
    program(tmp_path / "venv/bin/python", code_of_pip)
    (tmp_path / "venv/said").symlink_to(tmp_path / "said")
    make, touch = shutil.which("make"), shutil.which("touch")
    assert make is not None
    assert touch is not None
    (tmp_path / "own").mkdir(exist_ok=True)
    (tmp_path / "own/touch").symlink_to(touch)  # the machine may have a uv beside it
    command = [make, f"VENV={tmp_path / 'venv'}", f"{tmp_path / 'venv'}/installed"]
    environment = {"PATH": str(tmp_path / "own")}
    made = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    said = (tmp_path / "said").read_text().splitlines()
    assert [line.partition(" ")[0] for line in said] == asked
    assert all(line.endswith("--constraint constraints.txt --editable .[platform,demo]") for line in said)
