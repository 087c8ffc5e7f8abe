"""Work that takes long and runs in the background, with a page of its own.

Invariants: the number of running jobs is bounded, in total and per person. Only the person who
began a job sees it. The results of the last jobs are kept, and older ones are forgotten.
"""

import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import trio

from log_service.http.server.values import HttpError

MAX_RUNNING = 8
MAX_RUNNING_OF_PERSON = 3
MAX_KEPT = 40
RUNNING, DONE, FAILED, STOPPED = "running", "done", "failed", "stopped"
BUSY = "too much goes on in this console now: try again in a moment, or stop what you began"

logger = logging.getLogger(__name__)

Work = Callable[[], Awaitable[Any]]


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """One piece of work. ``facts`` are shown on its page, ``result`` is its return value."""

    job_id: str
    user: str
    kind: str
    facts: dict[str, Any]
    state: str = RUNNING
    result: Any = None
    error: str = ""
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    ended: trio.Event = field(default_factory=trio.Event)

    @property
    def is_running(self) -> bool:
        """Whether the work is still running."""
        return self.state == RUNNING


class Jobs:
    """The jobs of one console."""

    def __init__(self) -> None:
        self._jobs = OrderedDict[str, Job]()

    def __repr__(self) -> str:
        return f"<Jobs count={len(self._jobs)}>"

    def start(self, nursery: trio.Nursery, user: str, kind: str, work: Work, **facts: Any) -> Job:
        """Begin a job in a nursery that outlives the request.

        Raises:
            HttpError: 503, too many jobs are running.
        """
        running = [each for each in self._jobs.values() if each.is_running]
        own = [each for each in running if each.user == user]
        most_of_one = MAX_RUNNING_OF_PERSON if user else MAX_RUNNING
        if len(running) >= MAX_RUNNING or len(own) >= most_of_one:
            raise HttpError(503, BUSY, (("retry-after", "5"),))
        job = Job(job_id=secrets.token_urlsafe(12), user=user, kind=kind, facts=facts)
        self._jobs[job.job_id] = job
        ended = [each for each in self._jobs.values() if not each.is_running]
        for each in ended[: max(0, len(self._jobs) - MAX_KEPT)]:
            del self._jobs[each.job_id]
        nursery.start_soon(self._run, job, work)
        return job

    def find(self, job_id: str, user: str) -> Job:
        """Return a job of a person.

        Raises:
            HttpError: 404, no job has that id, or another person began the job.
        """
        found = self._jobs.get(job_id)
        if found is None or found.user != user:
            raise HttpError(404, "this result is no longer kept: ask again")
        return found

    async def _run(self, job: Job, work: Work) -> None:
        try:
            with job.scope:
                job.result = await work()
                job.state = DONE
        except HttpError as error:
            job.state, job.error = FAILED, error.text
        except Exception as error:  # a bug of ours costs one job
            logger.error("A job failed: %r", error, exc_info=error)
            job.state, job.error = FAILED, "the console failed, and its log says why"
        finally:
            if job.is_running:
                job.state = STOPPED
            job.ended.set()
