"""Lines of pipes and files are read as they come, and a wait for them blocks nothing."""

import os
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import pytest
import trio
import trio.testing

from log_service.cli import standard_input
from log_service.cli.standard_input import LineReader, read_all


async def lines_of(reader: LineReader) -> list[bytes]:
    found: list[bytes] = []
    while lines := await reader.read():
        found += lines
    return found


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"one", [b"one"]),
        (b"one\n", [b"one"]),
        (b"\n", [b""]),
        (b"one\n\ntwo\r\nthr\ree", [b"one", b"", b"two\r", b"thr\ree"]),
    ],
)
def test_lines_end_with_newlines_wherever_chunks_end(
    monkeypatch: pytest.MonkeyPatch, chunk_bytes: int, content: bytes, lines: Sequence[bytes]
) -> None:
    """The last line may have no newline."""
    monkeypatch.setattr(standard_input, "CHUNK_BYTES", chunk_bytes)
    assert trio.run(lines_of, LineReader(BytesIO(content))) == lines
    assert trio.run(read_all, BytesIO(content)) == content


def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    """The system cannot tell when a regular file is readable: it always is."""
    file = tmp_path / "lines"
    file.write_bytes(b"one\ntwo\n")
    with file.open("rb") as stream:
        assert trio.run(lines_of, LineReader(stream)) == [b"one", b"two"]


def test_other_tasks_run_while_a_pipe_is_silent() -> None:
    """A client sends its heartbeats meanwhile."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream:

        async def main() -> list[bytes]:
            reader = LineReader(stream)
            found: list[bytes] = []

            async def read() -> None:
                found.extend(await reader.read())

            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                await trio.testing.wait_all_tasks_blocked()
                assert found == []
                os.write(writing, b"one\ntw")
            os.write(writing, b"o\n")
            os.close(writing)
            return found + await lines_of(reader)

        assert trio.run(main) == [b"one", b"two"]


def test_a_wait_for_a_silent_pipe_can_be_cancelled() -> None:
    """Ctrl-C ends a command that waits for its input."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb"):

        async def main() -> bool:
            with trio.move_on_after(0.01) as scope:
                await LineReader(stream).read()
            return scope.cancelled_caught

        assert trio.run(main)
