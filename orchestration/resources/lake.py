"""The lake as a Dagster resource."""

from pathlib import Path

import dagster as dg
from pydantic import PrivateAttr

from orchestration.lake.tables import Lake
from orchestration.resources.declared import accept, refused_config
from orchestration.settings import load_settings


class LakeResource(dg.ConfigurableResource[Lake]):
    """Opens the lake at ``root``, by default that of TIDELOG_LAKE."""

    root: str | None = None

    _refusal: str = PrivateAttr(default="")

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Note whether the run's config names another place, which ``open`` refuses."""
        self._refusal = refused_config(
            context, "lake", "TIDELOG_LAKE, or LakeResource(root=...) among its resources,"
        )

    def open(self) -> Lake:
        """Return the lake.

        :raises SettingsError: the run's config names another lake.
        """
        accept(self._refusal)
        return Lake(Path(self.root).absolute() if self.root else load_settings().lake_root)
