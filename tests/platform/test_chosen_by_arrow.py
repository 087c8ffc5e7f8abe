"""A transform that only chooses columns has the same result by Arrow as by a warm Spark server."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.platform


def test_arrow_chooses_what_spark_would_have_returned(spark_remote: str, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "tests.platform.chosen_by_arrow", spark_remote, str(tmp_path)]
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    expected = {
        "is_same": True,
        "are_rejections_same": True,
        "rows": 503,
        "rejections": 2,
        "jobs": [0, 1],
    }
    assert json.loads(said.splitlines()[-1]) == [expected, expected]
