"""Previews: a change is shown with its effects before a second request makes it."""

from dataclasses import dataclass

from log_service.http.console.page_requests import PageRequest, rendered
from log_service.http.server.values import HttpResponse

CONFIRMED_FIELD = "confirmed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """One change before it happens."""

    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A change that waits for a person's consent.

    ``fields`` are hidden fields of the form that the person sends to consent. If there is a
    ``confirmation``, the person has to type this text first.
    """

    sentence: str
    action: str
    button: str
    back: str
    rows: tuple[ChangeRow, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    confirmation: str = ""
    is_destructive: bool = False


def is_confirmed(page_request: PageRequest) -> bool:
    """Return whether the person has confirmed the change on its preview."""
    return bool(page_request.form.get(CONFIRMED_FIELD))


def kept(page_request: PageRequest, *names: str) -> tuple[tuple[str, str], ...]:
    """Return the named form fields that are not empty, for ``Preview.fields``."""
    return tuple((name, page_request.form[name]) for name in names if page_request.form.get(name))


def preview_page(page_request: PageRequest, preview: Preview, *commands: str) -> HttpResponse:
    """Return the page of a preview."""
    return rendered(
        page_request.context,
        page_request.person,
        "console/preview.html",
        area=page_request.area,
        title=preview.sentence,
        commands=commands,
        preview=preview,
    )
