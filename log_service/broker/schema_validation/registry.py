"""A schema registry as the validation of records sees it."""

from dataclasses import dataclass
from typing import Protocol

from log_service.records.rules import SchemaName


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A registry's entries for one schema. Without subjects there is no such schema.

    ``record_names`` are empty unless they were asked for.
    """

    subjects: frozenset[str] = frozenset()
    record_names: frozenset[str] = frozenset()


class RegistryUnavailableError(Exception):
    """The registry gave no response that counts. The text names its address and the reason."""


class SchemaRegistry(Protocol):
    """Knows which schemas are registered."""

    async def registered(self, name: SchemaName, *, has_record_names: bool) -> Registered:
        """Return the subjects under which a schema is registered.

        Raises:
            RegistryUnavailableError: no response came that counts. The wait has a bound.
        """

    async def aliased(self, subject: str) -> str:
        """Return the subject that an alias stands for, or the subject itself.

        Raises:
            RegistryUnavailableError: as ``registered``.
        """
