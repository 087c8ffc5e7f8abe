"""``serve`` runs one node in the foreground from a file of server properties, until a signal.

Decides the messages to the operator and the exit code: 0 stopped gracefully, 2 the configuration
cannot be honoured, 3 a listener cannot be bound, 4 a log directory cannot be used or failed, 5 the
disk is full, 1 anything else. The first SIGTERM or SIGINT stops gracefully. A further one after a
second or more stops at once (exit code 1).
"""

import errno
import gc
import logging
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from enum import IntEnum
from pathlib import Path

import trio

from log_service.broker.broker import Broker
from log_service.broker.collector_pauses import keep_collections_short
from log_service.broker.env import real_env
from log_service.broker.one_error import one_error
from log_service.broker.time_slice import shorten_time_slices
from log_service.common.errors import ConfigError, KafkaError, StorageError, TidelogError
from log_service.common.log_lines import LineFormatter
from log_service.common.stop_signals import SAME_REQUEST_SECONDS, StopRequests
from log_service.config.heartbeats import rare_heartbeats_warning
from log_service.config.open_doors import open_doors
from log_service.config.server import ServerSettings, parse_server_properties
from log_service.config.views import NodeConfig
from log_service.storage.files import connection_descriptors
from log_service.storage.log_directory import is_full_disk

logger = logging.getLogger(__name__)

SWITCH_SECONDS = 0.001
"""How long a computing thread of the pool may keep the event loop waiting.

Python's default is 5 ms.

Such threads belong to the cleaner, or to a coordinator that loads.
"""

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_CANNOT_BIND = frozenset({errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES})


class ExitCode(IntEnum):
    """Exit codes of the process."""

    OK = 0
    FAILED = 1
    BAD_CONFIGURATION = 2
    CANNOT_BIND = 3
    BAD_LOG_DIRECTORY = 4
    DISK_FULL = 5


def serve(properties_path: Path | str | None, overrides: Sequence[str] = ()) -> int:
    """Run a node until it must stop, and return the exit code.

    ``properties_path`` may be None if ``overrides`` (``key=value``) hold all keys.
    """
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(LineFormatter(LOG_FORMAT))
    logging.basicConfig(handlers=[lines])
    logging.getLogger("log_service").setLevel(logging.INFO)
    sys.setswitchinterval(SWITCH_SECONDS)
    shorten_time_slices()
    gc.disable()  # the objects of a start stay, so there is no garbage until the node is ready
    try:
        config, settings = read_configuration(properties_path, overrides)
        set_audit_level(config)
        of_keys = (
            settings.warning,
            settings.idle_warning,
            settings.repeated_warning,
            settings.jaas_warning,
            settings.super_users_warning,
        )
        for warning in (
            *of_keys,
            rare_heartbeats_warning(config),
            *open_doors(config, settings.texts),
        ):
            if warning is not None:
                logger.warning("%s", warning)
        return trio.run(run_node, config, settings)
    except ConfigError as error:
        return _end(ExitCode.BAD_CONFIGURATION, str(error))
    except StorageError as error:
        return _end(
            ExitCode.DISK_FULL if is_full_disk(error) else ExitCode.BAD_LOG_DIRECTORY, str(error)
        )
    except KafkaError as error:
        return _end(ExitCode.FAILED, f"the controller does not let this broker in: {error}")
    except TidelogError as error:
        return _end(ExitCode.FAILED, str(error))
    except OSError as error:
        return _end_of_system(error)
    finally:
        gc.enable()


def read_configuration(
    properties_path: Path | str | None, overrides: Sequence[str]
) -> tuple[NodeConfig, ServerSettings]:
    """Return the configuration of a file, with overrides applied.

    Raises:
        ConfigError: the file cannot be read, or asks for a feature that does not exist; the text
            names the file.
    """
    if properties_path is None:
        return _parsed("", overrides)
    try:
        text = _decoded(Path(properties_path).read_bytes())
    except OSError as error:
        raise ConfigError(f"{properties_path} cannot be read: {error}") from error
    try:
        return _parsed(text, overrides)
    except ConfigError as error:
        over = " with its overrides" if overrides else ""
        raise ConfigError(f"{properties_path}{over}: {error}") from error


