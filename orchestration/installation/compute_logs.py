"""Writes the output of a run's process into the files that Dagster's UI shows.

Dagster's own manager of local logs also mirrors the output into the code server's log. It starts a
``tail -F`` and a Python process that watches it, for standard output and for standard error. Four
processes per run cost more than a short run, and they outlive a killed one. Here the run's process
only writes into the files. They lie where Dagster's own manager puts them.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dagster._core.execution.compute_logs import redirect_to_file
from dagster._core.storage.compute_log_manager import CapturedLogContext
from dagster._core.storage.local_compute_log_manager import LocalComputeLogManager
from dagster._serdes import ConfigurableClassData

STORAGE_DIRECTORY = "storage"


class FileComputeLogs(LocalComputeLogManager):
    """Dagster's local log manager without the mirror. ``base_dir`` is the instance's directory."""

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> "FileComputeLogs":
        """Return the manager of an instance."""
        base = Path(config_value["base_dir"]) / STORAGE_DIRECTORY
        return cls(inst_data=inst_data, **{**config_value, "base_dir": str(base)})

    @contextmanager
    def capture_logs(self, log_key: Sequence[str]) -> Iterator[CapturedLogContext]:
        """Write the output of the process into the files of ``log_key``."""
        files = self.get_log_metadata(log_key)
        assert files.stdout_location is not None
        assert files.stderr_location is not None
        out, err = Path(files.stdout_location), Path(files.stderr_location)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.touch()
        err.touch()
        with redirect_to_file(sys.stdout, str(out)), redirect_to_file(sys.stderr, str(err)):
            yield CapturedLogContext(log_key)
        Path(self.complete_artifact_path(log_key)).touch()  # type: ignore[no-untyped-call]
