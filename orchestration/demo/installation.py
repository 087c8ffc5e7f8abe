"""The demo's installation: broker, Spark, code server and daemon on free ports.

It runs under the same supervisor as ``tidelog up``, without a webserver.
"""

from dataclasses import replace
from pathlib import Path

from log_service.common.listeners import LOOPBACK
from log_service.supervisor.components import BROKER, broker_component
from log_service.supervisor.protection import OPERATOR, PLATFORM, protect
from log_service.supervisor.spec import InstallationSpec, ServiceContext
from orchestration.installation.services import WEB, components, free_port


def installation(
    data_directory: Path, project_directory: Path, *, is_secure: bool = False
) -> InstallationSpec:
    """Return the demo's components, all of which have to start.

    ``is_secure`` protects the broker as ``tidelog up --secure`` does.

    :raises ConfigError: ``project_directory`` is not a project, or there is no Java for Spark.
    """
    context = ServiceContext(
        data_directory=data_directory.resolve(),
        project_directory=project_directory.resolve(),
        host=LOOPBACK,
        bootstrap_servers=f"{LOOPBACK}:{free_port()}",
        ui_port=free_port(),
        spark_port=free_port(),
    )
    protection = protect(context.data_directory, LOOPBACK, [BROKER]) if is_secure else None
    if protection is not None:
        context = replace(
            context,
            client_config=protection.client_file(PLATFORM),
            operator_config=protection.client_file(OPERATOR),
        )
    own = own_places(context.data_directory)
    chosen = [
        replace(one, environment={**one.environment, **own}, is_essential=True)
        for one in components(context)
        if one.name != WEB
    ]
    return InstallationSpec(
        context=context, components=(broker_component(context, protection=protection), *chosen)
    )


def own_places(data_directory: Path) -> dict[str, str]:
    """Return settings that keep all files in the demo's directory, despite the environment."""
    return {
        "TIDELOG_LAKE": str(data_directory / "lake"),
        "TIDELOG_WAREHOUSE": str(data_directory / "warehouse"),
        "TIDELOG_SQL_URL": f"sqlite:///{data_directory / 'reference.db'}",
    }
