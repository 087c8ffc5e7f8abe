"""A schema registry that answers as a test says."""

from dataclasses import dataclass, field

import trio

from log_service.broker.schema_validation.registry import Registered, RegistryUnavailableError
from log_service.records.rules import SchemaName


@dataclass(kw_only=True)
class FakeRegistry:
    """Schemas by name, with their subjects. ``failure`` is raised if there is one.

    A question waits while ``gate`` is closed.
    """

    subjects: dict[SchemaName, set[str]] = field(default_factory=dict)
    record_names: dict[SchemaName, set[str]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    failure: str | None = None
    gate: trio.Event | None = None
    asked: list[SchemaName] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0

    async def registered(self, name: SchemaName, *, has_record_names: bool) -> Registered:
        self.asked.append(name)
        self.under_way += 1
        self.most_under_way = max(self.under_way, self.most_under_way)
        try:
            if self.gate is None:
                await trio.lowlevel.checkpoint()
            else:
                await self.gate.wait()
        finally:
            self.under_way -= 1
        if self.failure is not None:
            raise RegistryUnavailableError(self.failure)
        names = self.record_names.get(name, set()) if has_record_names else set()
        return Registered(
            subjects=frozenset(self.subjects.get(name, ())), record_names=frozenset(names)
        )

    async def aliased(self, subject: str) -> str:
        await trio.lowlevel.checkpoint()
        if self.failure is not None:
            raise RegistryUnavailableError(self.failure)
        return self.aliases.get(subject, subject)
