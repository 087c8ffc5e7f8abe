"""The marker ``.kafka_cleanshutdown`` of a log directory whose logs were all closed in order.

Its content is JSON with the broker epoch (KIP-966). Invariant: the marker exists only between a
clean stop and the next start.
"""

import json
from pathlib import Path

from log_service.common.env import Files

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
UNKNOWN_BROKER_EPOCH = -1


def read_marker(files: Files, directory: Path) -> int | None:
    """Return the broker epoch in the marker, or None without a marker.

    The result is -1 if the marker has no broker epoch.
    """
    try:
        content = files.read_bytes(directory / CLEAN_SHUTDOWN_FILE)
    except FileNotFoundError:
        return None
    try:
        return int(json.loads(content)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return UNKNOWN_BROKER_EPOCH


def remove_marker(files: Files, directory: Path) -> None:
    """Remove the marker durably, because the directory is in use from now on."""
    files.remove(directory / CLEAN_SHUTDOWN_FILE)
    files.sync_directory(directory)


def write_marker(files: Files, directory: Path, broker_epoch: int) -> None:
    """Write the marker. It is durable on return."""
    files.write_atomically(
        directory / CLEAN_SHUTDOWN_FILE,
        json.dumps({"version": 0, "brokerEpoch": broker_epoch}).encode(),
    )
