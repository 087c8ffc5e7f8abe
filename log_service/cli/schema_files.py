"""Determines the type of the schema in a file, by the suffix of its name."""

from collections.abc import Mapping
from pathlib import PurePath
from types import MappingProxyType
from typing import Final

import click

from log_service.client.schemas.values import AVRO, JSON, PROTOBUF

SUFFIXES: Final[Mapping[str, str]] = MappingProxyType(
    {".avsc": AVRO, ".json": JSON, ".proto": PROTOBUF}
)


def require_schema_text(text: str, name: str) -> str:
    """Return the text of a schema if it is not empty.

    A registry would take an empty text for the previous version.

    Raises:
        ClickException: the text is empty.
    """
    if not text.strip():
        raise click.ClickException(f"{name} has no schema: the file is empty")
    return text


def schema_type_of(name: str, given: str | None) -> str:
    """Return the type of a schema: the given one, or else that of the file's suffix.

    Raises:
        UsageError: neither names a type.
    """
    found = given or SUFFIXES.get(PurePath(name).suffix.lower())
    if found is None:
        known = ", ".join(f"{suffix} is {kind}" for suffix, kind in SUFFIXES.items())
        raise click.UsageError(
            f"the name {name!r} does not tell the type of the schema ({known}): give it with --type"
        )
    return found
