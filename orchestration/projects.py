"""The project that a process stands in: where it is, and the modules of its packages ``assets`` and ``sensors``.

Decides which directory is the project: the current one if it has a package ``assets``, else the first on Python's path that has. A module
that cannot be imported is one sentence with file and line. Knows nothing of Dagster. Invariant: what is imported lies in the project,
never in another package of the same name.
"""

import sys
import traceback
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType

ASSETS, SENSORS = "assets", "sensors"


class ProjectError(RuntimeError):
    """The project cannot be loaded; the text names the file and says what to do."""


def find_project(current: Path, path: Sequence[str]) -> Path:
    """Return the project's directory.

    :raises ProjectError: no package ``assets`` is in sight.
    """
    candidates = [current, *(Path(entry) for entry in path if entry)]
    for candidate in candidates:
        if (candidate / ASSETS / "__init__.py").is_file():
            return candidate.resolve()
    raise ProjectError(
        f"{current} is no project: it has no package {ASSETS} (a folder {ASSETS}/ with __init__.py). "
        "Start from a project's folder, or name it with --project or, in workspace.yaml, working_directory"
    )


def import_project(project: Path) -> list[ModuleType]:
    """Import every module of the project's packages and return them; ``sensors`` may be missing.

    :raises ProjectError: one of them cannot be imported.
    """
    if sys.path[0] != str(project):
        sys.path.insert(0, str(project))
    return [module for name in (ASSETS, SENSORS) if (project / name / "__init__.py").is_file() for module in _import_package(project, name)]


def _import_package(project: Path, name: str) -> Iterator[ModuleType]:
    package = _import(project, name)
    yield package
    for found in walk_packages(package.__path__, prefix=f"{name}."):
        yield _import(project, found.name)


def _import(project: Path, name: str) -> ModuleType:
    try:
        module = import_module(name)
    except Exception as error:
        raise ProjectError(f"{_place(error, project)} cannot be loaded: {_reason(error)}") from error
    origin = Path(module.__file__ or "").resolve()
    if not origin.is_relative_to(project):
        raise ProjectError(f"the package {name} was taken from {origin}, not from the project {project}: rename whichever is in the way")
    return module


def _place(error: BaseException, project: Path) -> str:
    """Return file and line of the project's own code that is nearest to the error."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno},"
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).resolve().is_relative_to(project)]
    ours = [frame for frame in own if Path(frame.filename).resolve().relative_to(project).parts[0] in {ASSETS, SENSORS}]
    return f"{ours[-1].filename}, line {ours[-1].lineno}," if ours else f"the project {project}"


def _reason(error: BaseException) -> str:
    text = str(error).strip() or "no reason was given"
    return f"{type(error).__name__}: {text}"
