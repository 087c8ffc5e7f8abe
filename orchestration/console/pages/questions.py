"""SQL over tables, marts, dead letters and topics, as ``tidelog sql`` answers it.

A link only fills the query into the form, because another site could show the link. The button runs
the query. A person may run it with READ on the topics of every relation that it reads.
"""

from functools import partial
from typing import Any

from log_service.http.console.addresses import command
from log_service.http.console.page_requests import PageRequest
from log_service.http.server.values import HttpError, HttpResponse
from orchestration.console.pages import jobs
from orchestration.console.platform import Platform
from orchestration.console.rights import UNKNOWN_TOPICS

MAX_QUESTION_CHARACTERS = 20_000
EXAMPLE = "SELECT ... FROM ..."


async def show(platform: Platform, page_request: PageRequest) -> HttpResponse:
    """Show the form for a query, with the tables and topics that the person may read."""
    sight = await platform.sight(page_request)
    question = page_request.query.get("question", "")[:MAX_QUESTION_CHARACTERS]
    tables = [
        each.name
        for each in sight.overview.tables
        if sight.rights.may_read(sight.overview.needed_topics(each.name))
    ]
    topics = [each for each in sight.overview.topics if sight.rights.may_read([each])]
    return page_request.page(
        "sql.html",
        title="SQL",
        commands=(command("sql", question or EXAMPLE),),
        question=question,
        tables=tables,
        topics=topics,
    )


async def ask(platform: Platform, page_request: PageRequest) -> HttpResponse:
    """Begin a job that runs the query, and redirect to the page of the job."""
    question = page_request.required("question").strip()
    if len(question) > MAX_QUESTION_CHARACTERS:
        raise HttpError(400, f"a question has at most {MAX_QUESTION_CHARACTERS} characters")
    relations = await readable_relations(platform, page_request, question)
    work = partial(
        platform.questions.ask,
        page_request.context.nursery,
        "sql",
        user=page_request.person.user,
        question=question,
        relations=relations,
    )
    line = command("sql", question)
    return jobs.begin(
        platform, page_request, "answer", work, title="SQL", commands=(line,), question=question
    )


async def readable_relations(
    platform: Platform, page_request: PageRequest, question: str
) -> list[str]:
    """Return the relations of a query, if the person may read all of them.

    Raises:
        HttpError: 403, names the topics whose READ is missing.
    """
    named: dict[str, Any] = await platform.ask(page_request, "relations", question=question)
    sight = await platform.sight(page_request, named["topics"])
    overview, needed = sight.overview, set[str](named["topics"])
    for name in named["tables"]:
        needed.update(overview.needed_topics(name))
    if named["has_dead_letters"]:
        needed.update(overview.topics or UNKNOWN_TOPICS)
    sight.rights.require_read(needed, "this question")
    relations: list[str] = named["all"]
    return relations
