"""Matches the regular expressions of JSON schemas with RE2.

The library ``jsonschema`` matches with ``re``, which may take exponential time and holds the GIL
meanwhile. Its keywords with expressions are replaced here. If a schema within another names its own
draft, the replaced keywords of that draft apply.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from log_service.client.schemas.errors import SerializationError, schemas_extra
from log_service.client.schemas.step_budget import StepBudget
from log_service.common import regexes
from log_service.common.errors import KafkaError

with schemas_extra():
    from jsonschema import validators
    from jsonschema.exceptions import ValidationError

MAX_PATTERNS: Final = 200
"""The most different expressions that a schema and the schemas it refers to may have together."""
QUANTIFIERS: Final = frozenset("*+?{")
Keyword = Callable[[Any, Any, Any, Any], Iterable[ValidationError]]


class PatternKeywords:
    """Matches the regular expressions of ``schemas`` for the keywords that contain them.

    Raises:
        SerializationError: RE2 does not accept an expression, or the expression costs too much.
    """

    def __init__(self, schemas: Iterable[Any]) -> None:
        named, has_unevaluated = set[str](), False
        for each in _objects(schemas):
            named.update(_expressions(each))
            has_unevaluated |= "unevaluatedProperties" in each
        if len(named) > MAX_PATTERNS:
            raise SerializationError(
                f"the schema has {len(named)} regular expressions, and may have {MAX_PATTERNS}"
            )
        try:
            self._search = {each: regexes.searcher(each) for each in named}
        except KafkaError as error:
            raise SerializationError(f"the schema cannot be used: {error}") from error
        hard = sorted(each for each in named if not _is_quick(each))
        if has_unevaluated and hard:
            raise SerializationError(
                "a schema with unevaluatedProperties may have simple expressions only, and not"
                f" {hard[0][:100]!r}"
            )
        self._kinds: dict[Any, Any] = {}
        self.budget = StepBudget()

    def extended(self, kind: Any) -> Any:
        """Return the validator class ``kind`` of ``jsonschema`` with these keywords replaced."""
        if kind not in self._kinds:
            own = {
                "pattern": self._pattern,
                "patternProperties": self._pattern_properties,
                "additionalProperties": self._additional(kind.VALIDATORS["additionalProperties"]),
            }
            changed = {name: each for name, each in own.items() if name in kind.VALIDATORS}
            made = validators.extend(kind, changed)
            made.evolve = self._evolving(made, kind)
            self._kinds[kind] = made
        return self._kinds[kind]

    def _evolving(self, made: Any, kind: Any) -> Callable[..., Any]:
        """Return an ``evolve`` method that keeps the replaced keywords.

        For a part of a schema with its own ``$schema``, the library would use its own class.
        """
        evolve = made.evolve

        def evolved(self_: Any, **changes: Any) -> Any:
            self.budget.spend()  # the library evolves at each part of a schema
            schema = changes.pop("schema", self_.schema)
            bare = schema
            if isinstance(schema, dict):
                bare = {name: each for name, each in schema.items() if name != "$schema"}
            found = evolve(self_, schema=bare, **changes)
            wanted = validators.validator_for(schema, default=kind)
            if wanted is kind:
                return found
            return self.extended(wanted)(bare, _resolver=found._resolver)  # noqa: SLF001

        return evolved

    def _is_found(self, pattern: str, text: str) -> bool:
        return self._search[pattern](text)

    def _pattern(
        self, validator: Any, pattern: str, instance: Any, _schema: Any
    ) -> Iterator[ValidationError]:
        if validator.is_type(instance, "string") and not self._is_found(pattern, instance):
            yield ValidationError(f"{instance!r} does not match {pattern!r}")

    def _pattern_properties(
        self, validator: Any, patterns: Mapping[str, Any], instance: Any, _schema: Any
    ) -> Iterator[ValidationError]:
        if not validator.is_type(instance, "object"):
            return
        for pattern, schema in patterns.items():
            for name, value in instance.items():
                if self._is_found(pattern, name):
                    yield from validator.descend(value, schema, path=name, schema_path=pattern)

    def _additional(self, keyword: Keyword) -> Keyword:
        def additional(
            validator: Any, allowed: Any, instance: Any, schema: Mapping[str, Any]
        ) -> Iterable[ValidationError]:
            if not validator.is_type(instance, "object"):
                return ()
            known = schema.get("properties", {})
            patterns = list(schema.get("patternProperties", ()))
            rest = {
                name: value
                for name, value in instance.items()
                if name not in known and not any(self._is_found(each, name) for each in patterns)
            }
            return keyword(validator, allowed, rest, {})

        return additional


def _objects(nodes: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield all JSON objects in ``nodes``, at any depth."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _expressions(node: Mapping[str, Any]) -> Iterator[str]:
    pattern, patterns = node.get("pattern"), node.get("patternProperties")
    if isinstance(pattern, str):
        yield pattern
    if isinstance(patterns, dict):
        yield from patterns


def _is_quick(pattern: str) -> bool:
    """Return whether ``re`` matches the pattern in linear time with any text.

    This is needed with ``unevaluatedProperties``, for which the library always uses ``re``.
    """
    count = sum(each in QUANTIFIERS for each in pattern)
    return count == 0 or (count == 1 and pattern.startswith("^") and not set("(|") & set(pattern))
