"""Reads the code locations that a project's workspace.yaml names beside the project itself.

``tidelog up`` serves the project by a code server of its own, and passes every other location of
the file on to Dagster unchanged. Decides which entry is the project. The file gives paths relative
to its own folder, and they are made absolute. Starts no process.
"""

from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from orchestration.project.location import ProjectError

WORKSPACE_FILE = "workspace.yaml"
PROJECT_MODULE = "orchestration.definitions"
PATHS = ("relative_path", "working_directory")


def other_locations(project: Path) -> list[dict[str, Any]]:
    """Return the entries of the project's workspace.yaml that are not the project.

    There are none without such a file.

    :raises ProjectError: the file cannot be read as a workspace.
    """
    path = project / WORKSPACE_FILE
    try:
        content = yaml.safe_load(path.read_text()) if path.is_file() else None
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ProjectError(f"{path} cannot be read: {error}") from error
    entries = content.get("load_from") if isinstance(content, dict) else content
    if entries is None:
        return []
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and len(entry) == 1 for entry in entries
    ):
        raise ProjectError(
            f"{path} is not a workspace: load_from has to be a list of code locations, such as"
            " python_module or grpc_server"
        )
    return [_absolute(entry, project) for entry in entries if not _is_project(entry)]


def _is_project(entry: dict[str, Any]) -> bool:
    ((kind, value),) = entry.items()
    if kind not in {"python_module", "python_package"}:
        return False
    named = value if isinstance(value, str) else value.get("module_name", value.get("package_name"))
    return bool(named == PROJECT_MODULE)


def _absolute(entry: dict[str, Any], project: Path) -> dict[str, Any]:
    ((kind, value),) = entry.items()
    if kind == "python_file" and isinstance(value, str):
        return {kind: str(project / value)}
    if not isinstance(value, dict):
        return entry
    return {
        kind: {
            key: str(project / one) if key in PATHS and isinstance(one, str) else one
            for key, one in value.items()
        }
    }
