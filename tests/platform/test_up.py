"""A user starts ``tidelog up``.

A new project works at once, hanging components come back, and the user's own are left alone.
"""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin, BlockingProducer
from log_service.supervisor import state
from log_service.supervisor.components import BROKER
from log_service.supervisor.spec import CODE
from orchestration.installation.services import DAEMON, SPARK
from orchestration.lake.tables import Lake
from orchestration.project.new import write_project
from orchestration.warehouse.store import Warehouse
from tests.helpers.broker_process import BrokerProcess
from tests.helpers.java_archives import KAFKA_LIBS
from tests.helpers.ports import free_port
from tests.helpers.whole import of_a_run
from tests.integration.client_clusters import apache_kafka
from tests.integration.http.console_pages import Person, readable
from tests.platform.installation import Installation, running, wait_until
from tests.platform.spark_server import warm_server

pytestmark = [pytest.mark.platform, pytest.mark.timeout(of_a_run(600, whole=1_800))]
PATIENCE_S = 180.0
EVERYTHING = (SPARK, BROKER, CODE, DAEMON)
EACH = [(name,) for name in EVERYTHING]
HANGING: list[tuple[str, ...]] = [EVERYTHING, *of_a_run([], whole=EACH)]
"""What hangs at once, strike after strike. Each costs the minute in which the supervisor makes
sure.
"""
RETURNS = """
from assets.shouting import shouted

RETURNS = TopicSpec(name="returns", partitions=6, schema="id BIGINT")
returns_topic = topic_asset(RETURNS)


@spark_table(topic=RETURNS)
def returned(records: DataFrame) -> DataFrame:
    return records.select(shouted("id").alias("text"), "_topic_id", "_partition", "_offset")
"""
SHOUTING = """
from pyspark.sql.functions import udf
from pyspark.sql.types import StringType


def loud(number):
    return f"return {number}".upper()


shouted = udf(loud, StringType())
"""
"""A module, a topic and a table that come when Spark has long been up: its workers find the module.
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_project(tmp_path / "shop")
    return tmp_path / "shop"


def produce(bootstrap_servers: str, first: int, count: int) -> None:
    with BlockingProducer(bootstrap_servers) as producer:
        for number in range(first, first + count):
            producer.send(
                "orders", value=json.dumps({"id": number, "amount": 2.5, "country": "NZ"}).encode()
            )
        producer.flush()


def shouted(installation: Installation) -> list[str]:
    """Return what Spark's Python workers made of the topic that came after Spark."""
    snapshot = Lake(installation.data / "lake").snapshot("returned")
    return [] if snapshot is None else list(snapshot.dataset().to_table()["text"].to_pylist())


def revenue(installation: Installation) -> list[float]:
    warehouse = Warehouse(installation.data / "warehouse", Lake(installation.data / "lake"))
    if "revenue_by_country" not in warehouse.names():
        return []
    return [
        row["revenue"]
        for row in warehouse.query("SELECT revenue FROM revenue_by_country").to_pylist()
    ]


def test_a_new_project_works_at_once_and_takes_changes_and_what_hangs_comes_back(
    tmp_path: Path, project: Path
) -> None:
    console_port = free_port()
    arguments = ("--watch", "--console-port", str(console_port))
    with running(tmp_path / "data", project, *arguments) as installation:
        with BlockingAdmin(installation.bootstrap_servers) as admin:
            assert admin.describe_topics(["orders"])["orders"].partition_count == 4, (
                "declared topics are there before anybody produces"
            )
        produce(installation.bootstrap_servers, 0, 10)
        wait_until(lambda: revenue(installation) == [25.0], PATIENCE_S, installation.explain)
        console_knows_the_project(f"http://127.0.0.1:{console_port}", installation)

        module = project / "assets" / "orders.py"
        changed = module.read_text().replace("sum(amount) AS revenue", "sum(amount) * 2 AS revenue")
        (project / "assets" / "shouting.py").write_text(SHOUTING)
        module.write_text(changed + RETURNS)
        log = installation.data / "logs" / "code.log"
        wait_until(
            lambda: "topic returns: created" in log.read_text(), PATIENCE_S, installation.explain
        )
        with BlockingAdmin(installation.bootstrap_servers) as admin:
            assert admin.describe_topics(["returns"])["returns"].partition_count == 6, (
                "a topic that is added is there with the reload"
            )
        produce(installation.bootstrap_servers, 10, 10)
        wait_until(lambda: revenue(installation) == [100.0], PATIENCE_S, installation.explain)
        with BlockingProducer(installation.bootstrap_servers) as producer:
            producer.send("returns", value=b'{"id": 7}').wait()
        wait_until(lambda: shouted(installation) == ["RETURN 7"], PATIENCE_S, installation.explain)

        good = module.read_text()
        module.write_text(good + "unknown_name\n")
        complaint = f"code     {module}, line {len(good.splitlines()) + 1}, cannot be loaded: NameError: name 'unknown_name' is not defined"
        wait_until(lambda: complaint in installation.output, PATIENCE_S, installation.explain)
        assert {one.name for one in state.read(installation.data) if one.complaint} == {"code"}
        module.write_text(good)
        wait_until(
            lambda: "code     all is well again" in installation.output,
            PATIENCE_S,
            installation.explain,
        )

        for number, names in enumerate(HANGING):
            come_back(installation, names, first=20 + 10 * number)


