"""``make`` installs with uv where it is on the PATH, and with pip where uv cannot; what fails is
told. No package is installed here.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def program(path: Path, code: int) -> None:
    """Write a program that notes in ``said`` beside its folder what it was asked, and ends with
    ``code``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'#!/bin/sh\necho "{path.name} $*" >>"{path.parent.parent}/said"\nexit {code}\n'
    )
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("code_of_uv", "code_of_pip", "asked"),
    [(0, 1, ["uv"] * 3), (1, 0, ["uv", *["python"] * 3]), (None, 0, ["python"] * 3)],
)
def test_packages_come_by_uv_and_else_by_pip(
    tmp_path: Path, code_of_uv: int | None, code_of_pip: int, asked: list[str]
) -> None:
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
    made = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    said = (tmp_path / "said").read_text().splitlines()
    assert [line.partition(" ")[0] for line in said] == asked
    assert [line.rpartition("--no-build-isolation ")[2] for line in said[-3:]] == [
        "--require-hashes --requirement locks/build.txt",
        "--require-hashes --requirement locks/platform.txt",
        "--editable .",
    ]
    assert all("--no-deps" in line for line in said)


def other_pythons(folder: Path, versions: str) -> subprocess.CompletedProcess[str]:
    """Run what tests other Pythons in ``folder``, where ``own`` is first on the PATH."""
    (folder / ".ci").mkdir()
    script = shutil.copy(ROOT / ".ci/other-pythons", folder / ".ci")
    environment = {
        "PATH": f"{folder / 'own'}:/usr/bin:/bin",
        "VERSIONS": versions,
        "PYENV_ROOT": str(folder / "none"),
    }
    return subprocess.run(
        ["bash", script, "beside"], env=environment, capture_output=True, text=True, check=False
    )


def test_a_python_in_which_nothing_can_be_installed_fails(tmp_path: Path) -> None:
    """It is there, so that nobody would miss the tests that it does not run."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    program(tmp_path / "own/make", 1)
    (tmp_path / f"own/python{version}").symlink_to(sys.executable)
    ended = other_pythons(tmp_path, version)
    assert f"Python {version}: FAILED: nothing can be installed there" in ended.stdout
    assert ended.returncode != 0
    assert len((tmp_path / "said").read_text().splitlines()) == 2, "with the platform, then without"


def test_a_python_that_is_not_there_is_only_said(tmp_path: Path) -> None:
    ended = other_pythons(tmp_path, "9.9")
    assert "Python 9.9: not installed here, nothing is tested on it" in ended.stdout
    assert ended.returncode == 0, ended.stderr
