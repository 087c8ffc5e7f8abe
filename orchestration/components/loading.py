"""Loads the YAML files of a project: every ``defs.yaml`` below ``assets/`` becomes Definitions.

Reads each file by Dagster's own loader, so templates, post-processing and components of other
packages work as under ``dg``. All components are loaded before one of them builds its definitions,
because a transform may name a topic of any file. Decides how a mistake is reported: as one sentence
with file and line. Imports only the components that the files name.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import dagster as dg
import yaml  # type: ignore[import-untyped]
from dagster.components.core.component_tree import ComponentTree
from dagster.components.core.decl import (
    ComponentDecl,
    YamlFileDecl,
    build_component_decl_from_yaml_file,
)
from dagster.components.core.defs_module import ComponentFileModel, ComponentPath
from dagster_shared.error import DagsterUnresolvableSymbolError
from dagster_shared.seven import load_module_object
from dagster_shared.yaml_utils import parse_yamls_with_source_position
from dagster_shared.yaml_utils.source_position import SourcePosition, ValueAndSourcePositionTree
from pydantic import ValidationError

from orchestration.components.attributes import ATTRIBUTES, line_of
from orchestration.project.location import ProjectError

FILE_NAMES = ("defs.yaml", "defs.yml")
HIDDEN = (".", "__")
UNKNOWN = "extra_forbidden"
TYPES = frozenset({"str", "int", "bool", "float"})
"""The words in pydantic's errors for the part of a union that it tried."""
IGNORED = (dg.BetaWarning, dg.PreviewWarning)
"""Dagster warns of its own features with these while it reads a file."""


def load_components(project: Path, package: ModuleType) -> list[dg.Definitions]:
    """Return the Definitions of each YAML file below ``package``, the project's package ``assets``.

    :raises ProjectError: a file cannot be understood. The text names it, its line, and the remedy.
    """
    files = list(component_files(Path(str(package.__file__)).parent))
    if not files:
        return []
    tree = ComponentTree(defs_module=package, project_root=project)
    declared = [_declared(tree, file) for file in files]
    for file, decl in zip(files, declared, strict=True):
        with mistakes_as_sentences(file):
            tree.load_structural_component_at_loc(decl.loc)
    return [_built(tree, file, decl) for file, decl in zip(files, declared, strict=True)]


def component_files(folder: Path) -> Iterator[Path]:
    """Yield the YAML files of components below a folder, except those in hidden folders."""
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and not entry.name.startswith(HIDDEN):
            yield from component_files(entry)
        elif entry.name in FILE_NAMES:
            yield entry


def _declared(tree: ComponentTree, file: Path) -> ComponentDecl[Any]:
    """Return the component declaration in a file.

    It is stored in Dagster's tree, which then looks for no other file.
    """
    with mistakes_as_sentences(file):
        context = tree.decl_load_context.for_component_loc(ComponentPath.from_path(file.parent))
        decl = build_component_decl_from_yaml_file(context, file)
        assert isinstance(decl, YamlFileDecl)
        for one in (decl, *decl.decls):
            if issubclass(one.component_type, dg.DefsFolderComponent):
                raise ProjectError(
                    f"{file}: a project has no components of folders; put post_processing into the"
                    " file of each component"
                )
            tree.state_tracker.set_cache_data(one.loc, component_decl=one)
        return decl


def _built(tree: ComponentTree, file: Path, decl: ComponentDecl[Any]) -> dg.Definitions:
    with mistakes_as_sentences(file):
        return tree.build_defs_at_path(decl.loc)


@contextmanager
def mistakes_as_sentences(file: Path) -> Iterator[None]:
    """Turn an error of Dagster, pydantic or a component about a file into one sentence.

    :raises ProjectError: the file cannot be used.
    """
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="`parse_obj_as` is deprecated")
            for category in IGNORED:
                warnings.simplefilter("ignore", category)
            yield
    except Exception as error:
        raise ProjectError(sentence(file, innermost(error))) from error


def innermost(error: BaseException) -> BaseException:
    """Return the part of an error that tells the cause.

    It is the first error of Tidelog or of pydantic on the way down the chain of causes. If there is
    none, it is the error at the end of the chain.
    """
    while (
        not isinstance(error, ProjectError | ValidationError)
        and (cause := error.__cause__ or error.__context__) is not None
    ):
        error = cause
    return error


