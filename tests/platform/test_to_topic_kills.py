"""Readers of committed records find each record's rows once, and no other.

Runs of a transform to a topic are killed at every step. On tidelog, and on Apache Kafka where it is
there: the same runs, unchanged.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin, BlockingProducer
from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.tables import Lake
from orchestration.log_client.connection import connect
from orchestration.offsets.ranges import OffsetRange
from orchestration.topics.spec import reconcile
from tests.helpers.whole import of_a_run
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG, cluster
from tests.platform import dying, killed_replaying, killed_sending
from tests.platform.dying import KILLED
from tests.platform.good_orders import GOOD_ORDERS, GROUP, expected_records
from tests.platform.installation import wait_until
from tests.platform.killed_sending import IS_COMMITTED, IS_OPEN, STEPS
from tests.platform.pipeline import ORDERS, order

pytestmark = [pytest.mark.platform, pytest.mark.timeout(900)]
MARKED_WITHIN_S = 30
APACHE_STEPS = of_a_run(["while-rows-are-sent", "before-the-ledger"], whole=list(STEPS))
"""On Apache Kafka the moments in which a transaction is open, or has just been committed."""


@pytest.fixture(params=[TIDELOG, pytest.param(APACHE_KAFKA, marks=pytest.mark.repeats)])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    with cluster(request.param, tmp_path / "cluster") as bootstrap:
        yield request.param, bootstrap


class Story:
    """Orders that were sent, and what is to become of them."""

    def __init__(self, bootstrap: str, spark_remote: str, lake: Path) -> None:
        self.bootstrap, self.remote, self.lake = bootstrap, spark_remote, lake
        self.values: list[bytes] = []

    def send(self, number: int) -> None:
        values = [order(f"{number}-{position}", position - 2) for position in range(12)]
        values += [b"nonsense", order("skipped")]
        with BlockingProducer(self.bootstrap) as producer:
            for position, value in enumerate(values):
                producer.send("orders", value=value, partition=position % 2)
        self.values += values

    def run(self, step: str, limit: int = 1_000, size: int = 1 << 20) -> None:
        running = dying.start(
            killed_sending.main,
            self.lake.parent,
            self.remote,
            self.bootstrap,
            str(self.lake),
            step,
            str(limit),
            str(size),
        )
        code, output = running.finish()
        assert code == (0 if step == "none" else KILLED), output

    def replay(self, step: str) -> None:
        running = dying.start(
            killed_replaying.main,
            self.lake.parent,
            self.remote,
            self.bootstrap,
            str(self.lake),
            step,
        )
        code, output = running.finish()
        assert code == (0 if step == "none" else KILLED), output

    def found(self) -> Counter[tuple[bytes, bytes]]:
        """Return what readers of committed records find, now that no transaction is open any more."""
        found: Counter[tuple[bytes, bytes]] = Counter()
        with connect(self.bootstrap) as log:
            read = log.range_reader()
            for one in log.partition_offsets(GOOD_ORDERS.name):
                for batch in read(
                    GOOD_ORDERS.name,
                    OffsetRange(partition=one.partition, start=0, end=one.high_watermark),
                ):
                    found.update(
                        zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
                    )
        return found

    def letters(self) -> int:
        return int(DeadLetters(Lake(self.lake)).committed().count_rows())

    def lag(self) -> int:
        """Return the offsets that are not committed.

        Any tool is told them while a transaction is open, too.
        """
        with connect(self.bootstrap) as log, BlockingAdmin(self.bootstrap) as admin:
            committed = {
                place.partition: one.offset
                for place, one in admin.list_group_offsets(GROUP).items()
            }
            return sum(
                one.last_stable_offset - committed.get(one.partition, 0)
                for one in log.partition_offsets(ORDERS.name)
            )


def test_readers_find_each_record_once_whenever_runs_are_killed(
    servers: tuple[str, str], spark_remote: str, tmp_path: Path
) -> None:
    name, bootstrap = servers
    with connect(bootstrap) as log:
        for topic in (ORDERS, GOOD_ORDERS):
            reconcile(log, topic)
    story = Story(bootstrap, spark_remote, tmp_path / "lake")
    for number, step in enumerate(APACHE_STEPS if name == APACHE_KAFKA else STEPS):
        story.send(number)
        story.run(step)
        if step in IS_COMMITTED:  # its markers may come a moment later
            wait_until(
                lambda: story.lag() == 0, MARKED_WITHIN_S, lambda: "the commit does not count"
            )
        else:
            assert story.lag() > 0, step
        assert open_records(bootstrap) > 0 or step not in IS_OPEN, step
        story.run("none", limit=20, size=200)
        assert story.lag() == 0
        wait_until(
            lambda: open_records(bootstrap) == 0,
            MARKED_WITHIN_S,
            lambda: "a transaction is open for ever",
        )
        assert story.found() == expected_records(story.values), f"recovered from {step}"
        assert story.letters() == sum(map(is_rejected, story.values)), f"recovered from {step}"
        assert DeadLetters(Lake(story.lake)).pending().count_rows() == 0


def test_readers_find_each_dead_letter_once_whenever_its_replay_is_killed(
    servers: tuple[str, str], spark_remote: str, tmp_path: Path
) -> None:
    _, bootstrap = servers
    with connect(bootstrap) as log:
        for topic in (ORDERS, GOOD_ORDERS):
            reconcile(log, topic)
    story = Story(bootstrap, spark_remote, tmp_path / "lake")
    for number, step in enumerate(killed_replaying.STEPS):
        story.send(number)
        story.run("none")
        story.replay(step)
        story.replay("none")
        story.replay("none")
        wait_until(
            lambda: open_records(bootstrap) == 0,
            MARKED_WITHIN_S,
            lambda: "a transaction is open for ever",
        )
        assert story.found() == expected_records(story.values, least=-10), f"recovered from {step}"
        assert story.letters() == sum(value == b"nonsense" for value in story.values), (
            f"recovered from {step}"
        )
        assert story.lag() == 0


def is_rejected(value: bytes) -> bool:
    return value == b"nonsense" or json.loads(value)["amount"] <= 0


def open_records(bootstrap: str) -> int:
    """Return how many records readers of committed records have to wait for."""
    with BlockingAdmin(bootstrap) as admin:
        offsets = admin.describe_offsets([GOOD_ORDERS.name]).values()
        return sum(one.high_watermark - one.last_stable_offset for one in offsets)
