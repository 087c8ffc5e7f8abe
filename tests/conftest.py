"""What holds for every test."""

import logging
import signal
from collections.abc import Iterator

import pytest

PRODUCT = "log_service"


@pytest.fixture(autouse=True)
def _own_loggers() -> Iterator[None]:
    """Levels of loggers are of the whole process, and commands and brokers set them: give them back, so that no test mutes another."""
    before = {logger: (logger.level, logger.propagate, logger.disabled) for logger in _loggers()}
    yield
    for logger in _loggers():
        logger.level, logger.propagate, logger.disabled = before.get(logger, (logging.NOTSET, True, False))
    logging.getLogger(PRODUCT).manager._clear_cache()  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    """Dagster lets SIGTERM do what SIGINT does, which a shell's background job ignores: children of later tests would never end."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


def _loggers() -> list[logging.Logger]:
    known = logging.getLogger().manager.loggerDict.items()
    return [one for name, one in known if name.partition(".")[0] == PRODUCT and isinstance(one, logging.Logger)]
