"""The area of transactions: their states, their partitions, and hanging transactions.

- ``view``: the pages as values. ``handlers``: the requests.
"""

from pathlib import Path

from log_service.http.console.areas import Area, PageRoute
from log_service.http.console.pages.transactions import handlers


def area() -> Area:
    """Return the area. Transactional ids may hold any character, so they are in the query."""
    rows = (
        ("GET", "/transactions", handlers.show_list),
        ("GET", "/transaction", handlers.show),
        ("GET", "/transactions/hanging", handlers.show_hanging),
        ("POST", "/transactions/abort", handlers.abort, handlers.show_hanging),
    )
    return Area(
        name="transactions",
        label="Transactions",
        path="/transactions",
        routes=tuple(
            PageRoute(method=method, path=path, handler=handler, form=form[0] if form else None)
            for method, path, handler, *form in rows
        ),
        templates=Path(__file__).parent / "templates",
    )
