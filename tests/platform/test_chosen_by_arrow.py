"""A transform that only chooses columns has the same result by Arrow as by a warm Spark server."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.platform.spark_server import warm_server

pytestmark = pytest.mark.platform


@pytest.fixture
def server_url(tmp_path: Path) -> Iterator[str]:
    with warm_server(tmp_path, master="local[1]") as (url, _):
        yield url


def test_arrow_chooses_what_spark_would_have_returned(server_url: str, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "tests.platform.chosen_by_arrow", server_url, str(tmp_path)]
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    expected = {"is_same": True, "are_rejections_same": True, "rows": 503, "rejections": 2, "jobs": [1, 2]}
    assert json.loads(said.splitlines()[-1]) == [expected, expected]
