"""How long a database may take to respond: what each driver calls it.

Drivers that are not known here get no limit of their own. SQLite's limit is the wait for a lock.
"""

from typing import Any

from sqlalchemy.engine import URL

LIBPQ_DRIVERS = frozenset({"psycopg", "psycopg2"})
CONNECT_WITHIN_S = 30
"""What a run may wait for a connection: longer than the restart of a server takes, shorter than TCP's own minutes."""


def connect_arguments(url: URL, *, connect_s: int, statement_s: int | None = None) -> dict[str, Any]:
    """Return what the driver of ``url`` is to be given, so that it connects in ``connect_s`` and a statement ends in ``statement_s``.

    What the URL says itself holds.
    """
    backend = url.get_backend_name()
    if backend == "sqlite":
        return {} if statement_s is None or "timeout" in url.query else {"timeout": statement_s}
    if backend != "postgresql" or url.get_driver_name() not in LIBPQ_DRIVERS:
        return {}
    given: dict[str, Any] = {} if "connect_timeout" in url.query else {"connect_timeout": connect_s}
    options = url.query.get("options", "")
    if statement_s is not None and isinstance(options, str) and "statement_timeout" not in options:
        given["options"] = f"{options} -c statement_timeout={statement_s * 1000}".strip()
    return given
