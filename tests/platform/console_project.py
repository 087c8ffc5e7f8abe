"""A project with tables, marts and dead letters behind a web console, made without Spark.

The tables are committed as runs commit them: rows, checkpoints and dead letters. Only fixes and
replays start Spark, in a process of the console.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from log_service.client import BlockingAdmin, BlockingProducer, NewTopic
from orchestration.dead_letters.table import DeadLetters, Origin, Rejection, envelopes, naming
from orchestration.lake.range_commits import append_with_offsets
from orchestration.lake.tables import Lake
from orchestration.log_client.connection import connect
from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from orchestration.warehouse.store import Warehouse
from tests.helpers.console_process import ConsoleProcess
from tests.helpers.documents import ROOT
from tests.integration.http.console_pages import Person
from tests.platform.installation import environment
from tests.unit.orchestration.dead_letter_parts import RECORDS

ASSETS = """\
from orchestration import TopicSpec, mart, quarantine, spark_table, topic_asset

ORDERS = TopicSpec(name="orders", schema="id STRING NOT NULL, amount INT NOT NULL, note STRING")
SALARIES = TopicSpec(name="salaries", schema="id STRING NOT NULL, amount INT NOT NULL")
orders = topic_asset(ORDERS)
salaries = topic_asset(SALARIES)
RULE = quarantine("amount_is_positive", "amount > 0")


@spark_table(topic=ORDERS, unique_by=("id",), rules=(RULE,))
def clean_orders(records):
    \"\"\"Orders with an amount.\"\"\"
    return records.select("_topic_id", "_partition", "_offset", "_timestamp", "id", "amount", "note")


@spark_table(topic=SALARIES)
def clean_salaries(records):
    \"\"\"Salaries.\"\"\"
    return records.select("_topic_id", "_partition", "_offset", "_timestamp", "id", "amount")