def console_knows_the_project(url: str, installation: Installation) -> None:
    """The console of the installation shows its tables, where they come from, and its topics."""

    def shows(path: str, text: str) -> None:
        wait_until(
            lambda: text in readable(person.part(path)).lower(), PATIENCE_S, installation.explain
        )

    with Person(url) as person:
        shows("/pipelines", "lake/clean_orders up to date orders 0")
        shows("/pipelines", "marts/revenue_by_country built")
        shows("/flow", "topic orders table clean_orders")
        assert "id BIGINT" in readable(person.open("/pipelines/tables/clean_orders"))
        assert "10 records shown" in readable(person.open("/topics/orders/records"))


def come_back(installation: Installation, names: tuple[str, ...], first: int) -> None:
    """Stop processes as SIGSTOP does, while orders come.

    Each is noticed and started again, and every order is a row, once.
    """
    bootstrap, before = (
        installation.bootstrap_servers,
        {name: installation.output.count(hung(name)) for name in names},
    )
    produce(bootstrap, first, 4)
    for name in names:
        process = installation.component(name)
        assert process is not None, name
        process.send_signal(signal.SIGSTOP)
    if BROKER not in names:
        produce(bootstrap, first + 4, 3)
    wait_until(
        lambda: all(installation.output.count(hung(name)) > before[name] for name in names),
        PATIENCE_S,
        installation.explain,
    )
    wait_until(installation.is_ready, PATIENCE_S, installation.explain)
    missing = 3 if BROKER not in names else 6
    produce(bootstrap, first + 10 - missing, missing)
    wait_until(
        lambda: revenue(installation) == [5.0 * (first + 10)], PATIENCE_S, installation.explain
    )
    ids = (
        Lake(installation.data / "lake")
        .existing("clean_orders")
        .dataset()
        .to_table(columns=["id"])["id"]
        .to_pylist()
    )
    assert sorted(ids) == list(range(first + 10)), f"after {names} hung"


def hung(name: str) -> str:
    """Return how the supervisor tells that a component hung."""
    return f"{name:<7}  did not respond"


@contextmanager
def somebody_s_kafka(directory: Path) -> Iterator[str]:
    """Apache Kafka where it can be run, else a broker of ours that nobody supervises."""
    if os.environ.get(KAFKA_LIBS):
        with apache_kafka(directory, {}) as address:
            yield address
    else:
        with BrokerProcess(directory) as broker:
            yield broker.bootstrap


def test_a_cluster_and_a_spark_of_the_user_s_own_are_used_and_left_alone(
    tmp_path: Path, project: Path
) -> None:
    (tmp_path / "kafka").mkdir()
    (tmp_path / "spark").mkdir()
    with (
        somebody_s_kafka(tmp_path / "kafka") as bootstrap,
        warm_server(tmp_path / "spark") as (remote, server),
    ):
        settings = {"TIDELOG_BOOTSTRAP_SERVERS": bootstrap, "TIDELOG_SPARK_REMOTE": remote}
        with running(tmp_path / "data", project, **settings) as installation:
            owners = {
                one.name: (one.external_setting, one.pid) for one in state.read(installation.data)
            }
            assert owners["broker"] == ("TIDELOG_BOOTSTRAP_SERVERS", None)
            assert owners["spark"] == ("TIDELOG_SPARK_REMOTE", None)
            assert not (installation.data / "broker").exists()
            produce(bootstrap, 0, 10)
            wait_until(lambda: revenue(installation) == [25.0], PATIENCE_S, installation.explain)
        produce(bootstrap, 10, 1)  # the cluster goes on without us
        assert server.poll() is None, "it was stopped by somebody else"
