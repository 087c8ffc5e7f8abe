"""Compares two schemas by pairs of their inner schemas, without recursion.

The comparison of a pair is a generator. It notes changes, and yields an inner pair to get the
outcome of that pair. Outcomes are kept. If a pair is requested while its own comparison is still
open, the schema is recursive. The pair then counts as compatible until it turns out incompatible.
In that case each outcome that relied on it is dropped, and computed again on demand. An
incompatible outcome is final, because an incompatible pair never makes another one compatible.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, Union

from log_service.http.schema_registry.languages.json_schema.changes import Change
from log_service.http.schema_registry.languages.json_schema.shape_reader import ShapeReader
from log_service.http.schema_registry.languages.json_schema.shapes import Node, Shape
from log_service.http.schema_registry.languages.limits import Budget

MAX_CHANGES = 1_000
"""The bound on the changes that are kept for one pair, and on those that are returned.

The first incompatible change is kept even beyond it. A pair is compatible only if all its changes
are, also those that are not kept.
"""
PAIR_STEPS = 3
"""The steps that comparing a pair costs. Asking for a pair costs one step more."""
MAX_PATHS_LENGTH = 1 << 20
"""No more changes are returned after their paths are longer than this in total, in characters.

Schemas that refer to each other have long paths.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two schemas to compare.

    The reader's schema should permit every value that the writer's permits.
    """

    writer: Node
    reader: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The changes of one pair, with paths relative to the pair.

    The changes of an inner pair are an ``Outcome`` of their own.
    """

    entries: tuple[tuple[str, Union[Change, "Outcome"]], ...] = ()
    is_compatible: bool = True


Steps: TypeAlias = Generator[Pair, Outcome, None]
"""The comparison of a pair. It yields other pairs, and is sent their outcomes."""

Choice: TypeAlias = Generator[Pair, Outcome, bool]
"""Steps that may decide a comparison, and return whether they have."""

UNCHANGED = Outcome()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundChange:
    """One change, and the path to it from the roots of both schemas."""

    change: Change
    path: str


class Notebook:
    """Collects the changes of one pair of schemas."""

    __slots__ = ("_compatible", "_entries", "_is_compatible", "budget", "shapes")

    def __init__(self, compatible: frozenset[Change], shapes: ShapeReader, budget: Budget) -> None:
        self._compatible = compatible
        self._entries: list[tuple[str, Change | Outcome]] = []
        self._is_compatible = True
        self.shapes = shapes
        self.budget = budget

    def __repr__(self) -> str:
        return f"<Notebook of {len(self._entries)} changes>"

    def note(self, change: Change, path: str = "") -> None:
        """Note a change at a path below the pair."""
        self._add(path, change, is_compatible=change in self._compatible)

    def include(self, outcome: Outcome, path: str = "") -> None:
        """Note the changes of an inner pair, which is at a path below this one."""
        if outcome.entries:
            self._add(path, outcome, is_compatible=outcome.is_compatible)

    def outcome(self) -> Outcome:
        """Return the noted changes, and whether all of them are compatible."""
        return Outcome(entries=tuple(self._entries), is_compatible=self._is_compatible)

    def _add(self, path: str, entry: Change | Outcome, *, is_compatible: bool) -> None:
        if len(self._entries) < MAX_CHANGES or (self._is_compatible and not is_compatible):
            self._entries.append((path, entry))
        self._is_compatible &= is_compatible


Compare: TypeAlias = Callable[[Notebook, Shape, Shape], Steps]
Key: TypeAlias = tuple[Shape, Shape]


@dataclass(slots=True, kw_only=True)
class _Open:
    """A pair whose comparison has begun.

    The comparison may rely on open pairs, which count as compatible. ``lowest`` is the index of the
    outermost one, or the pair's own index if there is none. ``relying`` are inner pairs with an
    outcome that relies on an open pair.
    """

    key: Key
    notebook: Notebook
    steps: Steps
    lowest: int
    relying: list[Key] = field(default_factory=list)


