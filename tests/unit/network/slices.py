"""A slice of a file on disk, as storage hands them out."""

import os
from pathlib import Path


class DescriptorSlice:
    """A slice of a real file, as storage hands them out."""

    def __init__(self, path: Path, position: int, size_bytes: int) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        self._size_bytes = size_bytes
        self.position = position
        self.read_count = 0

    def __len__(self) -> int:
        return self._size_bytes

    def fileno(self) -> int:
        return self._descriptor

    def read(self) -> bytes:
        self.read_count += 1
        content = os.pread(self._descriptor, self._size_bytes, self.position)
        if len(content) < self._size_bytes:
            raise OSError(f"the file ended {self._size_bytes - len(content)} bytes early")
        return content

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
