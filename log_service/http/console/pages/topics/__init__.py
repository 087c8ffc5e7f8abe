"""The area of topics: their list, partitions and configs, and how they are created and changed.

- ``view``: the pages as values. ``handlers``: shows topics. ``changes``: creates, alters and
  deletes them, each with a preview.
"""

from pathlib import Path

from log_service.http.console.areas import Area, PageRoute
from log_service.http.console.pages.topics import changes, handlers


def area() -> Area:
    """Return the area."""
    one = "/topics/{topic}"
    rows = (
        ("GET", "/topics", handlers.show_list),
        ("GET", "/create-topic", changes.show_creation),
        ("POST", "/create-topic", changes.create, changes.show_creation),
        ("GET", one, handlers.show),
        ("GET", f"{one}/configs", handlers.show_configs),
        ("POST", f"{one}/configs", changes.change_configs, handlers.show_configs),
        ("POST", f"{one}/partitions", changes.add_partitions, handlers.show),
        ("POST", f"{one}/delete", changes.delete, handlers.show),
    )
    return Area(
        name="topics",
        label="Topics",
        path="/topics",
        routes=tuple(
            PageRoute(method=method, path=path, handler=handler, form=form[0] if form else None)
            for method, path, handler, *form in rows
        ),
        templates=Path(__file__).parent / "templates",
    )
