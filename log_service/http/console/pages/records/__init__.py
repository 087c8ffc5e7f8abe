"""The area of records: browse a topic, follow it live, download records, and produce one.

- ``view``: the pages as values. ``reading``: reads records within bounds. ``tail``: follows a
  topic. ``handlers``: the requests.
"""

from pathlib import Path

from log_service.http.console.areas import Area, PageRoute
from log_service.http.console.pages.records import handlers

MAX_RECORD_FORM_BYTES = 3 << 20
"""A form grows to three times the size of a record, because its bytes are percent-encoded."""


def area() -> Area:
    """Return the area. It has no entry of its own in the navigation."""
    one = "/topics/{topic}"
    rows = (
        ("GET", f"{one}/records", handlers.browse),
        ("GET", f"{one}/records.ndjson", handlers.download),
        ("GET", f"{one}/live", handlers.show_live),
        ("GET", f"{one}/tail", handlers.tail),
        ("GET", f"{one}/produce", handlers.show_produce),
        ("POST", f"{one}/produce", handlers.produce),
    )
    return Area(
        name="records",
        label="",
        path="/topics",
        routes=tuple(
            PageRoute(
                method=method, path=path, handler=handler, max_body_bytes=MAX_RECORD_FORM_BYTES
            )
            for method, path, handler in rows
        ),
        templates=Path(__file__).parent / "templates",
    )
