"""Processes are killed with kill -9 at random points, again and again.

The installation recovers by itself, and no record is lost or doubled. KILLS sets how many, SEED
which ones: a failure prints both. Afterwards the installation is stopped and started again, and
carries on. A long run joins the orders with payments, too, and has all other shapes, sinks and
sources (``kill_project``).
"""

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from log_service.client import BlockingProducer
from orchestration.dead_letters.table import DeadLetters
from orchestration.demo.verification import prove_topic
from orchestration.lake.tables import Lake
from orchestration.log_client.connection import connect
from orchestration.offsets.ranges import OffsetRange
from orchestration.retained.lag import measure_lag
from orchestration.topics.spec import TopicSpec, reconcile
from orchestration.transforms import TopicFeed, table_key
from tests.helpers.postgres import postgres
from tests.helpers.whole import of_a_run
from tests.platform.installation import Installation, running, wait_until
from tests.platform.kill_project import ARCHIVED, FOLLOWERS, Others
from tests.platform.kill_project import PROJECT as REST

pytestmark = [pytest.mark.platform, pytest.mark.timeout(3600)]
KILLS = int(os.environ.get("KILLS", "3"))
SEED = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 31))
TARGETS = ("run", "run", "run", "daemon", "code", "spark", "broker")
RECOVERY_TIMEOUT_S = 420.0
"""A table from tables whose killed run could not be tried again at once is tried again every five
minutes.
"""
ORDERS = TopicSpec(name="orders", partitions=3)
PAYMENTS = TopicSpec(name="payments", partitions=2)
PROJECT = '''"""Orders, some of them repeated, broken or negative; a table from them, and a topic."""

from pyspark.sql import DataFrame

from orchestration.quality import quarantine
from orchestration.topics.spec import TopicSpec, topic_asset
from orchestration.transforms import spark_table, spark_topic

ORDERS = TopicSpec(name="orders", partitions=3, schema="id BIGINT NOT NULL, amount INT NOT NULL")
SENT = TopicSpec(name="sent", partitions=2, schema="id BIGINT NOT NULL, amount INT")
orders_topic = topic_asset(ORDERS)
sent_topic = topic_asset(SENT)
POSITIVE = quarantine("amount_is_positive", "amount > 0")


@spark_table(topic=ORDERS, unique_by=("id",), rules=(POSITIVE,), minimum_interval_s=1)
def clean_orders(records: DataFrame) -> DataFrame:
    """Orders with a positive amount."""
    return records.select("_topic_id", "_partition", "_offset", "id", "amount")


@spark_topic(source=ORDERS, target=SENT, key="id", rules=(POSITIVE,), minimum_interval_s=1)
def sending(records: DataFrame) -> DataFrame:
    """Orders with a positive amount, as records."""
    return records.select("_topic_id", "_partition", "_offset", "id", "amount")


@spark_table(tables=(clean_orders,))
def totals(orders: DataFrame) -> DataFrame:
    """The sum of all orders."""
    return orders.groupBy().sum("amount").withColumnRenamed("sum(amount)", "total")
'''

JOINED = '''

from datetime import timedelta

from orchestration.transforms import spark_join

PAYMENTS = TopicSpec(name="payments", partitions=2, schema="order_id BIGINT NOT NULL, paid INT NOT NULL")
payments_topic = topic_asset(PAYMENTS)


@spark_join(
    left=ORDERS, right=PAYMENTS, on={"id": "order_id"}, within=timedelta(days=1), lateness=timedelta(days=1), minimum_interval_s=1
)
def paid_orders(pairs: DataFrame) -> DataFrame:
    """Orders with their payments."""
    return pairs.select("id", "left.amount", "right.paid", "_left", "_right")
'''
IS_LONG = of_a_run(False, True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "assets").mkdir(parents=True)
    (folder / "assets" / "__init__.py").write_text(long_project() if IS_LONG else PROJECT)
    (folder / "workspace.yaml").write_text("load_from: []\n")
    return folder


def long_project() -> str:
    """Return the project with all else, and with an archive of the orders."""
    topic = 'schema="id BIGINT NOT NULL, amount INT NOT NULL")'
    archived = PROJECT.replace(topic, f"{topic[:-1]}, {ARCHIVED})", 1)
    return (
        archived.replace(
            "from orchestration.quality",
            "from orchestration.transforms.archiving import Archive\nfrom orchestration.quality",
        )
        + JOINED
        + REST
    )


@pytest.fixture
def others(project: Path) -> Iterator[Others | None]:
    """Yield what else a long run feeds."""
    if not IS_LONG:
        yield None
        return
    with postgres() as url:
        yield Others(project, url)


class Orders:
    """Sends orders and knows what must come of them."""

    def __init__(self, bootstrap_servers: str, rng: random.Random) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._rng = rng
        self.sent = 0
        self.kinds: Counter[str] = Counter()
        self.passed: Counter[bytes] = Counter()
        self._first_id = 0
        self.payments: list[int] = []
        self.by_id: Counter[int] = Counter()

    def send(self, count: int) -> None:
        with BlockingProducer(self._bootstrap_servers, delivery_timeout_ms=180_000) as producer:
            deliveries = [
                producer.send("orders", self._value(), partition=self._rng.randrange(3))
                for _ in range(count)
            ]
            if IS_LONG:
                self.payments += (paid := [self._rng.randint(1, self.sent) for _ in range(count)])
                deliveries += [
                    producer.send("payments", payment(one), partition=self._rng.randrange(2))
                    for one in paid
                ]
            producer.flush()
            for one in deliveries:
                one.wait()

    def _value(self) -> bytes:
        self.sent += 1
        kind = self._rng.choices(["good", "broken", "negative", "repeated"], [90, 3, 4, 3])[0]
        if kind == "repeated" and self.kinds["good"] == 0:
            kind = "good"
        self.kinds[kind] += 1
        if kind == "broken":
            return b"no order"
        if kind == "negative":
            self.by_id[-self.sent] += 1
            return json.dumps({"id": -self.sent, "amount": -1}).encode()
        if kind == "good":
            self._first_id = self._first_id or self.sent
        identity = self.sent if kind == "good" else self._first_id
        self.passed[str(identity).encode()] += 1
        self.by_id[identity] += 1
        return json.dumps({"id": identity, "amount": 1}).encode()


