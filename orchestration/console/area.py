"""The area of the console that the entry point ``tidelog.console`` names, with its routes.

It is in the navigation when the console runs in a project and the platform is installed. Otherwise
its pages say what is missing.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from log_service.http.console.areas import Area, PageRoute
from log_service.http.console.page_requests import PageRequest
from log_service.http.server.values import HttpResponse
from orchestration.console.flow import show_flow
from orchestration.console.pages import jobs, letters, questions, tables
from orchestration.console.platform import Platform

MAX_FORM_BYTES = 1 << 20
"""The largest form. Its bytes are percent-encoded, so a fix may take three times its size."""
Handler = Callable[[Platform, PageRequest], Awaitable[HttpResponse]]


def area(folder: Path | None = None) -> Area:
    """Return the area of the project in a folder, which is the current one by default."""
    platform = Platform(folder or Path.cwd())
    one, job = "/pipelines/tables/{table}", "/pipelines/jobs/{job}"
    rows: tuple[tuple[str, str, Handler], ...] = (
        ("GET", "/pipelines", tables.show_list),
        ("GET", one, tables.show),
        ("GET", f"{one}/rows", tables.show_rows),
        ("GET", "/pipelines/sql", questions.show),
        ("POST", "/pipelines/sql", questions.ask),
        ("GET", job, jobs.show),
        ("POST", f"{job}/stop", jobs.stop),
        ("GET", "/pipelines/letters", letters.show_summary),
        ("GET", "/pipelines/letters/{table}", letters.show_list),
        ("GET", "/pipelines/letter", letters.show),
        ("POST", "/pipelines/fix", letters.fix),
        ("POST", "/pipelines/replay", letters.replay),
    )
    return Area(
        name="pipelines",
        label="" if platform.missing else "Pipelines",
        path="/pipelines",
        routes=tuple(
            PageRoute(
                method=method,
                path=path,
                handler=partial(handler, platform),
                max_body_bytes=MAX_FORM_BYTES,
            )
            for method, path, handler in rows
        ),
        templates=Path(__file__).parent / "templates",
        flow=partial(show_flow, platform),
    )
