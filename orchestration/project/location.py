"""Finds the project of a process, and imports the modules of its ``assets`` and ``sensors``.

The project is the ``working_directory`` of a workspace.yaml, which Dagster puts first on Python's
path, or the current directory. The rest of the path is not searched, so an installed package or
another checkout is never taken for the user's project. Relative paths of declarations begin at the
project, wherever the process was started. A module that cannot be imported is reported as one
sentence with file and line. Knows nothing of Dagster. Invariant: imported modules are in the
project, never in another package of the same name.
"""

import sys
import traceback
from collections.abc import Iterator
from importlib import import_module, invalidate_caches
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType

ASSETS, SENSORS = "assets", "sensors"
DEFINITIONS = "orchestration.definitions"
LIBRARIES = frozenset({"site-packages", "dist-packages", "orchestration", "log_service"})
"""Folders inside a project whose modules are not the project's.

They are a virtual environment and, in this repository, the platform itself.
"""
WATCHED_SUFFIXES = frozenset(
    {".py", ".sql", ".yaml", ".yml", ".json", ".avsc", ".proto", ".properties"}
)


class ProjectError(RuntimeError):
    """The project cannot be loaded. The text names the file and the remedy."""


def find_project(*directories: Path) -> Path:
    """Return the first of ``directories`` that is a project.

    :raises ProjectError: no directory has a package ``assets``. The text names the last directory.
    """
    for candidate in directories:
        if (candidate / ASSETS / "__init__.py").is_file():
            return candidate.resolve()
    raise ProjectError(what_is_missing(directories[-1]))


def in_project(path: str | Path) -> Path:
    """Return an absolute path. A relative one begins at the project's folder.

    That is the folder of the imported package ``assets``, or the current folder if there is
    none.
    """
    package = getattr(sys.modules.get(ASSETS), "__file__", None)
    return (Path(package).parent.parent if package else Path.cwd()) / path


def what_is_missing(directory: Path) -> str:
    """Return a sentence which says what a directory lacks to be a project."""
    if (directory / ASSETS).is_dir():
        return (
            f"{directory} is not a project yet: its folder {ASSETS}/ has no __init__.py; create"
            " one, it may be empty"
        )
    return (
        f"{directory} is not a project: it has no folder {ASSETS}/ with an __init__.py. Start from"
        " a project's folder, name one with --project (in a workspace.yaml: its whole path as"
        " working_directory), or write a new one with: tidelog init NAME"
    )


def import_project(project: Path) -> list[ModuleType]:
    """Import every module of the project's packages and return them. ``sensors`` may be missing.

    :raises ProjectError: a module cannot be imported.
    """
    if sys.path[0] != str(project):
        sys.path.insert(0, str(project))
    return [
        module
        for name in (ASSETS, SENSORS)
        if (project / name / "__init__.py").is_file()
        for module in _import_package(project, name)
    ]


def root_cause(error: BaseException) -> str:
    """Return a sentence on an error of the project.

    It is the text of a ``ProjectError``, or else a text on the innermost cause.
    """
    while not isinstance(error, ProjectError) and error.__cause__ is not None:
        error = error.__cause__
    own = isinstance(error, ProjectError)
    return (
        str(error)
        if own
        else f"The project in {in_project('')} cannot be loaded: {type(error).__name__}: {error}"
    )


def forget_project(project: Path) -> None:
    """Remove the project's modules and its definitions from ``sys.modules``.

    The next import reads the files again. All modules in the project's directory are removed.
    """
    root = project.resolve()
    for name, module in list(sys.modules.items()):
        if name == DEFINITIONS or _is_of_project(root, module):
            del sys.modules[name]
    invalidate_caches()


def _is_of_project(root: Path, module: ModuleType) -> bool:
    origin = Path(getattr(module, "__file__", None) or "/")
    return origin.is_relative_to(root) and not LIBRARIES.intersection(
        origin.relative_to(root).parts
    )


def loaded_s() -> float:
    """Return when this process loaded the project, in epoch seconds, 0.0 if it loaded none."""
    return float(getattr(sys.modules.get(DEFINITIONS), "LOADED_S", 0.0))


def watched_files(project: Path) -> Iterator[Path]:
    """Yield the files of a project's definitions.

    Files of virtual environments and of hidden folders are left out.
    """
    for entry in sorted(project.iterdir()):
        if (
            entry.is_dir()
            and not entry.name.startswith((".", "__"))
            and not (entry / "pyvenv.cfg").exists()
        ):
            yield from watched_files(entry)
        elif entry.suffix in WATCHED_SUFFIXES:
            yield entry


def _import_package(project: Path, name: str) -> Iterator[ModuleType]:
    package = _import(project, name)
    yield package
    for found in walk_packages(package.__path__, prefix=f"{name}."):
        yield _import(project, found.name)


def _import(project: Path, name: str) -> ModuleType:
    try:
        module = import_module(name)
    except Exception as error:
        raise ProjectError(
            f"{_place(error, project)} cannot be loaded: {_reason(error)}"
        ) from error
    origin = Path(module.__file__ or "").resolve()
    if not origin.is_relative_to(project):
        raise ProjectError(
            f"the package {name} was taken from {origin}, not from the project {project}: rename"
            " whichever is in the way"
        )
    return module


def _place(error: BaseException, project: Path) -> str:
    """Return file and line of the innermost frame in the project's packages, or its folder."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno},"
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).resolve().is_relative_to(project)
    ]
    ours = [
        frame
        for frame in own
        if Path(frame.filename).resolve().relative_to(project).parts[0] in {ASSETS, SENSORS}
    ]
    return f"{ours[-1].filename}, line {ours[-1].lineno}," if ours else f"the project {project}"


def _reason(error: BaseException) -> str:
    text = str(error).strip() or "no reason was given"
    return f"{type(error).__name__}: {text}"
