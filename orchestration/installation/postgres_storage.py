"""Dagster's storage in PostgreSQL, for the setting TIDELOG_POSTGRES_URL.

Decides the driver, because ``dagster-postgres`` sends options that only psycopg2 takes, and newer
releases of SQLAlchemy choose another driver if a URL names none. Everything else is Dagster's own.
"""

from typing import Any

from dagster._serdes import ConfigurableClassData
from dagster_postgres import DagsterPostgresStorage

from orchestration.settings import POSTGRES_SCHEME

DRIVER_SCHEME = "postgresql+psycopg2://"


class PostgresStorage(DagsterPostgresStorage):
    """The storage at ``postgres_url``, which names no driver."""

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Any
    ) -> "PostgresStorage":
        """Return the storage that a ``dagster.yaml`` configures."""
        url = str(config_value["postgres_url"])
        named = (
            f"{DRIVER_SCHEME}{url.removeprefix(POSTGRES_SCHEME)}"
            if url.startswith(POSTGRES_SCHEME)
            else url
        )
        return cls(postgres_url=named, inst_data=inst_data)
