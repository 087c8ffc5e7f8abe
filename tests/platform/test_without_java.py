"""Spark on a machine without Java: the bundled runtime, a run in Dagster, Python workers included."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.platform, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]
SYSTEM_PROGRAMS = ("bash", "sh", "ps", "dirname", "uname", "env", "head", "readlink")
SCRIPT = """
import os
import dagster as dg
from pyspark.sql.functions import udf
from orchestration.resources import SparkResource

@dg.asset
def doubled(spark: SparkResource) -> dg.MaterializeResult:
    session = spark.spark_session
    twice = udf(lambda number: number * 2, "long")
    rows = session.range(5).select(twice("id").alias("n")).toArrow()
    return dg.MaterializeResult(metadata={"total": sum(rows["n"].to_pylist()), "java": os.environ["JAVA_HOME"]})

result = dg.materialize([doubled], resources={"spark": SparkResource()})
metadata = result.asset_materializations_for_node("doubled")[0].metadata
print("TOTAL", metadata["total"].value, metadata["java"].value)
"""


def test_spark_runs_on_the_bundled_runtime(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in SYSTEM_PROGRAMS:
        found = shutil.which(name)
        assert found, f"{name} is missing on this machine"
        (programs / name).symlink_to(found)
    environment = {
        "PATH": str(programs),
        "HOME": os.environ.get("HOME", str(tmp_path)),
        "PYTHONPATH": str(ROOT),
        "TIDELOG_DATA": str(tmp_path / "data"),
        "TIDELOG_SPARK_MASTER": "local[1]",
        "TIDELOG_SPARK_DRIVER_MEMORY": "512m",
    }
    assert shutil.which("java", path=environment["PATH"]) is None
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"TOTAL 20 {tmp_path}/data/java" in run.stdout, run.stderr[-3000:]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "data"], (
        "nothing is left outside the data directory"
    )
