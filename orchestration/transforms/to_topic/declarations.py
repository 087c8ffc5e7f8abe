"""Declarations of transforms to a topic: the source, the target, and the key and value of records.

Checks a declaration as soon as it is made. Decides which rules follow from the target's schema.
Knows no run.
Invariant: the transform's group and its transactional id have the same name, one per transform and
deployment, so that a run fences every older one.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from log_service.common.installation_names import TRANSFORM_GROUP_PREFIX
from orchestration.lake.tables import PROVENANCE
from orchestration.quality import Rule, quarantine
from orchestration.quality.conditions import validate_condition
from orchestration.topics.spec import TopicSpec, validate_takes_rows, validate_topic
from orchestration.transforms.declarations import TopicTable

FORBIDDEN = re.compile(r"[^A-Za-z0-9_]")
MAX_NAME = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTransform:
    """A transform from a topic to a topic.

    ``table`` holds everything that it shares with tables from topics: name, source, function,
    checks, limits. ``key`` is the column that becomes the record's key. With None it is ``_key`` of
    the result, if there is one. A row that meets ``deleted_when`` becomes a tombstone. With
    ``is_forwarding_tombstones`` a record without value is sent on without value, with its own key.
    """

    table: TopicTable
    target: TopicSpec
    key: str | None = None
    deleted_when: str | None = None
    is_forwarding_tombstones: bool = False

    def __post_init__(self) -> None:
        validate_topic(self.table.name, self.target)
        name, source, target = self.name, self.source.name, self.target.name
        if source == target:
            raise ValueError(
                f"{name} reads the topic {source} and sends to it: it would read its own records"
                " for ever"
            )
        validate_takes_rows(name, self.target)
        if self.target.value_format is not None:
            raise ValueError(
                f"{name} sends JSON, and the schema of the topic {target} is another format's:"
                " declare it with Spark's DDL"
            )
        if self.key is not None and (not self.key.strip() or self.key in {*PROVENANCE, "_headers"}):
            raise ValueError(
                f"{self.key!r} cannot be the key of {name}: name a column of the result"
            )
        if self.deleted_when is not None:
            validate_condition(f"deleted_when of {name}", self.deleted_when)
        if self.is_forwarding_tombstones and self.source.fields is None:
            raise ValueError(
                f"{source} has no schema, so {name} is given its tombstones: a row whose _value is"
                " null is a tombstone"
            )

    @property
    def name(self) -> str:
        """Return the name of the transform and of its ledger in the lake."""
        return self.table.name

    @property
    def source(self) -> TopicSpec:
        """Return the topic that is read."""
        return self.table.topic

    def checked_by(self, function: Callable[[Any], Any]) -> TopicTable:
        """Return the table that a run computes, with ``function`` in place of the user's function.

        It has the declared rules, and those that follow from the key and the target's schema.
        """
        return replace(
            self.table, function=function, rules=(*self.table.rules, *implied_rules(self))
        )


def group_of(name: str, deployment: str | None) -> str:
    """Return the name that is the group id and the transactional id of the transform ``name``.

    The group's offsets are the transform's progress.
    """
    return TRANSFORM_GROUP_PREFIX + ".".join(filter(None, [deployment, name]))


def implied_rules(transform: TopicTransform) -> tuple[Rule, ...]:
    """Return the rules that apply without a declaration.

    The key and the fields that the target's schema requires must not be null. A record that
    breaks a rule is a dead letter. A declared rule of the same name replaces one of these.
    """
    required = (
        {}
        if transform.target.fields is None
        else {one.name: "the topic's schema" for one in transform.target.fields if not one.nullable}
    )
    if transform.key is not None:
        required[transform.key] = "the record's key"
    declared = {rule.name for rule in transform.table.rules}
    is_deleted = f"coalesce({transform.deleted_when}, FALSE) OR " if transform.deleted_when else ""
    found = []
    for column, why in required.items():
        spared = "" if column == transform.key else is_deleted
        name = f"has_{FORBIDDEN.sub('_', column)[:MAX_NAME]}"
        if name not in declared:
            found.append(
                quarantine(
                    name,
                    f"{spared}`{column}` IS NOT NULL",
                    f"{column} is null, and {why} requires it",
                )
            )
    return tuple(found)


def why_only_dead_letters(transform: TopicTransform) -> str:
    """Return why only dead letters can be replayed into ``transform``, and the alternatives."""
    name, source, target = transform.name, transform.source.name, transform.target.name
    return (
        f"{name} sends to the topic {target}, and a topic takes nothing back: only what was"
        f" rejected can be replayed (tidelog dead-letters replay {name}). To have records sent once"
        " more, behind what is there, set the offsets of its group: tidelog groups reset"
        f" {group_of(name, None)} --topic {source}. To have the topic built anew, delete {target}:"
        f" the next run begins at the start of {source}"
    )