class Comparison:
    """Compares pairs of schemas, with one budget for all of them."""

    __slots__ = (
        "_budget",
        "_compare",
        "_compatible",
        "_known",
        "_lowest_of",
        "_open",
        "_place_of",
        "_shapes",
    )

    def __init__(
        self, compare: Compare, shapes: ShapeReader, compatible: frozenset[Change], budget: Budget
    ) -> None:
        self._compare = compare
        self._shapes = shapes
        self._compatible = compatible
        self._budget = budget
        self._known: dict[Key, Outcome] = {}
        self._lowest_of: dict[Key, int] = {}
        self._open: list[_Open] = []
        self._place_of: dict[Key, int] = {}

    def __repr__(self) -> str:
        return f"<Comparison of {len(self._known)} pairs>"

    def outcome(self, pair: Pair) -> Outcome:
        """Compare two schemas.

        Raises:
            InvalidSchemaError: the comparison takes more steps than the budget has.
        """
        answer = self._begin(pair)
        while self._open:
            current = self._open[-1]
            try:
                asked = next(current.steps) if answer is None else current.steps.send(answer)
            except StopIteration:
                answer = self._finish()
            else:
                answer = self._begin(asked)
        assert answer is not None, "the first pair has an outcome"
        return answer

    def _begin(self, pair: Pair) -> Outcome | None:
        """Return the outcome of a pair, or begin its comparison and return None.

        A pair whose own comparison is open counts as unchanged.
        """
        self._budget.spend()
        key = (self._shapes.meant(pair.writer), self._shapes.meant(pair.reader))
        if (known := self._known.get(key)) is not None:
            self._rely_on(self._lowest_of.get(key))
            return known
        if (place := self._place_of.get(key)) is not None:
            self._rely_on(place)
            return UNCHANGED
        self._budget.spend(PAIR_STEPS)
        notebook = Notebook(self._compatible, self._shapes, self._budget)
        steps = self._compare(notebook, *key)
        place = self._place_of[key] = len(self._open)
        self._open.append(_Open(key=key, notebook=notebook, steps=steps, lowest=place))
        return None

    def _rely_on(self, place: int | None) -> None:
        if place is not None and self._open:
            current = self._open[-1]
            current.lowest = min(current.lowest, place)

    def _finish(self) -> Outcome:
        """End the comparison of the innermost pair, and return its outcome.

        If it is incompatible, drop the outcomes that relied on its compatibility.
        """
        closed = self._open.pop()
        place = self._place_of.pop(closed.key)
        outcome = self._known[closed.key] = closed.notebook.outcome()
        if not outcome.is_compatible:
            for key in closed.relying:
                self._known.pop(key, None)
                self._lowest_of.pop(key, None)
        elif closed.lowest < place:
            self._lowest_of[closed.key] = closed.lowest
            self._open[-1].relying += [*closed.relying, closed.key]
        else:
            for key in closed.relying:
                self._lowest_of.pop(key, None)
        self._rely_on(closed.lowest if closed.lowest < place and outcome.is_compatible else None)
        return outcome


def changes_of(
    outcome: Outcome, compatible: frozenset[Change], *, all_changes: bool
) -> list[FoundChange]:
    """Return the incompatible changes, or with ``all_changes`` also those in ``compatible``.

    They are in the order in which they were noted. The list ends at ``MAX_CHANGES`` or
    ``MAX_PATHS_LENGTH``.
    """
    found: list[FoundChange] = []
    length = 0
    for path, change in _flat(outcome, all_changes=all_changes):
        if all_changes or change not in compatible:
            found.append(FoundChange(change=change, path=f"#/{path}"))
            length += len(path)
        if len(found) == MAX_CHANGES or length > MAX_PATHS_LENGTH:
            break
    return found


def _flat(outcome: Outcome, *, all_changes: bool) -> Iterator[tuple[str, Change]]:
    """Yield changes with their full paths.

    Without ``all_changes`` an inner outcome that is compatible is skipped.
    """
    waiting = [("", iter(outcome.entries))]
    while waiting:
        path, inner = next(waiting[-1][1], ("", None))
        if inner is None:
            waiting.pop()
        elif isinstance(inner, Change):
            parts = (*(prefix for prefix, _ in waiting), path)
            yield "/".join(filter(None, parts)), inner
        elif all_changes or not inner.is_compatible:
            waiting.append((path, iter(inner.entries)))
