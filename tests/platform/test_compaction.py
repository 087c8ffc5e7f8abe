"""Compaction is an asset with its figures in the UI.

One broker can be asked, and another compacts by itself.
"""

from collections.abc import Iterator
from dataclasses import replace

import dagster as dg
import pytest

from log_service.client import BlockingProducer
from orchestration.log_client.connection import connect
from orchestration.log_client.protocol import CompactionPass
from orchestration.maintenance.compaction import compaction_asset, run_compaction
from orchestration.maintenance.retention import BY_ITSELF
from orchestration.resources.log_service import LogServiceResource
from tests.helpers.broker_process import BrokerProcess
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = pytest.mark.platform
DONE = CompactionPass(
    topic="orders",
    partition=0,
    records_before=100,
    records_after=40,
    bytes_before=9_000,
    bytes_after=4_000,
    tombstones_removed=3,
    tombstones_kept=2,
    dirty_ratio_before=0.8,
    dirty_ratio_after=0.1,
    seconds=0.5,
    passes=1,
)
NOTHING_DUE = CompactionPass(
    topic="orders",
    partition=1,
    records_before=0,
    records_after=0,
    bytes_before=0,
    bytes_after=0,
    tombstones_removed=0,
    tombstones_kept=0,
    dirty_ratio_before=0.3,
    dirty_ratio_after=0.3,
    seconds=0.0,
    passes=0,
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(
        tmp_path_factory.mktemp("broker"), properties={"log.cleaner.backoff.ms": "86400000"}
    ) as running:
        yield running


def test_the_figures_are_numbers_that_the_ui_plots() -> None:
    log = MemoryLog()
    refused = replace(NOTHING_DUE, partition=2, reason="a batch is damaged")
    log.compaction = (DONE, NOTHING_DUE, refused)
    report = run_compaction(log, timeout_s=7)
    assert log.calls == ["apply_compaction 7000"]
    told = report.metadata()
    numbers = {
        name: value.value
        for name, value in told.items()
        if isinstance(value, dg.IntMetadataValue | dg.FloatMetadataValue)
    }
    assert numbers == {
        "records_before": 100,
        "records_after": 40,
        "bytes_before": 9_000,
        "bytes_after": 4_000,
        "tombstones_removed": 3,
        "tombstones_kept": 2,
        "dirty_ratio_before": 0.8,
        "dirty_ratio_after": 0.3,
        "seconds": 0.5,
        "partitions_compacted": 1,
        "partitions_looked_at": 3,
        "partitions_under_way": 0,
        "partitions_refused": 1,
    }
    table = told["compacted"]
    assert isinstance(table, dg.TableMetadataValue)
    assert [(row.data["partition"], row.data["note"]) for row in table.records] == [
        (0, ""),
        (2, "a batch is damaged"),
    ]
    assert report.problems == ["orders-2 was not compacted: a batch is damaged"]


def test_brokers_that_compact_by_themselves_are_left_to_it() -> None:
    log = MemoryLog()
    log.compaction = None
    told = run_compaction(log).metadata()
    assert told["pass"].value == BY_ITSELF
    assert "compacted" not in told


def test_a_run_compacts_what_is_due_and_materializes_the_figures(broker: BrokerProcess) -> None:
    with connect(broker.bootstrap) as log:
        log.create_topic(
            "orders",
            partitions=1,
            replication_factor=1,
            configs={"cleanup.policy": "compact", "segment.ms": "1"},
        )
    for number in range(5):
        with BlockingProducer(broker.bootstrap) as producer:
            producer.send(
                "orders",
                key=b"key",
                value=b"%d" % number,
                timestamp_ms=1_700_000_000_000 + 10 * number,
            )
    resources = {"log_service": LogServiceResource(bootstrap_servers=broker.bootstrap)}
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize([compaction_asset()], resources=resources, instance=instance)
    assert result.success
    (materialization,) = result.asset_materializations_for_node("maintenance__compaction")
    told = {name: value.value for name, value in materialization.metadata.items()}
    assert (told["records_before"], told["records_after"], told["partitions_compacted"]) == (
        4,
        1,
        1,
    )
    assert (told["dirty_ratio_before"], told["dirty_ratio_after"]) == (1.0, 0.0)
    assert (told["bytes_before"], told["bytes_after"]) == (4 * 72, 72 + 3 * 61), (
        "of each producer the last batch stays as a header"
    )
