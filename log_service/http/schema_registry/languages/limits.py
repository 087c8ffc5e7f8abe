"""Bounds on one schema, so that a hostile text costs bounded time and memory."""

from dataclasses import dataclass

from log_service.http.schema_registry.languages.language import InvalidSchemaError


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaLimits:
    """Bounds on one schema with its references.

    ``step_count`` bounds the work of one parse, print or comparison. A step is about one visited
    node.
    """

    text_bytes: int = 1 << 20
    nesting: int = 100
    reference_count: int = 1_000
    reference_depth: int = 30
    step_count: int = 200_000


USUAL_LIMITS = SchemaLimits()


class Budget:
    """Counts the steps of one parse, print or comparison, and stops it after too many."""

    __slots__ = ("_left", "_limit")

    def __init__(self, limits: SchemaLimits = USUAL_LIMITS) -> None:
        self._limit = self._left = limits.step_count

    def __repr__(self) -> str:
        return f"<Budget left={self._left}>"

    def spend(self, steps: int = 1) -> None:
        """Take steps from the budget.

        Raises:
            InvalidSchemaError: the budget is used up.
        """
        self._left -= steps
        if self._left < 0:
            raise InvalidSchemaError(
                f"the schema takes more than {self._limit} steps: make it smaller"
            )
