"""The area of records: browse a topic, follow it live, download records, and produce one.

- ``view``: the pages as values. ``fates``: how transactions ended. ``reading``: reads records
  within bounds. ``tail``: follows a topic. ``producing``: the bytes of a new record. ``handlers``:
  the requests.
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
        ("GET", f"{one}/records", handlers.browse, handlers.show_question),
        ("GET", f"{one}/records.ndjson", handlers.download),
        ("GET", f"{one}/live", handlers.show_live, handlers.show_live_question),
        ("GET", f"{one}/tail", handlers.tail),
        ("GET", f"{one}/produce", handlers.show_produce),
        ("POST", f"{one}/produce", handlers.produce, handlers.show_produce),
    )
    return Area(
        name="records",
        label="",
        path="/topics",
        routes=tuple(
            PageRoute(
                method=method,
                path=path,
                handler=handler,
                max_body_bytes=MAX_RECORD_FORM_BYTES,
                form=form[0] if form else None,
            )
            for method, path, handler, *form in rows
        ),
        templates=Path(__file__).parent / "templates",
    )
