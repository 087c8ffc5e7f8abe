"""The area of schemas: subjects, versions with their differences, compatibility, registration.

- ``view``: the pages as values. ``handlers``: the requests.
"""

from pathlib import Path

from log_service.http.console.areas import Area, PageRoute
from log_service.http.console.pages.schemas import handlers

MAX_SCHEMA_FORM_BYTES = 3 << 20
"""A form grows to three times the size of a schema, because its bytes are percent-encoded."""


def area() -> Area:
    """Return the area. Names of subjects may hold any character, so they are in the query."""
    rows = (
        ("GET", "/schemas", handlers.show_list),
        ("GET", "/schema", handlers.show),
        ("POST", "/schema/register", handlers.register),
        ("POST", "/schema/level", handlers.change_level),
        ("POST", "/schema/delete", handlers.delete),
    )
    return Area(
        name="schemas",
        label="Schemas",
        path="/schemas",
        routes=tuple(
            PageRoute(
                method=method, path=path, handler=handler, max_body_bytes=MAX_SCHEMA_FORM_BYTES
            )
            for method, path, handler in rows
        ),
        templates=Path(__file__).parent / "templates",
    )
