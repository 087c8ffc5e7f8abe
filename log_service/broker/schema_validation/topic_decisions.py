"""Tells which schemas the records of a topic may name, from responses of the schema registry.

A decision accepts a schema or refuses it with a reason. It is unknown until the registry has
responded. All decisions in one check of a batch are as of the same time.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from log_service.broker.schema_validation.decisions import Decisions
from log_service.broker.schema_validation.subjects import SubjectRule
from log_service.config.views import LogConfig
from log_service.records.rules import SchemaName


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDecisions:
    """The decisions on one topic's schemas, in the form of ``records.rules.SchemaRules``.

    The key of ``rules`` is whether the rule is for keys (True) or values (False).
    """

    rules: Mapping[bool, SubjectRule]
    decisions: Decisions
    now_ms: int

    @property
    def parts(self) -> tuple[bool, ...]:
        """The parts of a record that are checked: keys (True), values (False) or both."""
        return tuple(self.rules)

    def decision(self, name: SchemaName, *, is_key: bool) -> str | None:
        """Return "" for an accepted schema, the reason for a refused one, or None if unknown."""
        return self.decisions.of(self.rules[is_key], name, self.now_ms)


def subject_rules(topic: str, config: LogConfig) -> dict[bool, SubjectRule]:
    """Return the rules for a topic's keys (True) and values (False).

    A part that is not validated has no rule.
    """
    rules = {}
    if config.is_key_schema_validated:
        rules[True] = SubjectRule(topic, is_key=True, strategy=config.key_subject_name_strategy)
    if config.is_value_schema_validated:
        rules[False] = SubjectRule(topic, is_key=False, strategy=config.value_subject_name_strategy)
    return rules
