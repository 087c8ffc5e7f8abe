"""A workspace.yaml's other code locations go to Dagster as they are."""

from pathlib import Path

import pytest

from orchestration.project.location import ProjectError
from orchestration.project.workspace import other_locations

WORKSPACE = """
load_from:
  - python_module:
      module_name: orchestration.definitions
      working_directory: .
  - python_file: reports.py
  - python_file:
      relative_path: more/reports.py
      location_name: more
  - python_module: installed.elsewhere
  - grpc_server: {host: 10.0.0.1, port: 4266}
"""


def test_other_locations_keep_their_settings_and_get_whole_paths(tmp_path: Path) -> None:
    assert other_locations(tmp_path) == []
    (tmp_path / "workspace.yaml").write_text(WORKSPACE)
    assert other_locations(tmp_path) == [
        {"python_file": str(tmp_path / "reports.py")},
        {
            "python_file": {
                "relative_path": str(tmp_path / "more" / "reports.py"),
                "location_name": "more",
            }
        },
        {"python_module": "installed.elsewhere"},
        {"grpc_server": {"host": "10.0.0.1", "port": 4266}},
    ]


@pytest.mark.parametrize(
    "text",
    ["", "load_from: []", "load_from:\n  - python_module: orchestration.definitions", "# nothing"],
)
def test_a_workspace_may_name_nothing_else(tmp_path: Path, text: str) -> None:
    (tmp_path / "workspace.yaml").write_text(text)
    assert other_locations(tmp_path) == []


@pytest.mark.parametrize(
    "text", ["load_from: 7", "load_from: [a, b]", "- {a: 1, b: 2}", "load_from: [", "\x00"]
)
def test_a_file_that_is_no_workspace_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "workspace.yaml").write_text(text)
    with pytest.raises(ProjectError, match=str(tmp_path / "workspace.yaml")):
        other_locations(tmp_path)
