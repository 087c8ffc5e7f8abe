"""Pairs as many members of two lists as possible: a maximum matching of a bipartite graph.

The caller decides whether two members may be paired. It is asked as rarely as possible, because it
compares two schemas to decide. Few comparisons are needed if ``candidates`` yields each member's
likeliest partner first.
"""

from collections.abc import Callable, Generator, Iterable

from log_service.http.schema_registry.languages.limits import Budget

LeftAndRight = tuple[int, int]
Candidates = Callable[[int], Iterable[int]]
"""Returns the right members to try for a left member, in order."""


def maximum_matching(
    left_count: int, right_count: int, candidates: Candidates, budget: Budget
) -> Generator[LeftAndRight, bool, dict[int, int]]:
    """Return the left member of each matched right member, by their indexes.

    The generator yields a pair to ask whether it may be matched. A left member without a free
    partner takes the partner of another left member, which then gets a new one (Kuhn's algorithm,
    without recursion).
    """
    left_of: dict[int, int] = {}
    known: dict[LeftAndRight, bool] = {}
    for left in range(left_count):
        if len(left_of) == right_count:
            break
        yield from _augment(left, candidates, left_of, known, budget)
    return left_of


def _augment(
    first: int,
    candidates: Candidates,
    left_of: dict[int, int],
    known: dict[LeftAndRight, bool],
    budget: Budget,
) -> Generator[LeftAndRight, bool, None]:
    """Match the left member ``first``, if a right member is free or can be freed for it.

    Changes ``left_of``, also for pairs that are reassigned. If there is no such right member,
    ``left_of`` stays as it is.
    """
    came_from: dict[int, int] = {}
    right_of: dict[int, int] = {}
    waiting = [first]
    for left in waiting:
        for right in candidates(left):
            budget.spend()
            if right in came_from:
                continue
            if (left, right) not in known:
                known[left, right] = yield left, right
            if not known[left, right]:
                continue
            came_from[right] = left
            if right not in left_of:
                _turn(right, came_from, right_of, left_of)
                return
            right_of[left_of[right]] = right
            waiting.append(left_of[right])


def _turn(
    free: int, came_from: dict[int, int], right_of: dict[int, int], left_of: dict[int, int]
) -> None:
    """Reassign each right member on the found chain to the left member that reached it."""
    right: int | None = free
    while right is not None:
        left_of[right] = left = came_from[right]
        right = right_of.get(left)
