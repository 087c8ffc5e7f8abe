"""The type of the schema in a file, by the suffix of its name."""

from collections.abc import Mapping
from pathlib import PurePath
from types import MappingProxyType
from typing import Final

import click

from log_service.client.schemas.values import AVRO, JSON, PROTOBUF

SUFFIXES: Final[Mapping[str, str]] = MappingProxyType(
    {".avsc": AVRO, ".json": JSON, ".proto": PROTOBUF}
)


def schema_type_of(name: str, given: str | None) -> str:
    """Return the type of a schema: the given one, or else that of the file's suffix.

    Raises:
        UsageError: neither tells it.
    """
    found = given or SUFFIXES.get(PurePath(name).suffix.lower())
    if found is None:
        known = ", ".join(f"{suffix} is {kind}" for suffix, kind in SUFFIXES.items())
        raise click.UsageError(
            f"the name {name!r} does not tell the type of the schema ({known}): give it with --type"
        )
    return found
