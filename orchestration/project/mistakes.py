"""Keeps the mistakes of a project that is served all the same, for terminal and ``tidelog status``.

If a declaration cannot be used, and nothing else of the project needs it, the rest still loads. In
its place the project gets an asset with the ``mistake`` in its metadata, which Dagster shows.
``Complaints`` writes the file that the supervisor reads and shows, one line per complaint.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock

import dagster as dg

from log_service.common.private_files import replace_private
from log_service.supervisor.complaints import MOMENTARY

MISTAKE = "tidelog/mistake"
"""The metadata of an asset that stands for an unusable declaration: the reason."""


class Complaints:
    """Keeps all current complaints, in parts by their subject. Every thread may use it.

    They are also written to ``file``. If that is None, they are kept in memory only.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._parts: dict[str, tuple[str, ...]] = {}
        self._lock = Lock()

    def replace(self, part: str, sentences: Sequence[str]) -> bool:
        """Replace the complaints of a part by ``sentences``, and return whether they differ.

        No sentences mean that all is well. Details that change while the problem stays, such as a
        time, come last in a sentence, after the separator ``MOMENTARY``.
        """
        lines = tuple(
            MOMENTARY.join(" ".join(part.split()) for part in one.split(MOMENTARY, 1))
            for one in sentences
        )
        with self._lock:
            if self._parts.get(part, ()) == lines:
                return False
            self._parts[part] = lines
            if self._file is not None:
                self._write(self._file)
            return True

    def _write(self, file: Path) -> None:
        """Write all complaints to the file, readable for its owner only.

        The error of an asset may quote records.
        """
        replace_private(
            file, "".join(f"{line}\n" for lines in self._parts.values() for line in lines)
        )


def mistaken_asset(key: dg.AssetKey, mistake: str, group_name: str) -> dg.AssetSpec:
    """Return the asset that takes the place of a declaration which cannot be used."""
    return dg.AssetSpec(
        key=key, description=mistake, group_name=group_name, metadata={MISTAKE: mistake}
    )


def mistakes(assets: Iterable[dg.AssetsDefinition]) -> list[str]:
    """Return the mistakes in the metadata of ``assets``, each once."""
    found = [
        metadata[MISTAKE]
        for asset in assets
        for metadata in asset.metadata_by_key.values()
        if MISTAKE in metadata
    ]
    return list(dict.fromkeys(str(getattr(one, "value", one)) for one in found))