def payment(order_id: int) -> bytes:
    return json.dumps({"order_id": order_id, "paid": 1}).encode()


def test_killed_processes_lose_and_double_nothing(
    tmp_path: Path, project: Path, others: Others | None
) -> None:
    rng = random.Random(SEED)
    story: list[str] = []
    settings = {} if others is None else {"TIDELOG_SQL_URL": others.url}
    with running(tmp_path / "data", project, **settings) as installation:
        with connect(installation.bootstrap_servers) as log:
            reconcile(log, ORDERS)
            if IS_LONG:
                reconcile(log, PAYMENTS)
        orders = Orders(installation.bootstrap_servers, rng)
        for number in range(KILLS):
            orders.send(rng.randrange(50, 400))
            if others is not None:
                others.feed()
            story.append(f"{number}: killed {strike(installation, rng)}")
        orders.send(10)

        def explain() -> str:
            return "\n".join([f"KILLS={KILLS} SEED={SEED}", *story, installation.explain()])

        def faults() -> list[str]:
            return [] if others is None else others.faults(installation, orders.by_id, orders.sent)

        def check() -> None:
            wait_until(lambda: has_caught_up(installation), RECOVERY_TIMEOUT_S, explain, poll_s=1.0)
            check_places(installation, orders, explain())
            check_sent(installation, orders, explain())
            check_joined(installation, orders, explain())
            wait_until(
                lambda: total_of(installation) == orders.kinds["good"],
                RECOVERY_TIMEOUT_S,
                explain,
                poll_s=1.0,
            )
            wait_until(
                lambda: not faults(),
                RECOVERY_TIMEOUT_S,
                lambda: "\n".join([*faults(), explain()]),
                poll_s=1.0,
            )

        check()
        assert installation.stop() == 0, explain()
        installation.start()
        orders.send(10)
        check()


def strike(installation: Installation, rng: random.Random) -> str:
    """Kill something at a random moment of its work, and say what."""
    target = rng.choice(TARGETS)
    if target == "run":
        deadline = time.monotonic() + 20
        while not installation.run_processes() and time.monotonic() < deadline:
            time.sleep(0.02)
    moment = rng.uniform(0, 3)
    time.sleep(moment)
    return (
        f"{target} after {moment:.2f} s"
        if installation.kill(target)
        else f"nothing: there was no {target}"
    )


def has_caught_up(installation: Installation) -> bool:
    if not installation.is_ready():
        return False
    with connect(installation.bootstrap_servers) as log, installation.instance() as instance:
        followers = ["clean_orders", "sending", *(FOLLOWERS if IS_LONG else ())]
        lags = [
            measure_lag(log, lake_of(installation), topic="orders", table=table)
            for table in followers
        ]
        if IS_LONG:
            lags.append(
                measure_lag(
                    log,
                    lake_of(installation),
                    topic="orders",
                    table="paid_orders",
                    also=("payments",),
                )
            )
        return all(lag is not None and lag.lag == 0 for lag in lags) and installation.is_idle(
            instance
        )


def check_places(installation: Installation, orders: Orders, story: str) -> None:
    feed = TopicFeed(
        asset_key=table_key("clean_orders"),
        table="clean_orders",
        topic="orders",
        minimum_interval_s=None,
    )
    with connect(installation.bootstrap_servers) as log:
        proof = prove_topic(feed, log, lake_of(installation), None)
    assert proof.faults == (), story
    assert proof.records == orders.sent, story
    assert proof.rows == orders.kinds["good"], story
    assert proof.dead_letters == proof.records - proof.rows, story


def check_sent(installation: Installation, orders: Orders, story: str) -> None:
    """Compare what readers of committed records find with what was sent and passes the rule."""
    found: Counter[bytes] = Counter()
    with connect(installation.bootstrap_servers) as log:
        read = log.range_reader()
        for one in log.partition_offsets("sent"):
            for batch in read(
                "sent", OffsetRange(partition=one.partition, start=0, end=one.last_stable_offset)
            ):
                found.update(batch["key"].to_pylist())
    assert found == orders.passed, story
    letters = DeadLetters(lake_of(installation)).of_target("sending")
    assert len(letters) == orders.sent - orders.passed.total(), story


def check_joined(installation: Installation, orders: Orders, story: str) -> None:
    """Compare the pairs of orders and payments with what was sent."""
    if not IS_LONG:
        return
    paid = Counter(orders.payments)
    wanted = Counter(
        {
            identity: count * paid[identity]
            for identity, count in orders.by_id.items()
            if paid[identity]
        }
    )
    rows = (
        lake_of(installation)
        .existing("paid_orders")
        .dataset()
        .to_table(columns=["id", "_left", "_right"])
        .to_pylist()
    )
    assert Counter(row["id"] for row in rows) == wanted, story
    assert len({str((row["_left"], row["_right"])) for row in rows}) == len(rows), story


def total_of(installation: Installation) -> int | None:
    snapshot = lake_of(installation).snapshot("totals")
    rows = snapshot.dataset().to_table()["total"].to_pylist() if snapshot else []
    return rows[0] if rows else None


def lake_of(installation: Installation) -> Lake:
    return Lake(installation.data / "lake")
