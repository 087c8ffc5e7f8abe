"""The common parts of components: base class, SQL from a file, and places of mistakes.

Invariant: a ``ValueError`` of a declaration becomes a ``ProjectError`` that names file and line.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
from dagster.components.core.decl import YamlDecl
from dagster_shared.yaml_utils.source_position import SourcePositionTree

from orchestration.project.location import ProjectError

Made = dg.AssetsDefinition
ATTRIBUTES = "attributes"


class Declaration(dg.Component):
    """A component that is one asset. ``declare`` translates its attributes."""

    name: str

    @abstractmethod
    def declare(self, context: dg.ComponentLoadContext) -> Made:
        """Return the asset.

        :raises ValueError: the attributes cannot be used.
        """

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return Definitions of the asset."""
        with refusals_placed(context):
            return dg.Definitions(assets=[self.declare(context)])


def read_sql(context: dg.ComponentLoadContext, sql: str | None, sql_file: str | None) -> str:
    """Return the statement, which is ``sql`` or the text of ``sql_file`` beside the YAML file.

    :raises ValueError: both are given, or none, or the file cannot be read.
    """
    if (sql is None) == (sql_file is None):
        raise ValueError(
            "give the statement either as sql or as sql_file, the name of a file beside this one"
        )
    if sql is not None:
        return sql
    file = folder_of(context) / str(sql_file)
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ValueError(f"sql_file {file} cannot be read: {error}") from error


def folder_of(context: dg.ComponentLoadContext) -> Path:
    """Return the folder in which the component's YAML file lies."""
    return context.path if context.path.is_dir() else context.path.parent


@contextmanager
def refusals_placed(context: dg.ComponentLoadContext) -> Iterator[None]:
    """Add file and line to the error of a declaration that cannot be used.

    :raises ProjectError: the declaration cannot be used.
    """
    try:
        yield
    except ValueError as error:
        raise ProjectError(f"{place_of(context, str(error))}: {error}") from error


def place_of(context: dg.ComponentLoadContext, text: str = "") -> str:
    """Return file and line of the component, or of the attribute that ``text`` names."""
    decl = context.component_decl
    if not isinstance(decl, YamlDecl) or decl.source_tree is None:
        return str(context.path)
    attributes = (decl.component_file_model.attributes if decl.component_file_model else None) or {}
    position = decl.source_tree.source_position_tree
    return line_of(position, (ATTRIBUTES, blamed(attributes, text)))


def blamed(attributes: Mapping[str, Any], text: str) -> str:
    """Return the attribute to blame for an error, whose sentence is ``text``.

    It is the longest attribute that the sentence names, else ``name``.
    """
    named = [
        key
        for key in attributes
        if re.search(rf"\b{re.escape(key.removeprefix('value_'))}\b", text)
    ]
    return max(named, key=len, default="name")


def line_of(position: SourcePositionTree, path: Sequence[str | int]) -> str:
    """Return file and line of a place in a YAML document, or of the nearest place."""
    found, _ = position.lookup_closest_and_path(path, None)
    return f"{found.filename}, line {found.start.line}"


def example(attributes: Callable[[str], Mapping[str, Any]]) -> type[dg.Scaffolder[Any]]:
    """Return a scaffolder for ``dg scaffold``.

    It writes a component with the example attributes that ``attributes`` returns for the name of
    the component's folder. The component can be loaded as it is.
    """

    class ExampleScaffolder(dg.Scaffolder):
        """Writes an example component that can be loaded, for the user to change."""

        def scaffold(self, request: "dg.ScaffoldRequest[Any]") -> None:
            """Write the component."""
            name = re.sub(r"\W", "_", request.target_path.name)
            dg.scaffold_component(request, attributes(name))

    return ExampleScaffolder
