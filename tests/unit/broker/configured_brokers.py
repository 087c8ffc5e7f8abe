"""Brokers that are configured while they run."""

from collections.abc import Awaitable, Callable, Mapping

from log_service.broker.one_error import one_error
from tests.sim import World, sim_run
from tests.unit.broker.context import Story, running


def configured(story: Callable[[Story], Awaitable[None]], properties: Mapping[str, str]) -> None:
    """Tell a story of a node with these properties, named with dots."""

    async def main(world: World) -> None:
        async with running(world, **properties) as node:
            await story(node)

    with one_error():
        sim_run(1, main)
