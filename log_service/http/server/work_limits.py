"""Limits the number of people who do long work, in total and per person.

A place is the right to do one piece of work. Invariants: at most ``most`` pieces run at the same
time, and one person has at most ``most_of_one`` of them. As many more pieces may wait, in total and
per person, and further ones are refused. A person who waits because of ``most_of_one`` does not
take a shared place.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from log_service.http.server.values import HttpError


@dataclass(slots=True, eq=False)
class _Own:
    """The places of one person. ``count`` is the number that the person has or waits for."""

    limiter: trio.CapacityLimiter
    count: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class WorkLimits:
    """The limits of one kind of work, which needs a place for each piece that runs.

    Without logins the user is empty, and only the total limit ``most`` applies.
    """

    most: int
    most_of_one: int
    is_patient: bool = True
    """Whether work waits for a place, or is refused at once."""
    status: int = 503
    """The status of refusals, with the texts for the total bound and for the bound of a person."""
    busy: str = "too many people do this now: try again in a moment"
    own_busy: str = "you do this too often at the same time: end some of it, or try again"
    _all: trio.CapacityLimiter = field(init=False)
    _own: dict[str, _Own] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._all = trio.CapacityLimiter(self.most)

    def check(self, user: str) -> None:
        """Refuse work that would be refused a place now.

        Raises:
            HttpError: no place is free, and the work may not wait for one.
        """
        own = self._own.get(user)
        factor = 2 if self.is_patient else 1
        if own is not None and own.count >= factor * own.limiter.total_tokens:
            raise self._refusal(self.own_busy if user else self.busy)
        waiting = self._all.statistics().tasks_waiting
        if self._all.available_tokens < 1 and (not self.is_patient or waiting >= self.most):
            raise self._refusal(self.busy)

    @asynccontextmanager
    async def one_of(self, user: str) -> AsyncIterator[None]:
        """Wait for a place of a person, and hold it within a ``with`` block.

        Raises:
            HttpError: no place is free, and the work may not wait for one.
        """
        self.check(user)
        own = self._own.get(user)
        if own is None:
            most = self.most_of_one if user else self.most
            own = self._own[user] = _Own(trio.CapacityLimiter(most))
        own.count += 1
        try:
            async with own.limiter, self._all:
                yield
        finally:
            own.count -= 1
            if not own.count:
                del self._own[user]

    def _refusal(self, text: str) -> HttpError:
        return HttpError(self.status, text, (("retry-after", "5"),))
