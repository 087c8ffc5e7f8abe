"""Writes a project that works at once: ``python -m orchestration.project.new DIRECTORY``.

The user changes it afterwards. Decides the layout of a project: declarations in ``assets/``, a
test, settings in ``.env``, workspace.yaml and dg.toml for Dagster's own commands. Overwrites
nothing. Knows nothing of Dagster.
"""

import argparse
import keyword
import sys
from pathlib import Path

from orchestration.project.location import ASSETS

ORDERS_DOCSTRING = (
    '"""Orders: a topic, a table of what makes sense of it, and a mart that sums it up."""\n\n'
)
ORDERS = '''\
from pyspark.sql import DataFrame

from orchestration import TopicSpec, mart, quarantine, spark_table, topic_asset

ORDERS = TopicSpec(
    name="orders",
    partitions=4,
    schema="id BIGINT NOT NULL, amount DOUBLE, country STRING",
)
orders_topic = topic_asset(ORDERS)


def clean(records: DataFrame) -> DataFrame:
    """Orders as they came, one row each."""
    return records.select("id", "amount", "country", "_topic_id", "_partition", "_offset")


clean_orders = spark_table(
    topic=ORDERS,
    name="clean_orders",
    unique_by=("id",),
    rules=(quarantine("amount_is_positive", "amount > 0"),),
)(clean)

revenue = mart(
    "revenue_by_country",
    sql="SELECT country, sum(amount) AS revenue FROM clean_orders GROUP BY ALL",
    tables=("clean_orders",),
)
'''
"""The first pipeline, which README.md and docs/pipelines/first-pipeline.md print."""

TEST = '''\
"""The pipeline without a broker: definitions load, and the transform keeps what a commit needs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from assets.orders import clean
from orchestration import load_settings, open_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = open_session(load_settings({"TIDELOG_DATA": str(tmp_path_factory.mktemp("data")), "TIDELOG_SPARK_MASTER": "local[1]"}))
    yield session
    session.stop()


def test_the_project_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parents[1])
    from orchestration import defs

    assert {"topics/orders", "lake/clean_orders", "marts/revenue_by_country"} <= {
        key.to_user_string() for key in defs.get_repository_def().assets_defs_by_key
    }


def test_an_order_is_a_row_that_knows_where_it_came_from(spark: SparkSession) -> None:
    columns = "id BIGINT, amount DOUBLE, country STRING, _topic_id STRING, _partition INT, _offset BIGINT"
    records = spark.createDataFrame([(1, 12.5, "DE", "id-of-orders", 0, 7)], columns)
    assert [row.asDict() for row in clean(records).collect()] == [
        {"id": 1, "amount": 12.5, "country": "DE", "_topic_id": "id-of-orders", "_partition": 0, "_offset": 7}
    ]
'''

WORKSPACE = """\
# For Dagster's own commands, such as `dagster dev`; `tidelog up` serves the same module. More code locations may be added.
load_from:
  - python_module:
      module_name: orchestration.definitions
      location_name: tidelog
      working_directory: .
"""

DG = """\
# For Dagster's command `dg`: `dg dev`, `dg list components`, `dg scaffold defs`. `tidelog up` does not read it.
directory_type = "project"

[project]
root_module = "assets"
defs_module = "assets"
code_location_target_module = "orchestration.definitions"
"""

ENVIRONMENT = """\
# Settings of this project, read by `tidelog up` and the other commands. A variable that is set already goes first.
# A Kafka cluster of your own; without it `tidelog up` starts a broker:
# TIDELOG_BOOTSTRAP_SERVERS=kafka-1:9092,kafka-2:9092
# A Spark Connect server of your own; without it `tidelog up` starts one:
# TIDELOG_SPARK_REMOTE=sc://spark:15002
# The most records of one commit, and how many seconds apart the runs of a table start at least:
# TIDELOG_RECORDS_PER_RUN=500000
# TIDELOG_BYTES_PER_RUN=268435456
# TIDELOG_MINIMUM_INTERVAL_S=5
"""

README = """\
# {name}

    tidelog up                                                  # broker, Spark, Dagster at http://127.0.0.1:3000
    echo '{{"id": 1, "amount": 12.5, "country": "DE"}}' | tidelog produce orders
    pip install pytest && pytest                                # the pipeline without a broker

- `assets/` declares topics, tables and marts: every definition at the top level of a module belongs to the project,
  and every component in a `defs.yaml` below it.
- `sensors/`, if there is one, replaces the standard sensors (new records, sources, downstream, failures, schema drift, watchdog, groups).
- `tests/` runs the transforms on records that are made up.
- `.env` holds settings; `workspace.yaml` and `dg.toml` are for Dagster's own commands.
"""

IGNORED = ".tidelog/\n__pycache__/\n"
PYTEST = "[pytest]\npythonpath = .\ntestpaths = tests\n"


def files(name: str) -> dict[str, str]:
    """Return the texts of the project's files by path."""
    return {
        f"{ASSETS}/__init__.py": f'"""What {name} declares: topics, tables, marts."""\n',
        f"{ASSETS}/orders.py": ORDERS_DOCSTRING + ORDERS,
        "tests/test_orders.py": TEST,
        "workspace.yaml": WORKSPACE,
        "dg.toml": DG,
        ".env": ENVIRONMENT,
        ".gitignore": IGNORED,
        "pytest.ini": PYTEST,
        "README.md": README.format(name=name),
    }


def write_project(directory: Path) -> list[Path]:
    """Write the project and return its files.

    :raises FileExistsError: the directory is not empty.
    :raises ValueError: its name cannot be a project's name.
    """
    name = directory.resolve().name
    if keyword.iskeyword(name):
        raise ValueError(f"{name!r} cannot be a project's name: Python keeps this word for itself")
    if not name.replace("-", "_").isidentifier():
        raise ValueError(
            f"{name!r} cannot be a project's name: letters, digits, '-' and '_', not starting with"
            " a digit"
        )
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise FileExistsError(
            f"{directory} is there already and not empty; nothing was written. Name a new directory"
        )
    written = []
    for path, text in files(name).items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        written.append(file)
    return written


def main() -> None:
    """Write the project that the arguments name, and print the next step."""
    parser = argparse.ArgumentParser(prog="tidelog init", description="Write a new project.")
    parser.add_argument("directory", type=Path)
    directory: Path = parser.parse_args().directory
    try:
        written = write_project(directory)
    except (OSError, ValueError) as error:
        sys.exit(f"Error: {error}")
    sys.stdout.write("".join(f"wrote {path}\n" for path in written))
    sys.stdout.write(f"\nnext: cd {directory} && tidelog up\n")


if __name__ == "__main__":
    main()
