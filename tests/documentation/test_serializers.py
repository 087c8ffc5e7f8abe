"""The page on serializers runs as it is printed, against a broker and a registry."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documentation.running import run_python
from tests.helpers.broker_process import BrokerThread
from tests.helpers.documents import ROOT, Block, blocks
from tests.helpers.registry_process import RegistryProcess

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
PAGE = ROOT / "docs" / "serializers.md"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of a broker and of its registry."""
    directory = tmp_path_factory.mktemp("reader")
    with (
        BrokerThread(directory) as broker,
        RegistryProcess(directory, broker.bootstrap) as registry,
    ):
        yield broker.bootstrap, registry.url


@pytest.mark.parametrize(
    "block", [block for block in blocks("python") if block.document == PAGE], ids=str
)
def test_python_runs_as_it_is_printed(
    block: Block, servers: tuple[str, str], tmp_path: Path
) -> None:
    """Each block has topics and subjects of its own."""
    bootstrap, registry = servers
    run_python(block, bootstrap, tmp_path, registry)
