"""Questions in SQL from Python: ``ask("SELECT count(*) FROM clean_orders")``, over tables, marts, dead letters and topics at once.

For scripts and notebooks; the command line's ``tidelog sql`` is the same. Uses the lake, the warehouse and the broker of the settings.
"""

from collections.abc import Iterable

import pyarrow as pa

from orchestration.connection import connect
from orchestration.settings import Settings, load_settings
from orchestration.tables import Lake
from orchestration.topic_relations import TopicRelations, topic_names
from orchestration.topics import TopicSpec
from orchestration.warehouse import Warehouse


def ask(sql: str, *, topics: Iterable[TopicSpec] = (), settings: Settings | None = None) -> pa.Table:
    """Return the answer of one SELECT as an Arrow table (``.to_pandas()``, ``.to_pylist()``).

    Relations are the names of lake tables and marts, ``dead_letters``, and ``topics.NAME`` for any topic, with the columns
    ``_partition, _offset, _timestamp, _key, _value`` (texts), ``_bytes`` and ``_headers``. Those in ``topics`` have a column per field of
    their schema, too.

    :raises WarehouseError: DuckDB cannot answer it. :raises LogServiceError: a topic is asked for, and the log service does not respond.
    """
    found = settings or load_settings()
    warehouse = Warehouse(found.warehouse_directory, Lake(found.lake_root))
    if not topic_names(sql):
        return warehouse.query(sql)
    with connect(found.bootstrap_servers) as log:
        return warehouse.query(sql, TopicRelations(log, {spec.name: spec.fields for spec in topics if spec.fields is not None}))
