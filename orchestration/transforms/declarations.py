"""What is declared of a table: where its rows come from, the function that makes them, and how they are checked.

Decides whether a declaration makes sense, when it is made. Knows no run.
"""

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from orchestration.quality import Rule, Suite
from orchestration.quality.rules import validate_rules
from orchestration.tables import RESERVED_NAMES, TABLE_NAME
from orchestration.topics import TopicSpec

LAKE_PREFIX = "lake"
GROUP_PREFIX = "tidelog."
POOL_PREFIX = "table_"
NO_SUITE = Suite()

Transform = Callable[..., Any]
"""``DataFrame -> DataFrame``, or several DataFrames in the order of the declared tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTable:
    """A table that follows one topic. None limits are those of the settings."""

    name: str
    topic: TopicSpec
    function: Transform
    unique_by: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    suite: Suite = NO_SUITE
    is_evolving: bool = False
    minimum_interval_s: int | None = None
    records_per_run: int | None = None

    def __post_init__(self) -> None:
        validate_table_name(self.name)
        validate_rules(self.rules, is_quarantine_possible=True)
        validate_check_names(self.rules, self.suite)
        validate_parameters(self.name, self.function, 1)

    @property
    def group_id(self) -> str:
        """The consumer group that mirrors the table's checkpoint."""
        return GROUP_PREFIX + self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedTable:
    """A table that is computed anew from the latest versions of other tables."""

    name: str
    inputs: tuple[str, ...]
    function: Transform
    rules: tuple[Rule, ...] = ()
    suite: Suite = NO_SUITE

    def __post_init__(self) -> None:
        validate_table_name(self.name)
        validate_rules(self.rules, is_quarantine_possible=False)
        validate_check_names(self.rules, self.suite)
        validate_parameters(self.name, self.function, len(self.inputs))
        if self.name in self.inputs or len(set(self.inputs)) != len(self.inputs):
            raise ValueError(f"the inputs of table {self.name} have to be other tables, each once: {', '.join(self.inputs)}")

    @property
    def code_fingerprint(self) -> int:
        """A number that changes with the function's source and the rules: a changed transform is computed anew from unchanged inputs."""
        try:
            source = inspect.getsource(self.function)
        except (OSError, TypeError):
            source = self.function.__code__.co_code.hex()
        rules = [(rule.name, rule.condition, rule.severity.value) for rule in self.rules]
        digest = hashlib.sha256(repr((source, rules, self.inputs)).encode()).digest()
        return int.from_bytes(digest[:7], "big")


def table_key(name: str) -> dg.AssetKey:
    """Return the asset key of the lake table ``name``."""
    return dg.AssetKey([LAKE_PREFIX, name])


def pool_of(name: str) -> str:
    """Return the pool that lets one run at a time write the table."""
    return POOL_PREFIX + name


def validate_table_name(name: str) -> None:
    """Refuse names that no table may have.

    :raises ValueError: says why.
    """
    if not TABLE_NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be a table's name: letters, digits and underscores, not starting with a digit")
    if name in RESERVED_NAMES:
        raise ValueError(f"{name} is the lake's own table: give the transform another name")


def validate_check_names(rules: Sequence[Rule], suite: Suite) -> None:
    """Refuse rules and expectations that share a name: both are asset checks of the table.

    :raises ValueError: names them.
    """
    shared = {rule.name for rule in rules} & {one.check_name for one in suite.expectations}
    if shared:
        raise ValueError(f"a rule and an expectation share the name {', '.join(sorted(shared))}: give the expectation another name=...")


def validate_parameters(name: str, function: Transform, count: int) -> None:
    """Refuse a function that does not take one DataFrame per source.

    :raises ValueError: says how many it takes.
    """
    parameters: Mapping[str, inspect.Parameter] = inspect.signature(function).parameters
    required = [one for one in parameters.values() if one.default is one.empty and one.kind not in {one.VAR_POSITIONAL, one.VAR_KEYWORD}]
    is_open = any(one.kind is one.VAR_POSITIONAL for one in parameters.values())
    if len(required) > count or (len(parameters) < count and not is_open):
        raise ValueError(
            f"the transform of table {name} takes {len(parameters)} parameters and there are {count} sources: one DataFrame each"
        )
