"""The page of a job: its progress, the button that stops it, and its result."""

import trio

from log_service.http.console.addresses import path_to
from log_service.http.console.page_requests import PageRequest, part_response, redirect
from log_service.http.server.values import HttpResponse
from orchestration.console.jobs import Job, Work
from orchestration.console.platform import Platform

PATIENCE_S = 1.0
"""How long a page waits for its job, so that a quick result is shown at once."""


def begin(
    platform: Platform, page_request: PageRequest, kind: str, work: Work, **facts: object
) -> HttpResponse:
    """Begin a job, and send the browser to its page. ``facts`` are shown on the page."""
    nursery, user = page_request.context.nursery, page_request.person.user
    job = platform.jobs.start(nursery, user, kind, work, **facts)
    return redirect(path_to("pipelines", "jobs", job.job_id))


async def show(platform: Platform, page_request: PageRequest) -> HttpResponse:
    """Show the state of a job, after a moment in which a short job may finish."""
    job = platform.jobs.find(page_request.value("job"), page_request.person.user)
    with trio.move_on_after(PATIENCE_S):
        await job.ended.wait()
    return await trio.to_thread.run_sync(_page, page_request, job)


def _page(page_request: PageRequest, job: Job) -> HttpResponse:
    """Return the page of a job. Call it in a thread, because a long result takes time to render."""
    own = path_to("pipelines", "jobs", job.job_id)
    template = f"{job.kind}_state.html"
    if page_request.is_part:
        return part_response(page_request.part(template, job=job, own=own))
    return page_request.page(
        "job.html",
        title=str(job.facts["title"]),
        commands=tuple(job.facts["commands"]),
        job=job,
        own=own,
        state_template=f"{page_request.area}/{template}",
    )


async def stop(platform: Platform, page_request: PageRequest) -> HttpResponse:
    """Stop a job, and show it."""
    job = platform.jobs.find(page_request.value("job"), page_request.person.user)
    with page_request.audited("stop", str(job.facts["title"])):
        job.scope.cancel()
        await job.ended.wait()
    return redirect(path_to("pipelines", "jobs", job.job_id))
