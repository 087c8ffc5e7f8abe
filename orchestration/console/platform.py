"""The platform behind the pages: the project's folder, its processes, and their last answers.

Answers are cached for a few seconds, and all people share them. Each page shows only the facts that
its person has a right to.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import trio

from log_service.common.env import Clock
from log_service.http.console.page_requests import PageRequest
from log_service.http.server.values import HttpError
from orchestration.console.jobs import Jobs
from orchestration.console.rights import Rights, needed_topics, rights_of
from orchestration.console.values import TableFacts
from orchestration.console.worker import CHANGES, FACTS, PREVIEWS, QUESTIONS, Worker
from orchestration.project.importing import NEEDED
from orchestration.project.location import ASSETS

FRESH_MS = 4_000
MAX_REMEMBERED = 50
NO_PROJECT = (
    "This console runs in no project, so it knows no tables. Start it with `tidelog console` in the"
    " folder of a project, or with `tidelog up --project FOLDER`. `tidelog init NAME` writes a new"
    " project."
)
STOPPING = "the console is stopping"
NO_PLATFORM = "The platform is not installed here: pip install 'tidelog[platform]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The project as it is now.

    ``topics`` are all topics that it declares or reads. ``trouble`` is the reason why some facts
    are not known.
    """

    tables: tuple[TableFacts, ...]
    topics: tuple[str, ...]
    trouble: str
    dagster_url: str

    def table(self, name: str) -> TableFacts | None:
        """Return a table, None if the project declares none of that name."""
        return next((each for each in self.tables if each.name == name), None)

    def needed_topics(self, name: str) -> tuple[str, ...]:
        """Return the topics on which a person needs rights for the tables named ``name``."""
        return needed_topics([each for each in self.tables if each.name == name], self.topics)


@dataclass(slots=True, kw_only=True)
class _Answer:
    """The answer that requests wait for. If there is a ``refusal``, it is raised instead."""

    found: Any = None
    refusal: HttpError | None = field(default_factory=partial(HttpError, 503, STOPPING))
    is_there: trio.Event = field(default_factory=trio.Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The project as one person may see it."""

    overview: Overview
    rights: Rights


class Platform:
    """The project in a folder.

    ``missing`` is the reason why there is no project, empty if there is one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.missing = why_missing(folder)
        self.facts = Worker(FACTS, folder)
        self.questions = Worker(QUESTIONS, folder)
        self.previews = Worker(PREVIEWS, folder)
        self.changes = Worker(CHANGES, folder)
        self.jobs = Jobs()
        self._remembered: dict[tuple[str, ...], tuple[int, Any]] = {}
        self._asked: dict[tuple[str, ...], _Answer] = {}

    def __repr__(self) -> str:
        return f"<Platform {self.folder}>"

    async def ask(self, page_request: PageRequest, method: str, **parameters: Any) -> Any:
        """Return the result of ``method``, from the cache or from a process of the platform.

        A result is cached for at most ``FRESH_MS``. Requests with the same method and parameters
        wait for one answer. A cancelled request does not stop the process, because the next request
        would have to start it again.

        Raises:
            HttpError: there is no project, or the platform refuses.
        """
        if self.missing:
            raise HttpError(404, self.missing)
        key = method, *(f"{name}={value}" for name, value in sorted(parameters.items()))
        clock: Clock = page_request.context.env.clock
        at_ms, known = self._remembered.get(key, (-FRESH_MS, None))
        if clock.monotonic_ms() - at_ms < FRESH_MS:
            return known
        answer = self._asked.get(key)
        if answer is None:
            answer = self._asked[key] = _Answer()
            nursery, user = page_request.context.nursery, page_request.person.user
            ask = partial(self.facts.ask, nursery, method, user=user, **parameters)
            nursery.start_soon(self._ask, ask, clock, key, answer)
        await answer.is_there.wait()
        if answer.refusal is not None:
            raise answer.refusal
        return answer.found

    async def _ask(
        self,
        ask: Callable[[], Awaitable[Any]],
        clock: Clock,
        key: tuple[str, ...],
        answer: "_Answer",
    ) -> None:
        try:
            answer.found = await ask()
            answer.refusal = None
            if self._asked.get(key) is answer:  # else a change has made it old
                if len(self._remembered) >= MAX_REMEMBERED:
                    self._remembered.clear()
                self._remembered[key] = clock.monotonic_ms(), answer.found
        except HttpError as error:
            answer.refusal = error
        finally:
            if self._asked.get(key) is answer:
                del self._asked[key]
            answer.is_there.set()

    def forget(self) -> None:
        """Forget the facts, because a change has made them old."""
        self._remembered.clear()
        self._asked.clear()

    async def sight(self, page_request: PageRequest, more_topics: Collection[str] = ()) -> Sight:
        """Return the project as the person may see it, with the rights on ``more_topics``, too.

        Raises:
            HttpError: there is no project, or it cannot be loaded.
        """
        found: Mapping[str, Any] = await self.ask(page_request, "tables")
        overview = Overview(
            tables=tuple(TableFacts(**row) for row in found["tables"]),
            topics=tuple(found["topics"]),
            trouble=found["trouble"],
            dagster_url=found["dagster_url"],
        )
        ids: Mapping[str, str] = {}
        if page_request.context.has_logins:
            sources = {topic for table in overview.tables for topic in table.sources}
            names: Sequence[str] = sorted({*overview.topics, *sources, *more_topics})
            ids = await self.ask(page_request, "topic_ids", names=names)
        return Sight(overview=overview, rights=await rights_of(page_request, ids))


def why_missing(folder: Path) -> str:
    """Return why a folder cannot have tables. The text is empty if it can."""
    if any(find_spec(name) is None for name in NEEDED):
        return NO_PLATFORM
    return "" if (folder / ASSETS / "__init__.py").is_file() else NO_PROJECT
