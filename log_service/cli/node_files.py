"""Reads the properties files of nodes for commands."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from log_service.config.views import NodeConfig


def read_node_file(path: Path) -> "NodeConfig":
    """Return the configuration of a node from its properties file.

    Raises:
        ConfigError: the file cannot be read, or the node cannot run with it.
    """
    from log_service.broker.main import (  # noqa: PLC0415 - most commands need no node
        read_configuration,
    )

    return read_configuration(path, ())[0]
