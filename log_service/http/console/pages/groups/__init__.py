"""The area of groups: classic, consumer, share and streams groups with members and lag.

The pages and this package call a share group a queue.

- ``view``: the pages as values. ``progress``: how far groups have read. ``handlers``: the requests.
"""

from pathlib import Path

from log_service.http.console.areas import Area, PageRoute
from log_service.http.console.pages.groups import handlers


def area() -> Area:
    """Return the area. Ids of groups may hold any character, so they are in the query."""
    rows = (
        ("GET", "/groups", handlers.show_list),
        ("GET", "/group", handlers.show),
        ("POST", "/group/reset", handlers.reset, handlers.show),
        ("POST", "/group/release", handlers.release, handlers.show),
        ("POST", "/group/delete", handlers.delete, handlers.show),
    )
    return Area(
        name="groups",
        label="Groups",
        path="/groups",
        routes=tuple(
            PageRoute(method=method, path=path, handler=handler, form=form[0] if form else None)
            for method, path, handler, *form in rows
        ),
        templates=Path(__file__).parent / "templates",
    )
