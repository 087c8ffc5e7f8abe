"""Files that their owner alone can read: replaced as a whole, or as they were."""

import os
from pathlib import Path

import pytest

from log_service.common.private_files import replace_private


@pytest.mark.parametrize("content", ["new text: é", "new text: é".encode()])
def test_a_file_is_replaced_by_one_that_its_owner_alone_can_read(
    tmp_path: Path, content: str | bytes
) -> None:
    path = tmp_path / "kept"
    path.write_text("older")
    path.chmod(0o644)
    (tmp_path / f".kept.{os.getpid()}").write_text(
        "left by a process of this number that was killed"
    )
    replace_private(path, content)
    assert path.read_text(encoding="utf-8") == "new text: é"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_replaced_stays_and_nothing_lies_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kept"
    path.write_text("older")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        replace_private(path, "newer")
    assert path.read_text() == "older"
    assert list(tmp_path.iterdir()) == [path]
