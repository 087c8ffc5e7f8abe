"""Work behind a page of its own: bounded, stopped by its person, and never the end of a console."""

from collections.abc import Awaitable, Callable

import pytest
import trio

from log_service.http.server.values import HttpError
from orchestration.console.jobs import MAX_KEPT, MAX_RUNNING, MAX_RUNNING_OF_PERSON, Jobs

Story = Callable[[Jobs, trio.Nursery], Awaitable[None]]


def tell(story: Story) -> None:
    async def run() -> None:
        async with trio.open_nursery() as nursery:
            await story(Jobs(), nursery)
            nursery.cancel_scope.cancel()

    trio.run(run)


async def at_once() -> int:
    await trio.lowlevel.checkpoint()
    return 42


def test_a_result_is_kept_for_the_person_who_asked() -> None:
    async def story(jobs: Jobs, nursery: trio.Nursery) -> None:
        job = jobs.start(nursery, "ann", "answer", at_once, title="t")
        await job.ended.wait()
        assert (job.state, jobs.find(job.job_id, "ann").result) == ("done", 42)
        for job_id, user in ((job.job_id, "bob"), (job.job_id, ""), ("unknown", "ann")):
            with pytest.raises(HttpError) as caught:
                jobs.find(job_id, user)
            assert caught.value.status == 404

    tell(story)


def test_one_person_leaves_places_to_others_and_all_have_an_end() -> None:
    async def story(jobs: Jobs, nursery: trio.Nursery) -> None:
        own = [
            jobs.start(nursery, "ann", "answer", trio.sleep_forever)
            for _ in range(MAX_RUNNING_OF_PERSON)
        ]
        with pytest.raises(HttpError):
            jobs.start(nursery, "ann", "answer", at_once)
        others = [
            jobs.start(nursery, f"user{number}", "answer", trio.sleep_forever)
            for number in range(MAX_RUNNING - MAX_RUNNING_OF_PERSON)
        ]
        with pytest.raises(HttpError):
            jobs.start(nursery, "bob", "answer", at_once)
        own[0].scope.cancel()
        await own[0].ended.wait()
        assert own[0].state == "stopped"
        assert others[0].is_running
        jobs.start(nursery, "bob", "answer", at_once)

    tell(story)


@pytest.mark.parametrize(
    ("error", "told"),
    [(HttpError(400, "no such table"), "no such table"), (ValueError("x"), "its log says why")],
)
def test_a_job_that_fails_tells_it_and_nothing_else_ends(error: Exception, told: str) -> None:
    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise error

    async def story(jobs: Jobs, nursery: trio.Nursery) -> None:
        job = jobs.start(nursery, "", "answer", fail)
        await job.ended.wait()
        assert job.state == "failed"
        assert told in job.error
        other = jobs.start(nursery, "", "answer", at_once)
        await other.ended.wait()
        assert other.result == 42

    tell(story)


def test_old_results_are_forgotten() -> None:
    async def story(jobs: Jobs, nursery: trio.Nursery) -> None:
        first = jobs.start(nursery, "", "answer", at_once)
        for _ in range(MAX_KEPT + 1):
            job = jobs.start(nursery, "", "answer", at_once)
            await job.ended.wait()
        with pytest.raises(HttpError, match="no longer kept"):
            jobs.find(first.job_id, "")
        assert jobs.find(job.job_id, "") is job

    tell(story)
