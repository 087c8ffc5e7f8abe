"""The pipeline of the README runs as it is printed.

Records of a topic become rows, dead letters and the answer of a mart.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from log_service.client import BlockingAdmin, BlockingProducer, NewTopic
from orchestration.assembly import assemble
from orchestration.lake.tables import Lake
from orchestration.resources import LakeResource, LogServiceResource, WarehouseResource
from orchestration.warehouse.store import Warehouse
from tests.helpers.broker_process import BrokerProcess
from tests.helpers.documents import ROOT, blocks_of
from tests.platform.assets_world import OpenedSpark, failure_of
from tests.platform.pipeline import letters_of

pytestmark = [pytest.mark.platform, pytest.mark.timeout(240)]
ORDERS = [
    {"id": 1, "amount": 12.5, "country": "DE"},
    {"id": 2, "amount": 7.5, "country": "DE"},
    {"id": 3, "amount": 100.0, "country": "NZ"},
    {"id": 3, "amount": 100.0, "country": "NZ"},
    {"id": 4, "amount": -1.0, "country": "NZ"},
    {"amount": 1.0},
]


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    with BrokerProcess(tmp_path / "broker") as running:
        yield running.bootstrap


def printed_pipeline() -> ModuleType:
    block = next(block for block in blocks_of(ROOT / "README.md") if "spark_table(" in block.text)
    module = ModuleType("assets.as_printed")
    exec(compile(block.text, str(block), "exec"), vars(module))
    return module


def test_the_printed_pipeline_turns_a_topic_into_a_table(
    bootstrap: str, tmp_path: Path, spark: Any
) -> None:
    module = printed_pipeline()
    topic = module.ORDERS
    with BlockingAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(name=topic.name, partition_count=topic.partitions)])
    with BlockingProducer(bootstrap) as producer:
        for order in ORDERS:
            producer.send(topic.name, value=json.dumps(order).encode(), key=b"one partition").wait()

    assets = [
        asset for asset in assemble([module]).assets or () if isinstance(asset, dg.AssetsDefinition)
    ]
    lake = Lake(tmp_path / "lake")
    resources = {
        "log_service": LogServiceResource(bootstrap_servers=bootstrap),
        "spark": dg.ResourceDefinition.hardcoded_resource(OpenedSpark(spark)),
        "lake": LakeResource(root=str(lake.root)),
        "warehouse": WarehouseResource(
            directory=str(tmp_path / "warehouse"), lake_root=str(lake.root)
        ),
    }
    with dg.DagsterInstance.ephemeral() as instance:
        for chosen in (module.clean_orders, module.revenue):
            ran = dg.materialize(
                assets,
                selection=[chosen.key],
                resources=resources,
                instance=instance,
                raise_on_error=False,
            )
            assert ran.success, failure_of(ran)

    answer = Warehouse(tmp_path / "warehouse", lake).query(
        "SELECT country, revenue FROM revenue_by_country ORDER BY country"
    )
    assert answer.to_pylist() == [
        {"country": "DE", "revenue": 20.0},
        {"country": "NZ", "revenue": 100.0},
    ]
    assert sorted(rule for _, _, rule, _ in letters_of(lake.root)) == [
        "amount_is_positive",
        "schema",
        "unique_by",
    ]
