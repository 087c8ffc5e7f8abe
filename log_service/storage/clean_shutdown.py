"""The marker ``.kafka_cleanshutdown``: everything in this log directory was closed in order.

Decides its content (JSON with the broker epoch, KIP-966). Invariant: it is there only between a clean stop and the next start.
"""

import json
from pathlib import Path

from log_service.common.env import Files

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
UNKNOWN_BROKER_EPOCH = -1


def take_marker(files: Files, directory: Path) -> int | None:
    """Remove the marker, durably, and return its broker epoch (-1 where it names none); None where there was no marker."""
    path = directory / CLEAN_SHUTDOWN_FILE
    try:
        content = files.read_bytes(path)
    except FileNotFoundError:
        return None
    files.remove(path)
    files.sync_directory(directory)
    try:
        return int(json.loads(content)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return UNKNOWN_BROKER_EPOCH


def write_marker(files: Files, directory: Path, broker_epoch: int) -> None:
    """Write the marker; durable on return."""
    files.write_atomically(directory / CLEAN_SHUTDOWN_FILE, json.dumps({"version": 0, "brokerEpoch": broker_epoch}).encode())
