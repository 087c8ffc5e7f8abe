"""``tidelog produce`` reports why a broker refuses records that it may take later.

A full disk is an example.
"""

import logging
import time

import pytest

from log_service.cli import produce
from log_service.cli.produce import SENDER, Deliveries

logger = logging.getLogger(SENDER)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "PATIENCE_S", 0.1)


def test_what_goes_on_for_a_while_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    deliveries = Deliveries()
    with deliveries.patience.listening():
        for _ in range(3):
            logger.info("a batch is sent again: %s", "orders-0: KAFKA_STORAGE_ERROR")
        time.sleep(0.5)
    assert (
        capsys.readouterr().err == "waiting: a batch is sent again: orders-0: KAFKA_STORAGE_ERROR\n"
    )


def test_a_short_trouble_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    deliveries = Deliveries()
    with deliveries.patience.listening():
        logger.info("a batch is sent again: %s", "orders-0: NOT_LEADER_OR_FOLLOWER")
        deliveries.on_delivery(None, None)
        time.sleep(0.3)
    assert capsys.readouterr().err == ""


def test_levels_are_given_back() -> None:
    before = (logger.level, logger.propagate, list(logger.handlers))
    with Deliveries().patience.listening():
        pass
    assert (logger.level, logger.propagate, list(logger.handlers)) == before
