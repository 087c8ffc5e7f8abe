"""A new project is written whole, nowhere over somebody's files, and loads."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestration.project.new import ORDERS, files, write_project
from tests.helpers.documents import ROOT, blocks_of


@pytest.mark.parametrize("document", ["README.md", "docs/pipelines/first-pipeline.md"])
def test_documents_print_the_pipeline_that_a_new_project_has(document: str) -> None:
    """The documents said "these very lines", and showed others."""
    shown = [
        block.text.removeprefix("# assets/orders.py\n")
        for block in blocks_of(ROOT / document)
        if block.language == "python"
    ]
    assert ORDERS in shown
    assert files("shop")["assets/orders.py"].endswith(ORDERS)


def test_all_files_are_written_and_nothing_is_overwritten(tmp_path: Path) -> None:
    written = write_project(tmp_path / "shop")
    assert {str(path.relative_to(tmp_path / "shop")) for path in written} == set(files("shop"))
    with pytest.raises(
        FileExistsError, match="is there already and not empty; nothing was written"
    ):
        write_project(tmp_path / "shop")
    (tmp_path / "a-file").write_text("mine")
    with pytest.raises(FileExistsError):
        write_project(tmp_path / "a-file")
    (tmp_path / "empty").mkdir()
    assert write_project(tmp_path / "empty")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("1shop", "not starting with a digit"),
        ("my shop", "letters, digits"),
        ("class", "Python keeps this word"),
        ("shop!", "letters, digits"),
    ],
)
def test_a_name_that_makes_no_sense_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"cannot be a project's name: .*{reason}"):
        write_project(tmp_path / name)
    assert not (tmp_path / name).exists()


def test_the_new_project_is_clean_and_commented_settings_are_settings(tmp_path: Path) -> None:
    project = tmp_path / "shop"
    write_project(project)
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "ruff",
            "check",
            "--isolated",
            "--select",
            "E,F,B,UP",
            "--line-length",
            "140",
            project,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    settings = [
        line.removeprefix("# ")
        for line in (project / ".env").read_text().splitlines()
        if line.startswith("# TIDELOG_")
    ]
    assert all(" " not in line for line in settings)
    from dataclasses import fields

    from orchestration.settings import Settings

    assert {line.partition("=")[0].removeprefix("TIDELOG_").lower() for line in settings} <= {
        field.name for field in fields(Settings)
    }


@pytest.mark.timeout(240)
def test_the_new_project_s_own_test_passes(tmp_path: Path) -> None:
    project = tmp_path / "shop"
    write_project(project)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert "2 passed" in ran.stdout
