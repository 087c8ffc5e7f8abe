"""The demo's installation: broker, Spark, code server and daemon on free ports, through the same supervisor as ``tidelog up``. No
webserver.
"""

from pathlib import Path

from log_service.supervisor.components import broker_component
from log_service.supervisor.spec import InstallationSpec, ServiceContext
from orchestration.services import LOOPBACK, WEB, components, free_port


def installation(data_directory: Path, project_directory: Path) -> InstallationSpec:
    """Return what the demo runs.

    :raises ValueError: ``project_directory`` is no project.
    """
    context = ServiceContext(
        data_directory=data_directory.resolve(),
        project_directory=project_directory.resolve(),
        host=LOOPBACK,
        bootstrap_servers=f"{LOOPBACK}:{free_port()}",
        ui_port=free_port(),
        spark_port=free_port(),
    )
    chosen = [broker_component(context), *(one for one in components(context) if one.name != WEB)]
    return InstallationSpec(context=context, components=tuple(chosen))
