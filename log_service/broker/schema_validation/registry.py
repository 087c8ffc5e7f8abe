"""A schema registry as the validation of records sees it."""

from dataclasses import dataclass
from typing import Protocol

from log_service.records.rules import SchemaName


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A registry's entries for one schema. Without subjects the schema is not registered.

    ``record_names`` are empty unless they were asked for.
    """

    subjects: frozenset[str] = frozenset()
    record_names: frozenset[str] = frozenset()


class RegistryUnavailableError(Exception):
    """No registry gave a usable response. The text has the address and the fault of each."""


class SchemaRegistry(Protocol):
    """Knows which schemas are registered."""

    async def registered(self, name: SchemaName, *, has_record_names: bool) -> Registered:
        """Return the subjects under which a schema is registered.

        The wait is bounded.

        Raises:
            RegistryUnavailableError: no registry gave a usable response.
        """

    async def aliased(self, subject: str) -> str:
        """Return the subject that an alias refers to, or the subject itself.

        Raises:
            RegistryUnavailableError: as ``registered``.
        """
