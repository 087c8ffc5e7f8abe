"""Makes short-lived JVMs of tests start fast, by archives of loaded classes (JEP 350).

    python -m tests.helpers.java_archives

makes the missing archives, which takes half a minute each. They lie in the virtual environment. A
JVM that finds no archive, or one of another Java or of other jars, starts as it always does. The
JVMs also compile with the quick compiler alone, because they run for seconds only.
"""

# ruff: noqa: T201 - a command
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable")
"""Options of every quick JVM.

Log messages are off, because they go to standard output and would tell of an archive that does not
fit.
"""
KAFKA_LIBS = "TIDELOG_KAFKA_LIBS"
SPARK_OPTIONS = "SPARK_SUBMIT_OPTS"
SPARK_ARCHIVE = Path(sys.prefix) / "spark.jsa"
KAFKA_ARCHIVE = Path(sys.prefix) / "kafka.jsa"


def quick_options(archive: Path) -> list[str]:
    """Return the options of a JVM that starts from the archive, if there is one."""
    return [*QUICK, *([f"-XX:SharedArchiveFile={archive}"] if archive.exists() else [])]


def quicken_spark(environ: MutableMapping[str, str] = os.environ) -> None:
    """Let every Spark of this process and its children start quickly.

    An existing setting stays.
    """
    environ.setdefault(SPARK_OPTIONS, " ".join(quick_options(SPARK_ARCHIVE)))


def make_spark_archive() -> None:
    """Run one job on a Spark Connect server, which writes its class archive when it ends."""
    from tests.platform.spark_server import warm_server

    partial = SPARK_ARCHIVE.with_suffix(".partial")
    os.environ[SPARK_OPTIONS] = " ".join([*QUICK, f"-XX:ArchiveClassesAtExit={partial}"])
    with tempfile.TemporaryDirectory() as folder, warm_server(Path(folder)) as (url, _):
        subprocess.run(
            [sys.executable, "-c", SPARK_JOB, url, f"{folder}/table"], check=True, timeout=300
        )
    partial.rename(SPARK_ARCHIVE)


SPARK_JOB = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
numbers = spark.range(1_000).selectExpr("id", "from_json(concat('{\\"digit\\": ', id % 7, '}'), 'digit INT').digit AS digit")
numbers.write.parquet(sys.argv[2])
spark.read.parquet(sys.argv[2]).groupBy("digit").count().toArrow()
"""


def make_kafka_archive() -> None:
    """Run one node, which writes the archive of its classes when it stops."""
    from tests.integration.kafka_node import KafkaNode

    partial = KAFKA_ARCHIVE.with_suffix(".partial")
    with (
        tempfile.TemporaryDirectory() as folder,
        KafkaNode(Path(folder), java_options=[f"-XX:ArchiveClassesAtExit={partial}"]) as node,
    ):
        node.stop()
    partial.rename(KAFKA_ARCHIVE)


def main() -> int:
    """Make the archives that are missing and can be made."""
    if shutil.which("java") is None:
        print("there is no java on the PATH: the tests that need one skip or bring their own")
        return 0
    if KAFKA_LIBS in os.environ and not KAFKA_ARCHIVE.exists():
        print(f"writing {KAFKA_ARCHIVE}: Apache Kafka starts faster from it (once)")
        make_kafka_archive()
    if not SPARK_ARCHIVE.exists():
        print(f"writing {SPARK_ARCHIVE}: Spark starts faster from it (once)")
        make_spark_archive()
    return 0


if __name__ == "__main__":
    sys.exit(main())
