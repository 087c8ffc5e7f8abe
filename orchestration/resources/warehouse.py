"""The warehouse as a Dagster resource."""

from pathlib import Path

import dagster as dg
from pydantic import PrivateAttr

from orchestration.lake.tables import Lake
from orchestration.resources.declared import accept, refused_config
from orchestration.settings import load_settings
from orchestration.warehouse.store import Warehouse


class WarehouseResource(dg.ConfigurableResource[Warehouse]):
    """Opens the marts in ``directory`` over the lake at ``lake_root``.

    The defaults are those of TIDELOG_WAREHOUSE and TIDELOG_LAKE.
    """

    directory: str | None = None
    lake_root: str | None = None

    _refusal: str = PrivateAttr(default="")

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Note whether the run's config names another place, which ``open`` refuses."""
        self._refusal = refused_config(
            context,
            "warehouse",
            "TIDELOG_WAREHOUSE, or WarehouseResource(directory=...) among its resources,",
        )

    def open(self) -> Warehouse:
        """Return the warehouse.

        :raises SettingsError: the run's config names another warehouse.
        """
        accept(self._refusal)
        settings = load_settings()
        directory = (
            Path(self.directory).absolute() if self.directory else settings.warehouse_directory
        )
        return Warehouse(
            directory,
            Lake(Path(self.lake_root).absolute() if self.lake_root else settings.lake_root),
        )
