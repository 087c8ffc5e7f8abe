"""Message classes that protoc makes of ``.proto`` texts, in a pool of their own.

Confluent's serializers take such a class, and register the descriptor of its file.
"""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass


class Messages:
    """The messages of some files, by their full names."""

    def __init__(self, directory: Path, texts: Mapping[str, str]) -> None:
        for name, text in texts.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        compiled = directory / "compiled.bin"
        arguments = [
            f"-I{directory}",
            f"--descriptor_set_out={compiled}",
            "--include_imports",
            *texts,
        ]
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *arguments], check=True)
        self._pool = DescriptorPool()
        for file in FileDescriptorSet.FromString(compiled.read_bytes()).file:
            self._pool.Add(file)

    def __getitem__(self, name: str) -> Any:
        return GetMessageClass(self._pool.FindMessageTypeByName(name))
