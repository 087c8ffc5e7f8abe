"""The project of a long kill loop has a table of each other shape.

It has tables of a database, an archive, a mart and two sources, too. They follow the orders that
the loop sends, a table of PostgreSQL whose rows are captured, and a folder. What each has to hold
is told by plain counts of what was sent.
"""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestration.lake.tables import Lake
from orchestration.warehouse.store import Warehouse
from tests.platform.captured import CapturedTable, Records, found_records
from tests.platform.databases import Database
from tests.platform.installation import Installation

ARCHIVED = "archive=Archive(chunk_records=200, within_s=5)"
FOLLOWERS = ("newest_orders", "amounts", "orders_in_sql", "newest_in_sql")
PROJECT = '''

from pathlib import Path

from orchestration.rows.aggregates import count, total
from orchestration.marts.mart import mart
from orchestration.sources import folder_source, sql_source
from orchestration.transforms import spark_aggregate, spark_sql_table

PEOPLE = TopicSpec(name="people", partitions=2, configs={"retention.ms": "-1"})
DROPPED = TopicSpec(name="dropped", partitions=2)
people_topic, dropped_topic = topic_asset(PEOPLE), topic_asset(DROPPED)
people = sql_source("people", topic=PEOPLE, table="people", key="id", cursor="changed", compare_every_s=None, every_s=3)
dropped = folder_source("dropped", topic=DROPPED, folder=Path(__file__).parents[1] / "inbox", key="id", settle_s=0, every_s=3)


def rows(records: DataFrame) -> DataFrame:
    """Orders as they are."""
    return records.select("_topic_id", "_partition", "_offset", "_timestamp", "id", "amount")


newest_orders = spark_table(topic=ORDERS, name="newest_orders", latest_by=("id",), minimum_interval_s=1)(rows)
amounts = spark_aggregate(
    topic=ORDERS, name="amounts", by="amount", aggregates=(count("orders"), total("total", "amount")), minimum_interval_s=1
)(rows)
orders_in_sql = spark_sql_table(topic=ORDERS, name="orders_in_sql", table="orders_in_sql", minimum_interval_s=1)(rows)
newest_in_sql = spark_sql_table(topic=ORDERS, name="newest_in_sql", table="newest_in_sql", key="id", minimum_interval_s=1)(rows)
by_amount = mart("by_amount", sql="SELECT amount, sum(orders)::BIGINT AS orders FROM amounts GROUP BY amount", tables=[amounts])
'''


class Others:
    """Feeds what is not fed with the orders, and says what is not as it has to be."""

    def __init__(self, project: Path, database_url: str) -> None:
        self._inbox = project / "inbox"
        self._inbox.mkdir()
        self.url = database_url
        self._place = Database("postgresql", database_url)
        self._people = CapturedTable(self._place)
        self._rounds = 0
        self._changes: Records = Counter()
        self._lines: Records = Counter()

    def feed(self) -> None:
        """Change rows that are captured, and drop a file."""
        self._rounds += 1
        number = self._rounds
        self._changes.update(
            self._people.put(10 * number + position, "new") for position in range(7)
        )
        lines = [json.dumps({"id": f"{number}-{position}"}).encode() for position in range(7)]
        draft = self._inbox / ".draft"
        draft.write_bytes(b"\n".join(lines))
        draft.rename(self._inbox / f"orders-{number}.jsonl")
        self._lines.update((json.loads(line)["id"].encode(), line) for line in lines)

    def faults(self, installation: Installation, by_id: Counter[int], sent: int) -> list[str]:
        """Return the differences from the sent records.

        ``by_id`` counts the orders that are some, by their id, ``sent`` all records.
        """
        lake = Lake(installation.data / "lake")
        by_amount = Counter({1: 0, -1: 0})
        for identity, count in by_id.items():
            by_amount[1 if identity > 0 else -1] += count
        groups = {amount: count for amount, count in by_amount.items() if count}
        found: Mapping[str, tuple[Any, Any]] = {
            "newest_orders": (ids_of(lake, "newest_orders"), Counter(dict.fromkeys(by_id, 1))),
            "amounts": (groups_of(lake), groups),
            "orders_in_sql": (
                Counter(row[0] for row in self._place.rows("orders_in_sql", "id")),
                by_id,
            ),
            "newest_in_sql": (
                Counter(row[0] for row in self._place.rows("newest_in_sql", "id")),
                Counter(dict.fromkeys(by_id, 1)),
            ),
            "by_amount": (mart_of(installation, lake), groups),
            "orders_archive": (archived_of(lake), (sent, sent)),
            "people": (found_records(installation.bootstrap_servers, "people"), self._changes),
            "dropped": (found_records(installation.bootstrap_servers, "dropped"), self._lines),
        }
        return [
            f"{name} holds {held}, and has to hold {wanted}"
            for name, (held, wanted) in found.items()
            if held != wanted
        ]


def ids_of(lake: Lake, table: str) -> Counter[int]:
    snapshot = lake.snapshot(table)
    return (
        Counter()
        if snapshot is None
        else Counter(snapshot.dataset().to_table(columns=["id"])["id"].to_pylist())
    )


def groups_of(lake: Lake) -> dict[int, int]:
    snapshot = lake.snapshot("amounts")
    rows = [] if snapshot is None else snapshot.dataset().to_table().to_pylist()
    assert len({row["amount"] for row in rows}) == len(rows), "a group has two rows"
    assert all(row["total"] == row["amount"] * row["orders"] for row in rows), rows
    return {row["amount"]: row["orders"] for row in rows}


def mart_of(installation: Installation, lake: Lake) -> dict[int, int]:
    warehouse = Warehouse(installation.data / "warehouse", lake)
    if "by_amount" not in warehouse.names():
        return {}
    return {
        row["amount"]: row["orders"]
        for row in warehouse.query("SELECT * FROM by_amount").to_pylist()
    }


def archived_of(lake: Lake) -> tuple[int, int]:
    """Return how many records the archive holds, and of how many places."""
    snapshot = lake.snapshot("orders_archive")
    rows = (
        []
        if snapshot is None
        else snapshot.dataset().to_table(columns=["_partition", "_offset"]).to_pylist()
    )
    return len(rows), len({(row["_partition"], row["_offset"]) for row in rows})
