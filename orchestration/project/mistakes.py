"""What is wrong with a project that is served all the same: mistakes that were set aside, for the terminal and ``tidelog status``.

A declaration that cannot be used, and that nothing else of the project needs, keeps nothing else from loading: it leaves an asset with its
``mistake`` behind, which Dagster shows. ``Troubles`` is the file that the supervisor passes on, a line for each trouble. Decides nothing
about what happens then.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock

import dagster as dg

from log_service.common.private_files import replace_private

MISTAKE = "tidelog/mistake"
"""The metadata of an asset that stands for a declaration which cannot be used: why."""


class Troubles:
    """All that is wrong now, in parts that are told apart; ``file`` None: they are kept and not told. For any thread."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._parts: dict[str, tuple[str, ...]] = {}
        self._lock = Lock()

    def tell(self, part: str, sentences: Sequence[str]) -> bool:
        """Replace what was wrong with a part by ``sentences``, none where all is well; returns whether that is news."""
        told = tuple(" ".join(one.split()) for one in sentences)
        with self._lock:
            if self._parts.get(part, ()) == told:
                return False
            self._parts[part] = told
            if self._file is not None:
                self._write(self._file)
            return True

    def _write(self, file: Path) -> None:
        """Replace the file by one for its owner alone: what an asset failed with may quote records."""
        replace_private(file, "".join(f"{line}\n" for lines in self._parts.values() for line in lines))


def mistaken_asset(key: dg.AssetKey, mistake: str, group_name: str) -> dg.AssetSpec:
    """Return the asset that stands for a declaration which cannot be used."""
    return dg.AssetSpec(key=key, description=mistake, group_name=group_name, metadata={MISTAKE: mistake})


def mistakes(assets: Iterable[dg.AssetsDefinition]) -> list[str]:
    """Return the mistakes that ``assets`` stand for, each once."""
    found = [metadata[MISTAKE] for asset in assets for metadata in asset.metadata_by_key.values() if MISTAKE in metadata]
    return list(dict.fromkeys(str(getattr(one, "value", one)) for one in found))