by_note = mart(
    "by_note",
    sql="SELECT note, count(*) AS orders, sum(amount) AS amount FROM clean_orders GROUP BY ALL",
    tables=[clean_orders],
)
"""
HOSTILE = "<img src=x onerror=\"document.title = 'taken'\">"
START = datetime(2026, 11, 30, 8, tzinfo=UTC)
ROWS = pa.schema(
    [
        ("_topic_id", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_timestamp", pa.timestamp("us", tz="UTC")),
        ("id", pa.string()),
        ("amount", pa.int32()),
        ("note", pa.string()),
    ]
)
JOB = re.compile(r'hx-get="(/pipelines/jobs/[^"]*)"')
LONG = "SELECT count(*) FROM range(1000000000) AS a, range(1000000) AS b WHERE a.range < b.range"
GOOD_COUNT = 40
WAITING_COUNT = 3


@dataclass(frozen=True, kw_only=True)
class ConsoleProject:
    """The folder of a project, with its data and its cluster."""

    folder: Path
    bootstrap: str

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def lake(self) -> Lake:
        return Lake(self.data / "lake")

    def write(self, *, orders: str = "orders", salaries: str = "salaries") -> None:
        """Write the project, its topics with records, and its tables."""
        (self.folder / "assets").mkdir(parents=True)
        text = ASSETS.replace('"orders"', f'"{orders}"').replace('"salaries"', f'"{salaries}"')
        (self.folder / "assets" / "__init__.py").write_text(text)
        with BlockingAdmin(self.bootstrap) as admin:
            admin.create_topics([NewTopic(name=orders), NewTopic(name=salaries)])
        values = [
            json.dumps({"id": f"a{number}", "amount": 1 + number % 7, "note": note_of(number)})
            for number in range(GOOD_COUNT)
        ]
        rejected = [
            (json.dumps({"id": "b", "amount": -1, "note": HOSTILE}), "amount_is_positive", None),
            (f"{{{HOSTILE}", "schema", None),
            (json.dumps({"id": "a3", "amount": 5}), "unique_by", "0:3"),
        ]
        waiting = [json.dumps({"id": f"w{one}", "amount": 1}) for one in range(WAITING_COUNT)]
        with BlockingProducer(self.bootstrap) as producer:
            for value in (*values, *(one[0] for one in rejected), *waiting):
                producer.send(orders, value, HOSTILE, partition=0)
            producer.send(salaries, json.dumps({"id": "secret", "amount": 9}), partition=0)
            producer.flush()
        self._commit("clean_orders", orders, values, rejected)
        self._commit("clean_salaries", salaries, [json.dumps({"id": "secret", "amount": 9})], [])
        sql = (
            "SELECT note, count(*) AS orders, sum(amount) AS amount FROM clean_orders GROUP BY ALL"
        )
        Warehouse(self.data / "warehouse", self.lake).build("by_note", sql)

    def _commit(
        self,
        table: str,
        topic: str,
        values: list[str],
        rejected: list[tuple[str, str, str | None]],
    ) -> None:
        """Commit rows and dead letters of the first records of a topic, as a run does."""
        with connect(self.bootstrap) as log:
            described = log.describe_topic(topic)
        assert described is not None
        topic_id, end = described.topic_id, len(values) + len(rejected)
        columns = [name for name in ROWS.names if table == "clean_orders" or name != "note"]
        rows = [
            {
                **json.loads(value),
                "_topic_id": topic_id,
                "_partition": 0,
                "_offset": offset,
                "_timestamp": START + timedelta(minutes=offset),
            }
            for offset, value in enumerate(values)
        ]
        schema = pa.schema([ROWS.field(name) for name in columns])
        ranges = OffsetRanges(
            topic=topic,
            topic_id=topic_id,
            ranges=(OffsetRange(partition=0, start=0, end=end),),
        )
        snapshot = self.lake.create(table, schema)
        append_with_offsets(
            snapshot,
            pa.Table.from_pylist(rows, schema),
            ranges,
            {0: 0},
            expected={},
            notes={"run_id": "11111111-run"},
            transactions=naming(topic_id, self._reject(table, ranges, len(values), rejected)),
        )

    def _reject(
        self,
        table: str,
        ranges: OffsetRanges,
        first: int,
        rejected: list[tuple[str, str, str | None]],
    ) -> int | None:
        if not rejected:
            return None
        letters = DeadLetters(self.lake)
        origin = Origin(
            target=table, topic=ranges.topic, topic_id=ranges.topic_id, run_id="11111111-run"
        )
        reasons = [
            Rejection(
                partition=0,
                offset=first + number,
                reason="duplicate" if duplicate else f"{rule} of {HOSTILE}",
                rule=rule,
                duplicate_of=duplicate,
            )
            for number, (_, rule, duplicate) in enumerate(rejected)
        ]
        records = [
            {
                "_partition": 0,
                "_offset": first + number,
                "_timestamp": START,
                "key": HOSTILE.encode(),
                "value": value.encode(),
                "headers": [{"key": HOSTILE, "value": b"1"}],
            }
            for number, (value, _, _) in enumerate(rejected)
        ]
        found = envelopes(origin, reasons, pa.Table.from_pylist(records, RECORDS), START)
        return letters.replace_pending(letters.snapshot(), origin, ranges, {}, found)

    def distribution(self) -> Path:
        """Return a folder with the package's entry points, as an installed wheel has them.

        An editable install knows the entry points of the day on which it was made.
        """
        folder = self.folder / "distribution"
        made = folder / "tidelog-0.1.0.dist-info"
        made.mkdir(parents=True, exist_ok=True)
        points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
        lines = [
            line
            for group, named in points.items()
            for line in (f"[{group}]", *(f"{name} = {where}" for name, where in named.items()))
        ]
        (made / "entry_points.txt").write_text("\n".join(lines))
        (made / "METADATA").write_text("Metadata-Version: 2.1\nName: tidelog\nVersion: 0.1.0\n")
        return folder

    def environment(self, **changes: str) -> dict[str, str]:
        """Return the environment of the project's processes."""
        path = os.pathsep.join([str(self.distribution()), str(ROOT)])
        return environment(
            PYTHONPATH=path,
            TIDELOG_DATA=str(self.data),
            TIDELOG_BOOTSTRAP_SERVERS=self.bootstrap,
            TIDELOG_SPARK_MASTER="local[1]",
            **changes,
        )

    def console(self, *given: Any, **properties: str) -> "ProjectConsole":
        """Return a console in the project's folder."""
        return ProjectConsole(self, *given, **properties)


class ProjectConsole(ConsoleProcess):
    """A console that runs in a project's folder, in a fresh interpreter."""

    def __init__(self, project: ConsoleProject, *given: Any, **properties: str) -> None:
        super().__init__(project.folder, project.bootstrap, *given, **properties)
        self.project = project

    def start_process(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "log_service.cli.main", *self.arguments],
                cwd=self.project.folder,
                env=self.project.environment(),
                stdout=log,
                stderr=log,
            )

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid


def completed(person: Person, page: str) -> str:
    """Return the page of a job once it has ended."""
    while found := JOB.search(page):
        page = person.open(found[1])
    return page


def note_of(number: int) -> str:
    """Return a note: markup now and then, and a country otherwise."""
    return HOSTILE if number % 10 == 9 else ("de", "fr", "it")[number % 3]