def sentence(file: Path, error: BaseException) -> str:
    """Return one sentence with file, line, mistake and remedy."""
    if isinstance(error, ProjectError):
        return str(error)
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{file}, line {error.problem_mark.line + 1}: this is not YAML: {error.problem}"
    if isinstance(error, ValidationError):
        return "; ".join(_refusal(file, one) for one in _meant(error))
    if isinstance(error, DagsterUnresolvableSymbolError):
        return (
            f"{type_line(file)}: there is no such component: {error}. `dg list components` shows"
            " those that are installed"
        )
    return f"{file}: {type(error).__name__}: {error}"


def _meant(error: ValidationError) -> list[Any]:
    """Return the errors of a validation that tell what is wrong, unknown attributes first.

    pydantic also reports for every value that it is not a template. These errors are left out.
    """
    found = [one for one in error.errors() if one["type"] != "string_type"] or list(error.errors())
    return sorted(found, key=lambda one: one["type"] != UNKNOWN)


def _refusal(file: Path, error: Any) -> str:
    """Return the sentence on one value that pydantic refuses."""
    path = [part for one in error["loc"] for part in _parts(one)]
    place = placed(file, path, error.get("ctx", {}).get("source_position"), error["input"])
    named = ".".join(str(part) for part in path if part != ATTRIBUTES) or "the document"
    if error["type"] == UNKNOWN:
        return f"{place}: {named} is not known here{suggestion(file, str(path[-1]))}"
    if error["type"] == "missing":
        return f"{place}: {named} is missing: add it"
    return f"{place}: {named} is {error['input']!r}: {error['msg']}"


def _parts(part: str | int) -> list[str | int]:
    """Return the keys in one part of the location of a pydantic error.

    Dagster appends " at FILE:LINE" to a key, and pydantic adds the type of a union that it tried.
    Both are left out.
    """
    if isinstance(part, int):
        return [part]
    words = part.partition(" at ")[0].split(".")
    return [
        int(one) if one.isdecimal() else one
        for one in words
        if one.isdecimal() or (one.isidentifier() and one not in TYPES)
    ]


def suggestion(file: Path, wrong: str) -> str:
    """Return the attribute that was probably meant, or all known ones."""
    known = sorted(
        {name for document in documents(file) for name in known_attributes(document.value)}
    )
    near = get_close_matches(wrong, known, n=1)
    return f": did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"


def known_attributes(document: Any) -> Iterator[str]:
    """Yield the names of attributes that a document's component and its nested models know."""
    module, _, name = (
        str(document.get("type", "")).rpartition(".")
        if isinstance(document, dict)
        else ("", "", "")
    )
    yield from ComponentFileModel.model_fields
    if module:
        component: Any = load_module_object(module, name)
        yield from fields_of(component.get_model_cls())


def fields_of(model: Any) -> Iterator[str]:
    """Yield the names of the fields of a model, and of the models nested in it."""
    for name, field in getattr(model, "model_fields", {}).items():
        yield name
        for part in _types_in(field.annotation):
            yield from fields_of(part)


def _types_in(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in get_args(annotation):
        yield from _types_in(part)


def placed(
    file: Path, path: Sequence[str | int], near: SourcePosition | None, value: object
) -> str:
    """Return file and line of a value at ``path``, in the document that contains ``near``.

    If ``near`` is None, find the value itself in the documents.
    """
    for document in documents(file):
        position = document.source_position_tree.position
        if near is not None and position.start.line <= near.start.line <= position.end.line:
            return line_of(document.source_position_tree, path)
        wanted = next(_places_of(document.value, str(path[-1]) if path else "", value, ()), None)
        if near is None and wanted is not None:
            return line_of(document.source_position_tree, wanted)
    return str(file) if near is None else f"{file}, line {near.start.line}"


def _places_of(
    held: Any, key: str, value: object, path: tuple[str | int, ...]
) -> Iterator[tuple[str | int, ...]]:
    """Yield each path in a document at which ``key`` has ``value``."""
    entries = (
        held.items()
        if isinstance(held, dict)
        else enumerate(held)
        if isinstance(held, list)
        else ()
    )
    for name, one in entries:
        if name == key and one == value:
            yield (*path, name)
        yield from _places_of(one, key, value, (*path, name))


def type_line(file: Path) -> str:
    """Return the position (file and line) at which the first component names its type."""
    found = documents(file)
    return line_of(found[0].source_position_tree, ("type",)) if found else str(file)


def documents(file: Path) -> list[ValueAndSourcePositionTree]:
    """Return the documents of a file that is YAML."""
    return parse_yamls_with_source_position(file.read_text(encoding="utf-8"), str(file))
