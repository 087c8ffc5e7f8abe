"""The areas of the console: parts with their pages, templates and an entry in the navigation.

Other packages add areas through entry points of the group ``tidelog.console``. Each names a
function without arguments that returns an ``Area``.
"""

from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

from log_service.http.console.page_requests import FlowSource, NavigationEntry, PageHandler

ENTRY_POINT_GROUP = "tidelog.console"
MAX_FORM_BYTES = 256 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRoute:
    """One page. A method other than GET changes something, and needs the CSRF token of its form.

    ``form`` handles the page that contains the form. If ``handler`` refuses the input, ``form``
    shows that page again, with the typed fields from ``PageRequest.typed``. The template of that
    page calls the macro ``refused``, which shows the reason.
    """

    method: str
    path: str
    handler: PageHandler
    max_body_bytes: int = MAX_FORM_BYTES
    form: PageHandler | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """One part of the console.

    ``path`` is the page that the navigation leads to. ``templates`` is the folder of its templates,
    which are called ``name/file.html``. ``flow`` returns the edges of this area for the page Flow.
    """

    name: str
    label: str
    path: str
    routes: tuple[PageRoute, ...]
    templates: Path
    flow: FlowSource | None = None

    @property
    def entry(self) -> NavigationEntry:
        """The entry in the navigation."""
        return NavigationEntry(label=self.label, path=self.path, name=self.name)


def other_areas() -> list[Area]:
    """Return the areas that other packages add, sorted by name.

    A package that lacks its optional dependencies adds none.
    """
    found = []
    for entry_point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda each: each.name):
        try:
            make = entry_point.load()
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] in {"orchestration", "log_service"}:
                raise
            continue
        found.append(make())
    return found