def _parsed(text: str, overrides: Sequence[str]) -> tuple[NodeConfig, ServerSettings]:
    config, settings = parse_server_properties(text, overrides)
    if (
        any(not listener.host for listener in config.listeners)
        and "advertised.listeners" not in settings.texts
    ):
        return parse_server_properties(text, overrides, host_name=_own_name())
    return config, settings


def set_audit_level(config: NodeConfig) -> None:
    """Set the level of the audit log, so that it gets the configured decisions.

    If the configuration has no audit log, nothing is set, and the level of all loggers applies.
    """
    audit = None if config.authorizer is None else config.authorizer.audit
    if audit is not None:
        from log_service.security.audit import (  # noqa: PLC0415 - many nodes have no audit log
            LOGGER_NAME as AUDIT_LOGGER,
        )

        logging.getLogger(AUDIT_LOGGER).setLevel(
            logging.DEBUG if audit.is_allowed_written else logging.INFO
        )


def _own_name() -> str:
    """Return this machine's name, as advertised for a listener on all addresses.

    Return localhost if the name does not resolve.
    """
    name = socket.getfqdn()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "localhost"
    return name


def _decoded(content: bytes) -> str:
    """Return the text of a file: UTF-8, or else Latin-1, as Java reads it."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


async def run_node(config: NodeConfig, settings: ServerSettings) -> int:
    """Run a node until a signal stops it, and return its exit code."""
    env = real_env(config)
    descriptor_count, most_connections = connection_descriptors()
    text = (
        "%d descriptors may be open: connections may take %d (max.connections is %d), and the"
        " others are for logs"
    )
    logger.info(text, descriptor_count, most_connections, config.limits.connections.max_count)
    broker, is_graceful = (
        Broker(env, config, static_texts=settings.texts, most_connections=most_connections),
        False,
    )
    with one_error(), trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch_signals, signals, broker, nursery)
            await nursery.start(broker.run)
            if broker.is_started:
                await nursery.start(keep_collections_short)
                _announce(config, broker)
            await broker.wait_stopped()
            is_graceful = broker.is_stopped_gracefully
            nursery.cancel_scope.cancel()
    if is_graceful:
        logger.info("tidelog node %d has stopped", config.node_id)
    return ExitCode.OK if is_graceful else ExitCode.FAILED


def _announce(config: NodeConfig, broker: Broker) -> None:
    addresses = ", ".join(f"{host}:{port}" for host, port in broker.addresses.values())
    if not addresses and broker.controller_address is not None:
        host, port = broker.controller_address
        addresses = f"{host}:{port}, as a controller only: clients connect to brokers"
    if broker.metrics_address is not None:
        host, port = broker.metrics_address
        logger.info(
            "metrics are at http://%s:%d/metrics", f"[{host}]" if ":" in host else host, port
        )
    logger.info("tidelog node %d is ready on %s", config.node_id, addresses)


async def _watch_signals(
    signals: AsyncIterator[int], broker: Broker, nursery: trio.Nursery
) -> None:
    """Stop gracefully at the first signal, at once at the second."""
    requests = StopRequests()
    async for number in signals:
        name = signal.Signals(number).name
        if requests.is_repeated():
            continue
        if requests.is_second:
            logger.warning("%s again: stopping at once", name)
            nursery.cancel_scope.cancel()
            return
        logger.info(
            "%s: stopping; once more, after %g s or later, stops at once",
            name,
            SAME_REQUEST_SECONDS,
        )
        nursery.start_soon(broker.stop)


def _end_of_system(error: OSError) -> ExitCode:
    if error.errno in _CANNOT_BIND:
        return _end(
            ExitCode.CANNOT_BIND,
            f"a listener cannot be bound: {error}; stop what listens there, or change listeners",
        )
    if is_full_disk(error):
        return _end(
            ExitCode.DISK_FULL,
            f"the disk is full: {error}; make room, or name another directory in log.dirs",
        )
    return _end(ExitCode.BAD_LOG_DIRECTORY, f"the node cannot use its files: {error}")


def _end(code: ExitCode, text: str) -> ExitCode:
    logger.error("%s", text)
    return code
