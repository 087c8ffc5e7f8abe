"""The lake as a Dagster resource."""

from pathlib import Path

import dagster as dg

from orchestration.settings import load_settings
from orchestration.tables import Lake


class LakeResource(dg.ConfigurableResource[Lake]):
    """Opens the lake at ``root``; TIDELOG_LAKE where it is not given."""

    root: str | None = None

    def open(self) -> Lake:
        """Return the lake."""
        return Lake(Path(self.root).absolute() if self.root else load_settings().lake_root)
