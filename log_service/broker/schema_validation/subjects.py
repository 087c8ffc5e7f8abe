"""Decides under which subjects the schemas of a topic may be registered."""

from typing import Final, NamedTuple

from log_service.broker.schema_validation.registry import Registered
from log_service.config.topic_keys import RECORD_NAME_STRATEGY, TOPIC_NAME_STRATEGY
from log_service.records.rules import SchemaName
from log_service.records.schema_names import shown

MAX_SHOWN_NAMES: Final = 3


class SubjectRule(NamedTuple):
    """Decides which subjects accept a schema for the keys or the values of one topic.

    It is a tuple, because it is part of a key of ``Decisions``.
    """

    topic: str
    is_key: bool
    strategy: str

    @property
    def has_record_names(self) -> bool:
        """Whether the subjects of the strategy contain names of records."""
        return self.strategy != TOPIC_NAME_STRATEGY

    def subjects(self, registered: Registered) -> list[str]:
        """Return the subjects of the topic. A schema must be registered under one of them."""
        if not self.has_record_names:
            return [f"{self.topic}-{'key' if self.is_key else 'value'}"]
        names = sorted(registered.record_names)
        if self.strategy == RECORD_NAME_STRATEGY:
            return names
        return [f"{self.topic}-{name}" for name in names]

    def fault(self, name: SchemaName, registered: Registered) -> str:
        """Return the reason why records must not name a schema, or an empty text if they may."""
        if not registered.subjects:
            return f"{shown(name)} is not registered"
        wanted = self.subjects(registered)
        if not registered.subjects.isdisjoint(wanted):
            return ""
        if not wanted:
            return (
                f"{shown(name)} has no record name, which {self.strategy.rpartition('.')[2]} needs"
            )
        several = " or ".join(wanted[:MAX_SHOWN_NAMES])
        return f"{shown(name)} is not registered under subject {several}"
