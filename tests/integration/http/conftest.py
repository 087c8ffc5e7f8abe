"""A registry and REST proxies that tests share. Tests name their subjects and topics apart."""

from collections.abc import Iterator

import httpx
import pytest

from tests.helpers.registry_process import RegistryProcess
from tests.helpers.rest_process import RestProcess


@pytest.fixture(scope="session")
def registry(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    """A registry over the cluster that all tests of this worker share."""
    directory = tmp_path_factory.mktemp("registry")
    names = {"kafkastore.topic": "_schemas_shared", "schema.registry.group.id": "registries-shared"}
    with RegistryProcess(directory, bootstrap, **names) as running:
        yield running


@pytest.fixture
def api(registry: RegistryProcess) -> Iterator[httpx.Client]:
    """A client of the shared registry."""
    with httpx.Client(base_url=registry.url, timeout=30) as client:
        yield client


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> str:
    """A subject of this test alone."""
    return f"{request.node.name.replace('[', '-').replace(']', '')}-value"


@pytest.fixture(scope="module")
def proxy(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestProcess]:
    """A proxy in front of the cluster that all tests of this worker share."""
    with RestProcess(tmp_path_factory.mktemp("rest"), bootstrap) as running:
        yield running


@pytest.fixture
def client(proxy: RestProcess) -> Iterator[httpx.Client]:
    """A client of the proxy."""
    with httpx.Client(base_url=proxy.url, timeout=60) as client:
        yield client
