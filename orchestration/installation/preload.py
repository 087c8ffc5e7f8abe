"""Imports all that every run needs, once, in the process from which runs are forked.

So runs start in a tenth of a second. Decides only which modules are worth importing early. The
import happens when this module is imported. A project that cannot be imported is skipped here,
because the code server reports it. Invariant: imported modules start no thread, open no connection
and no JVM, because these do not survive a fork.
"""

import contextlib
from importlib import import_module

from orchestration.project.importing import kept_imports
from orchestration.settings import export_environment

MODULES = (
    "dagster._core.execution.api",
    "dagster._grpc.impl",
    "deltalake",
    "duckdb",
    "great_expectations",
    "great_expectations.expectations.expectation_configuration",
    "orchestration.log_client.connection",
    "orchestration.transforms.rehearsal",
    "pyarrow.dataset",
    "pyspark.sql.connect.session",
)


def import_all() -> None:
    """Import the modules that the platform itself needs, then the project."""
    export_environment({"GX_ANALYTICS_ENABLED": "false"})
    for name in MODULES:
        import_module(name)
    with contextlib.suppress(Exception):
        import_module("orchestration.definitions").defs.get_repository_def()


with kept_imports():
    import_all()
