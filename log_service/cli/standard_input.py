"""Reads what users type or pipe, while a command's clients continue to work.

A stream is read only when it has data, so that Ctrl-C ends the wait and leaves no thread behind.
"""

import sys
from collections.abc import Callable
from typing import IO, Any, BinaryIO

import click
import trio

CHUNK_BYTES = 1 << 18
STANDARD_INPUT = "<stdin>"


def name_of(stream: IO[Any]) -> str:
    """Return the name of a stream's file, or ``STANDARD_INPUT``."""
    return str(getattr(stream, "name", STANDARD_INPUT))


async def read_some(stream: BinaryIO) -> bytes:
    """Return the next bytes of a stream as soon as there are any, empty at its end.

    Regular files and streams without a descriptor are read at once.
    """
    try:
        await trio.lowlevel.wait_readable(stream.fileno())
    except OSError:
        await trio.lowlevel.checkpoint()
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    return read(CHUNK_BYTES)


async def read_all(stream: BinaryIO) -> bytes:
    """Return the bytes of a stream up to its end."""
    chunks = []
    while chunk := await read_some(stream):
        chunks.append(chunk)
    return b"".join(chunks)


class LineReader:
    """Reads the lines of a stream."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._begun: list[bytes] = []
        self._is_at_end = False

    async def read(self) -> list[bytes]:
        """Return the next lines without their newlines, an empty list at the end of the stream."""
        lines: list[bytes] = []
        while not lines and not self._is_at_end:
            lines = self._split(await read_some(self._stream))
        return lines

    def _split(self, chunk: bytes) -> list[bytes]:
        """Return the lines that a chunk completes. An empty chunk is the stream's end.

        The end completes the last line.
        """
        self._is_at_end = not chunk
        *lines, rest = chunk.split(b"\n")
        if self._begun and (lines or self._is_at_end):
            lines[:1] = [b"".join([*self._begun, *lines[:1]])]
            self._begun.clear()
        if rest:
            self._begun.append(rest)
        return lines


async def confirm(question: str, refused: str) -> None:
    """Ask before an action that cannot be undone.

    Raises:
        ClickException: the person says no, or standard input ends without a response.
    """
    prompt = f"{question} [y/N]: "
    click.echo(prompt, nl=False, err=True)
    reader = LineReader(sys.stdin.buffer)
    while lines := await reader.read():
        for line in lines:
            response = line.decode(errors="replace").strip().lower()
            if response in {"y", "yes"}:
                return
            if response in {"n", "no", ""}:
                raise click.ClickException(refused)
            click.echo(f"Error: invalid input\n{prompt}", nl=False, err=True)
    click.echo(err=True)
    raise click.ClickException(f"{refused}: there was no response; --yes does not ask")
