"""The tests of this folder run real Spark, Delta and Dagster.

Each test process that asks has a JVM, and all share a server.
"""

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestration.retained import lag_objective
from orchestration.settings import load_settings
from orchestration.spark.session import open_session
from tests.conftest import WORKER
from tests.platform.spark_server import SharedServer

THIRD_PARTY_WARNINGS = (
    "ignore:module 'sre_:DeprecationWarning",  # Great Expectations imports them
    "ignore::DeprecationWarning:great_expectations",
)
SHARED_SERVER = pytest.StashKey[SharedServer]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = f"{Path(__file__).parent}/"
    for item in items:
        if str(item.path).startswith(here):
            for warning in THIRD_PARTY_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(scope="module", autouse=True)
def _own_garbage() -> Iterator[None]:
    """Collect garbage, so that no module leaves it to others.

    Warnings are errors, and a finalizer's fails the test that runs at that moment.
    """
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def _own_objectives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the objectives of other tests. They are declared for a whole process."""
    monkeypatch.setattr(lag_objective, "_declared", {})


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    data_directory = tmp_path_factory.mktemp("spark")
    settings = load_settings(
        {
            "TIDELOG_DATA": str(data_directory),
            "TIDELOG_SPARK_MASTER": "local[2]",
            "TIDELOG_SPARK_DRIVER_MEMORY": "1g",
        }
    )
    session = open_session(settings)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark_remote(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Yield the address of a warm Spark server for tests whose commands are processes of their own.

    It starts when the first asks for it.
    """
    own = tmp_path_factory.getbasetemp()
    server = SharedServer((own.parent if WORKER in os.environ else own) / "spark-server")
    request.config.stash[SHARED_SERVER] = server
    return server.use()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave the server that the workers share. No test's deadline runs here: the worker that
    started it waits for the others.
    """
    if (server := session.config.stash.get(SHARED_SERVER, None)) is not None:
        server.leave()


@pytest.fixture
def lake_root(tmp_path: Path) -> Path:
    return tmp_path / "lake"
