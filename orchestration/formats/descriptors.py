"""Reads the descriptors of Protobuf messages from files.

A file is a set of descriptors from ``protoc``, or a ``.proto`` that is compiled here. Decides where
a message is found and how its absence is reported. Does not read values. Invariant: the result has
the message's file and all of its imports, each file after its imports.
"""

import subprocess
import sys
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import Default, DescriptorPool
from google.protobuf.message import DecodeError

from orchestration.formats.columns import SchemaFileError, read_file

COMPILE_TIMEOUT_S = 60
WELL_KNOWN = "google/protobuf/"


def descriptor_set(file: Path) -> bytes:
    """Return the set of descriptors of ``file``.

    A ``.proto`` file is compiled.

    :raises SchemaFileError: the file cannot be read or compiled.
    """
    content = read_file(file)
    if file.suffix == ".proto":
        return _compiled(file.absolute())
    try:
        found = FileDescriptorSet.FromString(content)
    except DecodeError as error:
        raise SchemaFileError(
            f"the schema file {file.absolute()} is not a set of descriptors: {error}. Make it with"
            f" protoc --include_imports --descriptor_set_out={file.name} YOUR.proto, or give the"
            " .proto file itself"
        ) from error
    if not found.file:
        raise SchemaFileError(
            f"the schema file {file.absolute()} is not a set of descriptors: it describes no file"
        )
    return content


def _compiled(file: Path) -> bytes:
    if find_spec("grpc_tools") is None:
        raise SchemaFileError(
            f"the schema file {file} has to be compiled: pip install 'tidelog[proto]', or make a"
            " set of descriptors of it once (protoc --include_imports"
            f" --descriptor_set_out={file.stem}.desc {file.name}) and declare that"
        )
    with TemporaryDirectory() as folder:
        out = Path(folder) / "set.desc"
        arguments = [
            f"--proto_path={file.parent}",
            "--include_imports",
            f"--descriptor_set_out={out}",
            file.name,
        ]
        done = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-m", "grpc_tools.protoc", *arguments],
            capture_output=True,
            text=True,
            timeout=COMPILE_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            why = (
                " ".join(line for line in done.stderr.splitlines() if "Warning" not in line)
                or f"protoc ended with {done.returncode}"
            )
            raise SchemaFileError(
                f"the schema file {file} cannot be compiled: {why}. Imports are looked for in its"
                " folder"
            )
        return out.read_bytes()


def find_message(descriptors: bytes, name: str, file: str = "") -> Any:
    """Return the descriptor of the message ``name``.

    ``file`` is named in errors.

    :raises SchemaFileError: the set is incomplete, or has no such message.
    """
    pool = DescriptorPool()
    declared = FileDescriptorSet.FromString(descriptors)
    for one in declared.file:
        _add(pool, one, {known.name for known in declared.file}, file)
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError:
        known = sorted(full for one in declared.file for full in _messages(one))
        near = get_close_matches(name, known, 1)
        advice = f"did you mean {near[0]}?" if near else f"it has {', '.join(known) or 'none'}"
        raise SchemaFileError(f"the schema file {file} has no message {name}: {advice}") from None


def _add(pool: DescriptorPool, one: FileDescriptorProto, known: set[str], file: str) -> None:
    for imported in one.dependency:
        if imported not in known and imported.startswith(WELL_KNOWN):
            _add_well_known(pool, imported)
    try:
        pool.Add(one)
        pool.FindFileByName(one.name)
    except (TypeError, KeyError) as error:
        raise SchemaFileError(
            f"the schema file {file} is not whole: {one.name} cannot be read ({error}). Make it"
            " with protoc --include_imports"
        ) from error


def _add_well_known(pool: DescriptorPool, name: str) -> None:
    """Add a well-known file of the Protobuf runtime to the pool, after loading it."""
    from google.protobuf import (  # noqa: F401, PLC0415 - importing them loads them
        duration_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )

    try:
        known = Default().FindFileByName(name)
    except KeyError:
        return
    pool.Add(FileDescriptorProto.FromString(known.serialized_pb))


def _messages(file: FileDescriptorProto) -> list[str]:
    prefix = f"{file.package}." if file.package else ""
    return [f"{prefix}{one.name}" for one in file.message_type]
