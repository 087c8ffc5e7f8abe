"""The marker ``.kafka_cleanshutdown``: everything in this log directory was closed in order.

Decides its content (JSON with the broker epoch, KIP-966). Invariant: it is there only between a clean stop and the next start.
"""

import json
from pathlib import Path

from log_service.common.env import Files

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
UNKNOWN_BROKER_EPOCH = -1


def read_marker(files: Files, directory: Path) -> int | None:
    """Return the marker's broker epoch (-1 where it names none); None where there is no marker."""
    try:
        content = files.read_bytes(directory / CLEAN_SHUTDOWN_FILE)
    except FileNotFoundError:
        return None
    try:
        return int(json.loads(content)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return UNKNOWN_BROKER_EPOCH


def remove_marker(files: Files, directory: Path) -> None:
    """Remove the marker, durably: from here on the directory is in use."""
    files.remove(directory / CLEAN_SHUTDOWN_FILE)
    files.sync_directory(directory)


def write_marker(files: Files, directory: Path, broker_epoch: int) -> None:
    """Write the marker; durable on return."""
    files.write_atomically(directory / CLEAN_SHUTDOWN_FILE, json.dumps({"version": 0, "brokerEpoch": broker_epoch}).encode())
