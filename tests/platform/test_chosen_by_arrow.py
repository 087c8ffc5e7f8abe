"""A transform that only chooses columns has the same result by Arrow as by a warm Spark server."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestration.settings import load_settings
from orchestration.spark.server import SparkServer
from tests.helpers.ports import free_port

pytestmark = pytest.mark.platform
START_DEADLINE_S = 300.0


@pytest.fixture
def server_url(tmp_path: Path) -> Iterator[str]:
    environment = {**os.environ, "TIDELOG_DATA": str(tmp_path), "TIDELOG_SPARK_MASTER": "local[1]", "TIDELOG_SPARK_DRIVER_MEMORY": "1g"}
    server = SparkServer(settings=load_settings(environment), port=free_port())
    child = subprocess.Popen(server.argv(), env=server.environment(environment), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_DEADLINE_S
        while not server.is_ready():
            assert child.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield server.url
    finally:
        child.terminate()
        child.wait(60)


def test_arrow_chooses_what_spark_would_have_returned(server_url: str, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "tests.platform.chosen_by_arrow", server_url, str(tmp_path)]
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    expected = {"is_same": True, "are_rejections_same": True, "rows": 503, "rejections": 2, "jobs": [1, 2]}
    assert json.loads(said.splitlines()[-1]) == [expected, expected]
