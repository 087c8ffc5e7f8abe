"""Fixtures of the integration tests: one quick broker per test, or one in a process of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.broker_process import BrokerProcess, BrokerThread


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here uses real sockets."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.integration)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    """A broker with Kafka's defaults but for quick rebalances and few offsets partitions."""
    with BrokerThread(tmp_path) as running:
        yield running


@pytest.fixture
def broker_process(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that can be killed and started again."""
    with BrokerProcess(tmp_path) as running:
        yield running
