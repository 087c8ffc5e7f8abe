"""Finds declared tables by name, with the type of their kind."""

from typing import TypeVar

from orchestration.transforms.kinds import Kind, declared

Declared = TypeVar("Declared", bound=Kind)


def declared_as(kind: type[Declared], name: str) -> Declared:
    """Return the table that was declared last under ``name``. It must be of ``kind``."""
    found = declared(name)
    assert isinstance(found, kind), f"{name} is {found!r}"
    return found
