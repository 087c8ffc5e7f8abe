"""Spark as a Dagster resource: dagster-pyspark's lazy resource with our default configuration."""

from typing import Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource

from orchestration.settings import load_settings
from orchestration.spark.session import close_session, open_session


class SparkResource(LazyPySparkResource):
    """Opens a session when an asset first asks for it.

    The session is on the warm server of TIDELOG_SPARK_REMOTE, else in this process.
    ``spark_config`` overrides single keys. Over Spark Connect there is no ``spark_context``, and
    keys of the whole JVM have no effect.
    """

    spark_config: dict[str, Any] = {}  # noqa: RUF012 - a field of pydantic's, copied per instance

    @classmethod
    def _is_dagster_maintained(cls) -> bool:
        return False

    def _init_session(self) -> None:
        if self._spark_session is None:
            self._spark_session = open_session(
                load_settings(), {key: str(value) for key, value in self.spark_config.items()}
            )

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:  # noqa: ARG002 - Dagster's signature
        """Release the run's session on a warm server, which would otherwise keep it."""
        self.forget()

    def forget(self) -> None:
        """Close the session. The next use opens another."""
        if self._spark_session is not None:
            close_session(self._spark_session, load_settings())
            self._spark_session = None
