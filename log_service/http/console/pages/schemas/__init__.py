"""The area of schemas: subjects, versions with their differences, compatibility, registration.

- ``view``: the pages as values. ``registration``: registers schemas. ``handlers``: the other
  requests.
"""

from pathlib import Path

from log_service.http.console.areas import Area, PageRoute
from log_service.http.console.pages.schemas import handlers, registration

MAX_SCHEMA_FORM_BYTES = 3 << 20
"""A form grows to three times the size of a schema, because its bytes are percent-encoded."""


def area() -> Area:
    """Return the area. Names of subjects may hold any character, so they are in the query."""
    rows = (
        ("GET", "/schemas", handlers.show_list),
        ("GET", "/schema", handlers.show),
        ("GET", "/schema/register", registration.show),
        ("POST", "/schema/register", registration.register, registration.show),
        ("POST", "/schema/level", handlers.change_level, handlers.show),
        ("POST", "/schema/delete", handlers.delete, handlers.show),
    )
    return Area(
        name="schemas",
        label="Schemas",
        path="/schemas",
        routes=tuple(
            PageRoute(
                method=method,
                path=path,
                handler=handler,
                max_body_bytes=MAX_SCHEMA_FORM_BYTES,
                form=form[0] if form else None,
            )
            for method, path, handler, *form in rows
        ),
        templates=Path(__file__).parent / "templates",
    )
