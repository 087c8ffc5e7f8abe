"""A REST proxy in a process of its own, as ``tidelog rest serve`` runs it."""

from tests.helpers.registry_process import RegistryProcess


class RestProcess(RegistryProcess):
    """One proxy. It keeps its port when it starts again."""

    kind = "rest"
    servers_key = "bootstrap.servers"
