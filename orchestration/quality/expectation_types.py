"""Knows the types of Great Expectations' expectations, and the arguments of each.

Reads file names and JSON schemas of the installed package, because its import takes seconds.
"""

import json
import sys
from collections.abc import Collection, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from log_service.config.definition import closest_name

PACKAGE = "great_expectations"


def validate_expectation(type: str, arguments: Mapping[str, Any]) -> None:  # noqa: A002 - GX's word
    """Refuse an expectation that does not exist, unknown arguments, and missing ones.

    A project's own expectation is known once its class was imported. Its arguments are not checked.

    :raises ValueError: names the expectation and the argument.
    """
    if type not in known_types():
        if not _is_registered(type):
            raise ValueError(f"there is no expectation {type}{_meant(type, known_types())}")
        return
    schema = _schema(type)
    if schema is None:
        return
    taken = schema["properties"]
    unknown = sorted(set(arguments) - set(taken))
    if unknown:
        raise ValueError(f"{type} takes no argument {unknown[0]}{_meant(unknown[0], taken)}")
    missing = sorted(set(schema.get("required", ())) - set(arguments))
    if missing:
        raise ValueError(
            f"{type} needs the argument {missing[0]}: expect({type!r}, {missing[0]}=...)"
        )


@cache
def known_types() -> frozenset[str]:
    """Return the types of expectations that come with the package."""
    return frozenset(path.stem for path in _core().glob("*expect*.py"))


@cache
def _core() -> Path:
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ValueError(
            f"expectations need the package {PACKAGE}: install tidelog with its extra 'platform'"
        )
    return Path(spec.origin).parent / "expectations" / "core"


@cache
def _schema(type: str) -> Mapping[str, Any] | None:  # noqa: A002 - GX's word
    file = _core() / "schemas" / f"{''.join(word.capitalize() for word in type.split('_'))}.json"
    if not file.is_file():
        return None
    found: Mapping[str, Any] = json.loads(file.read_text())
    return found


def _is_registered(type: str) -> bool:  # noqa: A002 - GX's word
    """Whether a class of the project is registered under ``type`` in Great Expectations.

    There is none as long as the project has not imported that package.
    """
    registry = sys.modules.get(f"{PACKAGE}.expectations.registry")
    return registry is not None and type in registry.list_registered_expectation_implementations()


def _meant(given: str, known: Collection[str]) -> str:
    close = closest_name(given, known)
    return f"; did you mean {close}?" if close else ""
