"""Flows for the tests of the mirror's decisions."""

from log_service.mirror.settings import FlowSettings, MirrorSettings


def flows_of(*lines: str, aliases: str = "A, B") -> tuple[FlowSettings, ...]:
    """The flows that a file with these lines asks for."""
    return settings_of(*lines, aliases=aliases).flows


def settings_of(*lines: str, aliases: str = "A, B") -> MirrorSettings:
    """Return the settings of a file with these lines. The function adds where each cluster is."""
    servers = [
        f"{alias.strip()}.bootstrap.servers = 127.0.0.1:{9_000 + number}"
        for number, alias in enumerate(aliases.split(","))
    ]
    return MirrorSettings.of(
        "\n".join([f"clusters = {aliases}", *servers, *lines]), "mirror.properties"
    )
