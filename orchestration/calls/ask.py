"""Answers queries in SQL from Python: ``ask("SELECT count(*) FROM clean_orders")``.

A query may read tables, marts, dead letters and topics at once. The function is for scripts and
notebooks, and ``tidelog sql`` does the same on the command line. Uses the lake, the warehouse and
the broker of the settings.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from orchestration.lake.tables import Lake
from orchestration.log_client.connection import connect
from orchestration.log_client.protocol import LogServiceError
from orchestration.retained.archive_reading import find_archive
from orchestration.settings import Settings, load_settings
from orchestration.topics.spec import TopicSpec
from orchestration.warehouse.store import (
    Confinement,
    Warehouse,
    WarehouseError,
    validate_question,
)
from orchestration.warehouse.topics_in_sql import (
    SCHEMA_NAME,
    IncompleteAnswerWarning,
    TopicRelations,
    topic_names,
)

__all__ = ["IncompleteAnswerWarning", "ask"]


def ask(
    sql: str,
    *,
    topics: Iterable[TopicSpec] = (),
    settings: Settings | None = None,
    is_archive_only: bool = False,
    timeout_ms: int | None = None,
    confinement: Confinement | None = None,
) -> pa.Table:
    """Return the answer of one SELECT as an Arrow table (``.to_pandas()``, ``.to_pylist()``).

    Relations are the names of lake tables and marts, ``dead_letters``, and ``topics.NAME`` for any
    topic, its archive included. A topic has the columns ``_partition, _offset, _timestamp, _key,
    _value`` (texts), ``_bytes`` and ``_headers``. A topic declared in ``topics`` also has a column
    per field of its schema. With ``is_archive_only`` the records come from the archives alone, and
    no broker is asked. ``timeout_ms`` bounds each request to the log service, but not the whole
    answer. The client's own default applies if it is None. ``confinement`` bounds what a query that
    another person wrote may read and use. Its ``relations`` may contain topics, as ``topics.NAME``.

    Warns with ``IncompleteAnswerWarning`` if records of a topic were removed before they were
    archived, if a batch cannot be read, and if a topic is deleted.

    :raises WarehouseError: the SQL is not a single query, DuckDB cannot answer it, or it reads a
        topic that the confinement does not name.
    :raises LogServiceError: the query reads a topic, and the log service does not respond.
    """
    validate_question(sql)
    found = settings or load_settings()
    lake = Lake(found.lake_root)
    warehouse = Warehouse(found.warehouse_directory, lake)
    names = topic_names(sql)
    if confinement is not None:
        _refuse_topics(names, confinement)
    topics = tuple(topics)
    schemas = {spec.name: spec.fields for spec in topics if spec.fields is not None}
    formats = {spec.name: spec.value_format for spec in topics if spec.value_format is not None}
    if not names:
        return warehouse.query(sql, confinement=confinement)
    if is_archive_only:
        relations = TopicRelations(None, schemas, lake, formats)
        return warehouse.query(sql, relations, confinement=confinement)
    with _advised(lake, names), connect(found.bootstrap_servers, timeout_ms=timeout_ms) as log:
        relations = TopicRelations(log, schemas, lake, formats)
        return warehouse.query(sql, relations, confinement=confinement)


def _refuse_topics(names: Iterable[str], confinement: Confinement) -> None:
    others = sorted(name for name in names if f"{SCHEMA_NAME}.{name}" not in confinement.relations)
    if others:
        raise WarehouseError(f"this question may not read the topics {', '.join(others)}")


@contextmanager
def _advised(lake: Lake, names: Iterable[str]) -> Iterator[None]:
    """Advise to query the archives alone, if the log service fails and each topic has an archive.

    Wrap the code that reads the topics ``names``. The advice is added to the text of its
    ``LogServiceError``.
    """
    try:
        yield
    except LogServiceError as error:
        if all(find_archive(lake, name) is not None for name in names):
            raise LogServiceError(
                f"{error}. What is archived can be asked without it: --archived, or"
                " is_archive_only=True"
            ) from error
        raise
