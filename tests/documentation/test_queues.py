"""The page on queues runs as printed, from its first block to its last. It needs share groups."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documentation.running import environment, run_python, words
from tests.helpers.documents import ROOT, Block, blocks
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG, cluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

PAGE = ROOT / "docs" / "queues.md"
PROPERTIES = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.share.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
}


@pytest.fixture(
    scope="module", params=[TIDELOG, pytest.param(APACHE_KAFKA, marks=pytest.mark.repeats)]
)
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with cluster(request.param, tmp_path_factory.mktemp("reader"), PROPERTIES) as servers:
        yield servers


def test_the_page_runs_as_it_is_printed(bootstrap: str, tmp_path: Path) -> None:
    """Each block goes on where the one before ended, as a reader does."""
    steps: list[Block] = sorted(
        (
            block
            for language in ("python", "console")
            for block in blocks(language)
            if block.document == PAGE
        ),
        key=lambda block: block.line,
    )
    assert len(steps) == 8
    for block in steps:
        if block.language == "python":
            run_python(block, bootstrap, tmp_path)
            continue
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
