"""Logger levels of this process, as the configuration of a BROKER_LOGGER (type 8, KIP-412).

Decides names and levels: Kafka's TRACE to FATAL for Python's, and ``root`` for the root logger.
Nothing is stored. A restart begins with the levels of the command line. Levels belong to the
process, and several nodes in one process share them.
"""

import logging
from collections.abc import Sequence

from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.definition import ConfigSource, ConfigType
from log_service.config.describe import ConfigRow
from log_service.controller.rules.configs import Operation
from log_service.security.audit import LOGGER_NAME as AUDIT_LOGGER

ROOT = "root"
OWN_PREFIX = "log_service"
OWN_NAMES = (f"{OWN_PREFIX}.", AUDIT_LOGGER)
TRACE = 5
LEVELS = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def describe_loggers(names: Sequence[str] | None) -> list[ConfigRow]:
    """Return a row per logger with its effective level.

    ``names`` restricts the loggers, None is all.
    """
    return [
        ConfigRow(
            name=name,
            value=_level_name(_logger(name).getEffectiveLevel()),
            source=ConfigSource.DYNAMIC_BROKER_LOGGER,
            type=ConfigType.UNKNOWN,
            documentation=None,
        )
        for name in _known_names()
        if names is None or name in names
    ]


def alter_loggers(changes: Sequence[tuple[str, int, str | None]], *, validate_only: bool) -> None:
    """Set or delete levels, all of them or none. A change is (logger, operation, level).

    Raises:
        KafkaError: INVALID_CONFIG, no such logger or level. INVALID_REQUEST, an invalid operation.
    """
    for name, operation, level in changes:
        _validate(name, operation, level)
    if validate_only:
        return
    for name, operation, level in changes:
        _logger(name).setLevel(
            LEVELS[level] if level is not None and operation == Operation.SET else logging.NOTSET
        )


def _validate(name: str, operation: int, level: str | None) -> None:
    if operation not in (Operation.SET, Operation.DELETE):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "the level of a logger can be set and deleted, nothing else"
        )
    if operation == Operation.SET and level is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{name} has no value; only DELETE goes without one"
        )
    if name not in _known_names():
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"there is no logger {name}")
    if operation == Operation.DELETE and name == ROOT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "the level of the root logger cannot be deleted, only set"
        )
    if operation == Operation.SET and level not in LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{level!r} is not a level; those of {name} are {', '.join(LEVELS)}",
        )


def _known_names() -> list[str]:
    """Return the root, the authorizer's audit log if any, and every existing logger of ours."""
    names = [
        name
        for name in list(logging.root.manager.loggerDict)
        if name == OWN_PREFIX or name.startswith(OWN_NAMES)
    ]
    return [ROOT, *sorted(names)]


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _level_name(level: int) -> str:
    """Return the most verbose Kafka level that a logger of this level writes."""
    return next((name for name, number in LEVELS.items() if number >= level), "FATAL")
