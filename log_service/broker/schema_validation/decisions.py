"""Remembers for a while which schemas may be named in which topic.

An accepted schema is remembered for minutes, because versions are seldom deleted. A refused one is
remembered for a second, so that a schema that is registered meanwhile is soon accepted.

Invariants: the numbers of accepted and of refused schemas are bounded separately. So refusals push
no accepted schema out. Any thread may call ``of``.
"""

from typing import Final, TypeVar

from log_service.broker.schema_validation.subjects import SubjectRule
from log_service.records.rules import SchemaName

ACCEPTED_MS: Final = 300_000
RENEWED_MS: Final = 10_000
"""How long an expired acceptance is prolonged while the registry does not respond."""
REFUSED_MS: Final = 1_000
MAX_DECISIONS: Final = 10_000
"""Maximum number of decisions of each kind."""

Key = tuple[SubjectRule, SchemaName]
V = TypeVar("V")


class Decisions:
    """The schemas that one node knows to be accepted or refused by the registry.

    Each entry is valid until a time in monotonic milliseconds.
    """

    def __init__(self, capacity: int = MAX_DECISIONS) -> None:
        self._capacity = capacity
        self._accepted: dict[Key, int] = {}
        self._refused: dict[Key, tuple[int, str]] = {}

    def __repr__(self) -> str:
        return f"<Decisions accepted={len(self._accepted)} refused={len(self._refused)}>"

    def of(self, rule: SubjectRule, name: SchemaName, now_ms: int) -> str | None:
        """Return "" for an accepted schema, the reason for a refused one, or None if unknown."""
        key = (rule, name)
        until_ms = self._accepted.get(key)
        if until_ms is not None:
            return "" if now_ms < until_ms else None
        refused = self._refused.get(key)
        return refused[1] if refused is not None and now_ms < refused[0] else None

    def note(self, rule: SubjectRule, name: SchemaName, fault: str, now_ms: int) -> None:
        """Remember a decision of the registry. An empty ``fault`` accepts the schema."""
        key = (rule, name)
        if fault:
            self._accepted.pop(key, None)
            self._put(self._refused, key, (now_ms + REFUSED_MS, fault))
        else:
            self._refused.pop(key, None)
            self._put(self._accepted, key, now_ms + ACCEPTED_MS)

    def renew(self, rule: SubjectRule, name: SchemaName, now_ms: int) -> bool:
        """Keep an expired acceptance valid for a little longer. Return whether there was one."""
        key = (rule, name)
        if key not in self._accepted:
            return False
        self._accepted[key] = now_ms + RENEWED_MS
        return True

    def _put(self, decisions: dict[Key, V], key: Key, decision: V) -> None:
        decisions.pop(key, None)
        if len(decisions) >= self._capacity:
            del decisions[next(iter(decisions))]
        decisions[key] = decision
