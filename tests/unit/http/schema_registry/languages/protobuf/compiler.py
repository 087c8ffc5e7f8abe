"""Runs protoc in this process, on files in a temporary directory."""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc_tools  # type: ignore[import-untyped]  # has no types
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

from log_service.http.schema_registry.languages.protobuf.validation.messages import json_name

INCLUDED = Path(grpc_tools.__file__).with_name("_proto")


class RefusedError(Exception):
    """The compiler refuses a file. The message is what it printed."""


def compiled(files: Mapping[str, str], path: str) -> dict[str, FileDescriptorProto]:
    """Return the descriptors of a file and its imports, by their paths.

    Raises:
        RefusedError: the file is invalid.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            place = Path(folder, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        out = Path(folder, "out")
        arguments = ["--include_imports", "--retain_options", f"--descriptor_set_out={out}"]
        with printed_to(Path(folder, "errors")) as errors:
            code = protoc.main(["protoc", f"-I{folder}", f"-I{INCLUDED}", *arguments, path])
        if code:
            raise RefusedError(errors.read_text(errors="replace"))
        found = FileDescriptorSet.FromString(out.read_bytes())
    return {each.name: without_defaults(each) for each in found.file}


def refusal(text: str, folder: Path) -> str:
    """Return why the compiler refuses a file, or nothing. It is quicker, as nothing is written."""
    (folder / "case.proto").write_text(text)
    with printed_to(folder / "errors") as errors:
        paths = [f"-I{folder}", f"-I{INCLUDED}"]
        code = protoc.main(["protoc", *paths, f"--descriptor_set_out={os.devnull}", "case.proto"])
    return errors.read_text(errors="replace") if code else ""


@contextmanager
def printed_to(path: Path) -> Iterator[Path]:
    """Send what is printed to standard error to a file, also by code in C."""
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("w") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield path
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def without_defaults(file: FileDescriptorProto) -> FileDescriptorProto:
    """Return a descriptor as generated code has it, without default JSON names."""
    clean(file.extension)
    waiting = list(file.message_type)
    while waiting:
        message = waiting.pop()
        clean((*message.field, *message.extension))
        waiting += message.nested_type
    for method in (each for service in file.service for each in service.method):
        if not method.options.ByteSize():
            method.ClearField("options")
    return file


def clean(fields: Any) -> None:
    """Remove default JSON names."""
    for field in fields:
        if field.json_name == json_name(field.name):
            field.ClearField("json_name")
