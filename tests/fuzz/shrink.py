"""Shrinking makes a failing case small.

Whole sessions go first, then pieces, then bytes, for as long as it still fails. Knows no engine:
``fails`` plays a case. Bounded by a number of tries, since some engines take a second for one.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from tests.fuzz.cases import Case

T = TypeVar("T", bytes, int, tuple[bytes, ...])


class _Budget:
    def __init__(self, tries: int) -> None:
        self.left = tries

    def take(self) -> bool:
        self.left -= 1
        return self.left >= 0


def shrink(case: Case, fails: Callable[[Case], bool], *, tries: int = 400) -> Case:
    """Return a smaller case that still fails; the case itself where nothing smaller was found."""
    budget = _Budget(tries)

    def still(sessions: Sequence[tuple[bytes, ...]]) -> bool:
        return budget.take() and fails(replace(case, sessions=tuple(sessions)))

    sessions = fewer(list(case.sessions), still)
    for index in range(len(sessions)):
        pieces = fewer(
            list(sessions[index]),
            lambda some, at=index: still(_with(sessions, at, tuple(some))),  # type: ignore[misc]
        )
        sessions[index] = tuple(pieces)
        for place in range(len(pieces)):

            def holds(content: bytes, at: int = index, piece: int = place) -> bool:
                return still(
                    _with(
                        sessions, at, (*sessions[at][:piece], content, *sessions[at][piece + 1 :])
                    )
                )

            smaller = shorter(pieces[place], holds)
            sessions[index] = (*sessions[index][:place], smaller, *sessions[index][place + 1 :])
    return replace(case, sessions=tuple(sessions))


def fewer(items: list[T], still: Callable[[list[T]], bool]) -> list[T]:
    """Leave out runs of items, long ones first, while the rest still fails."""
    size = len(items)
    while size:
        start = 0
        while start < len(items):
            rest = items[:start] + items[start + size :]
            if still(rest):
                items = rest
            else:
                start += size
        size //= 2
    return items


def shorter(content: bytes, still: Callable[[bytes], bool]) -> bytes:
    """Leave out bytes, then make zeros of what is left, while it still fails."""
    kept = bytes(fewer(list(content), lambda some: still(bytes(some))))
    for index in range(len(kept)):
        if kept[index]:
            zeroed = kept[:index] + b"\0" + kept[index + 1 :]
            kept = zeroed if still(zeroed) else kept
    return kept


def _with(
    sessions: list[tuple[bytes, ...]], index: int, session: tuple[bytes, ...]
) -> list[tuple[bytes, ...]]:
    return [*sessions[:index], session, *sessions[index + 1 :]]
