"""Errors of a run as Dagster Failures.

One sentence says what to do, and the log of the run has the rest. A Failure forbids retries if a
retry cannot help.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import dagster as dg

from orchestration.formats import RegistryError
from orchestration.lake.schemas import SchemaConflictError
from orchestration.lake.tables import CommitConflictError, TableMissingError
from orchestration.log_client.protocol import LogServiceError
from orchestration.offsets.planning import ProgressError
from orchestration.settings import SettingsError
from orchestration.spark.java import JavaError
from orchestration.spark.session import SparkGoneError
from orchestration.transforms.errors import NotReadyError, TransformError, whole_text

FINAL = (
    ProgressError,
    SchemaConflictError,
    SettingsError,
    JavaError,
    NotReadyError,
    TransformError,
    TableMissingError,
    ValueError,
)
FAILED_AGAIN_MINUTES = 5
"""Minutes between two attempts at a table, mart or copy that failed."""
PASSING = (CommitConflictError, LogServiceError, RegistryError, SparkGoneError)


class HasSession(Protocol):
    """A resource that opens Spark sessions."""

    def forget(self) -> None:
        """Close the session. The next use opens another."""
        ...


@contextmanager
def explained(
    name: str,
    spark: HasSession | None,
    after: str = "Nothing was committed; the next run tries again",
) -> Iterator[None]:
    """Translate errors of the platform in the block to Dagster Failures.

    ``after`` tells the user what happens next. Any other error is a bug and keeps its traceback.
    The whole text of a cause, such as Spark's with its logical plan, goes into the log of the run.
    """
    try:
        yield
    except FINAL as error:
        if text := whole_text(error):
            dg.get_dagster_logger().error("%s: the whole text of the error: %s", name, text)
        raise dg.Failure(description=f"{name}: {error}", allow_retries=False) from error
    except PASSING as error:
        if isinstance(error, SparkGoneError) and spark is not None:
            spark.forget()
        raise dg.Failure(description=f"{name}: {error}. {after}", allow_retries=True) from error
