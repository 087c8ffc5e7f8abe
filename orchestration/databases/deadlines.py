"""Limits how long a database may take to respond, by the option of each driver.

Drivers that are not known here get no limit of their own. SQLite's limit is the wait for a lock.
PostgreSQL gets its limit within each transaction, with ``SET LOCAL``. Poolers such as PgBouncer
refuse the startup parameter ``options``, which would also replace ``PGOPTIONS``. A setting of the
session would stay with a pooler's connection, which others use next.
"""

from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.engine import URL

LIBPQ_DRIVERS = frozenset({"psycopg", "psycopg2"})
CONNECT_WITHIN_S = 30
"""The time that a run may wait for a connection.

It is longer than the restart of a server takes, and shorter than TCP's own minutes.
"""


QUERY_CANCELED = "57014"
"""PostgreSQL's error code for a cancelled statement."""


def connect_arguments(url: URL, *, connect_s: int, lock_s: int | None = None) -> dict[str, Any]:
    """Return the arguments for the driver of ``url`` that make it connect within ``connect_s``.

    SQLite waits ``lock_s`` for a lock. A limit in the URL itself takes precedence.
    """
    backend = url.get_backend_name()
    if backend == "sqlite":
        return {} if lock_s is None or "timeout" in url.query else {"timeout": lock_s}
    if not _is_libpq(url) or "connect_timeout" in url.query:
        return {}
    return {"connect_timeout": connect_s}


def limit_statements(engine: Engine, within_s: int) -> None:
    """Make PostgreSQL cancel statements of the engine that take longer than ``within_s``.

    A limit in the URL itself takes precedence.
    """
    if not _is_libpq(engine.url) or "statement_timeout" in str(engine.url.query.get("options", "")):
        return

    @event.listens_for(engine, "begin")
    def limit(connection: object) -> None:
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {within_s * 1000}")  # type: ignore[attr-defined]


def is_cut_off(error: Exception) -> bool:
    """Return whether PostgreSQL canceled a statement at its time limit.

    ``error`` is that of the driver.
    """
    return QUERY_CANCELED in {getattr(error, "sqlstate", None), getattr(error, "pgcode", None)}


def _is_libpq(url: URL) -> bool:
    return url.get_backend_name() == "postgresql" and url.get_driver_name() in LIBPQ_DRIVERS
