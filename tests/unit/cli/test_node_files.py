"""An error in a node's file names the file, because one machine may have several."""

from pathlib import Path

import pytest

from log_service.cli.node_files import read_node_file
from log_service.common.errors import ConfigError


def test_a_mistake_is_told_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "node2.properties"
    path.write_text("process.roles=broker\n")
    with pytest.raises(ConfigError, match=rf"^{path}: node.id is missing"):
        read_node_file(path)
    with pytest.raises(ConfigError) as missing:
        read_node_file(tmp_path / "node3.properties")
    assert str(missing.value).count("node3.properties") <= 2
    assert str(missing.value).startswith(f"{tmp_path / 'node3.properties'} cannot be read")
