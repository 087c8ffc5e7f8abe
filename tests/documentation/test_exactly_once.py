"""The page on exactly once runs as it is printed, on tidelog and on Apache Kafka."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documentation.running import environment, run_python, words
from tests.helpers.documents import ROOT, Block, blocks
from tests.integration.client_clusters import CLUSTERS, cluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

PAGE = ROOT / "docs" / "exactly-once.md"


@pytest.fixture(scope="module", params=CLUSTERS)
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with cluster(request.param, tmp_path_factory.mktemp("reader")) as servers:
        yield servers


def of_page(language: str) -> list[Block]:
    return [block for block in blocks(language) if block.document == PAGE]


def test_each_promise_has_an_example() -> None:
    assert len(of_page("python")) == 3


@pytest.mark.parametrize("block", of_page("python"), ids=str)
def test_python_runs_as_it_is_printed(block: Block, bootstrap: str, tmp_path: Path) -> None:
    run_python(block, bootstrap, tmp_path)


@pytest.mark.parametrize("block", of_page("console"), ids=str)
def test_commands_run_as_they_are_printed(block: Block, bootstrap: str, tmp_path: Path) -> None:
    for command in block.commands:
        ran = subprocess.run(
            words(command),
            cwd=tmp_path,
            env=environment(bootstrap),
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout, f"{command} said nothing"
