"""The SQL database for reference tables as a Dagster resource."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field, PrivateAttr
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from orchestration.databases.deadlines import CONNECT_WITHIN_S, connect_arguments
from orchestration.databases.urls import may_hold_secret
from orchestration.resources.declared import accept, refused_config
from orchestration.settings import SettingsError, load_settings

FROM_ENVIRONMENT = (
    "put the URL into an environment variable and name that, as"
    ' DatabaseResource(url=dg.EnvVar("SHOP_DATABASE"))'
)


class DatabaseResource(dg.ConfigurableResource[Engine]):
    """Opens the database at ``url`` (SQLAlchemy's form), by default that of TIDELOG_SQL_URL.

    Without either it is a SQLite file. Dagster shows the configuration of resources to everyone who
    sees its pages. So a URL with a password comes from the environment:
    ``DatabaseResource(url=dg.EnvVar("SHOP_DATABASE"))``, of which Dagster shows the variable's
    name. A password in the text is refused, and so is an option that may hold a secret.
    """

    url: str | None = Field(default=None, repr=False)

    _refusal: str = PrivateAttr(default="")

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Note whether the run's config names another place, which ``open`` refuses."""
        self._refusal = refused_config(
            context,
            "database",
            "TIDELOG_SQL_URL, or DatabaseResource(url=...) among its resources,",
        )

    def get_resource_definition(self) -> Any:
        """Return the definition that Dagster keeps of this resource.

        :raises SettingsError: the text of ``url`` contains a secret, or may contain one.
        """
        secret = (
            None
            if self.url is None or isinstance(self.url, dg.EnvVar)
            else may_hold_secret(self.url)
        )
        if secret is not None:
            raise SettingsError(
                f"the url of a DatabaseResource holds {secret}; Dagster would show it to everyone:"
                f" {FROM_ENVIRONMENT}"
            )
        return super().get_resource_definition()

    @contextmanager
    def open(self) -> Iterator[Engine]:
        """Yield an engine, and dispose of it afterwards.

        :raises SettingsError: the URL is not valid, or the run's config names another URL.
        """
        accept(self._refusal)
        engine = open_engine(self.url or load_settings().sql_url.reveal())
        try:
            yield engine
        finally:
            engine.dispose()


def open_engine(url: str) -> Engine:
    """Return an engine whose transactions cover DDL on SQLite, too.

    The folder of a SQLite file is created.

    :raises SettingsError: the URL is not valid, or its driver is not installed.
    """
    try:
        parsed = make_url(url)
        if (
            parsed.get_backend_name() == "sqlite"
            and parsed.database
            and not parsed.database.startswith((":memory:", "file:"))
        ):
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(
            parsed, connect_args=connect_arguments(parsed, connect_s=CONNECT_WITHIN_S)
        )
    except (ArgumentError, ImportError) as error:
        raise SettingsError(
            f"TIDELOG_SQL_URL cannot be used: {error}. Give SQLAlchemy's form, e.g."
            " postgresql+psycopg://user@host/name"
        ) from error
    if engine.dialect.name == "sqlite":
        _cover_schema_changes(engine)
    return engine


def _cover_schema_changes(engine: Engine) -> None:
    """Make SQLite begin a transaction whenever SQLAlchemy does.

    Python's sqlite3 begins one only before it writes rows.
    """

    @event.listens_for(engine, "connect")
    def leave_transactions_to_us(connection: object, _record: object) -> None:
        connection.isolation_level = None  # type: ignore[attr-defined]

    @event.listens_for(engine, "begin")
    def begin(connection: object) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # type: ignore[attr-defined]
