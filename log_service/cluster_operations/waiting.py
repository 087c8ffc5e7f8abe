"""Waits until a broker has reached a state, or until all replicas are in sync.

A broker may have to serve, to be noticed as down, or to have no replica. Every wait has a deadline.
If it passes, the error says what was missing.
"""

from collections.abc import Callable

import trio

from log_service.client.admin.admin import Admin
from log_service.cluster_operations.reading import read_layout, read_state
from log_service.cluster_plans.layout import ClusterLayout, PlanRefused
from log_service.cluster_plans.leaving import refuse_to_lose_replicas
from log_service.cluster_plans.rolling import obstacles
from log_service.common.errors import KafkaError, TidelogError

JOIN_SECONDS = 60.0
SYNC_SECONDS = 600.0
EMPTY_SECONDS = 5.0
"""How long a broker may take to report no replica.

For a moment it may still report the state before the last move.
"""
POLL_SECONDS = 0.5
TOLD_AFTER_SECONDS = 3.0
"""A longer wait reports its reason, because a person could not tell it from a command that hangs.
"""


class ClusterNotReady(TidelogError):  # noqa: N818 - it says what happened
    """The cluster did not reach the awaited state. The text says what was missing."""


Say = Callable[[str], object]
"""Called once with the reason of a long wait."""


async def wait_until_serving(admin: Admin, broker_id: int, say: Say = str) -> None:
    """Wait until a broker is registered and not fenced.

    Raises:
        ClusterNotReady: the broker is not serving after ``JOIN_SECONDS``.
    """
    aim = f"broker {broker_id} serves"
    await _wait(
        admin,
        broker_id,
        lambda found: found is False,
        say,
        aim=aim,
        failed="did not join the cluster",
    )


async def wait_until_fenced(admin: Admin, broker_id: int, say: Say = str) -> None:
    """Wait until the cluster has noticed that a broker is down.

    Raises:
        ClusterNotReady: the cluster has not noticed after ``JOIN_SECONDS``.
    """
    aim = f"the cluster notices that broker {broker_id} is down"
    await _wait(
        admin,
        broker_id,
        lambda found: found is not False,
        say,
        aim=aim,
        failed="still serves, as the cluster says",
    )


async def wait_until_empty(admin: Admin, broker_id: int) -> ClusterLayout:
    """Wait until an emptied broker has no replica, and return the layout of the cluster then.

    A plan that is carried out does not prove it, because new topics or cancelled moves may leave
    replicas on the broker. Only the cluster itself knows that none is left.

    Raises:
        PlanRefused: the broker still has replicas after ``EMPTY_SECONDS``.
        KafkaError: the cluster's state cannot be read.
    """
    deadline = trio.current_time() + EMPTY_SECONDS
    while True:
        layout = await read_layout(admin)
        try:
            refuse_to_lose_replicas(layout, broker_id)
        except PlanRefused:
            if trio.current_time() > deadline:
                raise
        else:
            return layout
        await trio.sleep(POLL_SECONDS)


async def _wait(
    admin: Admin,
    broker_id: int,
    is_wanted: Callable[[bool | None], bool],
    say: Say,
    *,
    aim: str,
    failed: str,
) -> None:
    """Wait for up to ``JOIN_SECONDS`` until ``is_wanted`` accepts the state of a broker.

    The state is True for fenced, False for serving, and None if the broker is not registered.
    ``aim`` and ``failed`` are parts of the sentences about the wait and about its failure.

    Raises:
        ClusterNotReady: the broker has not reached the state in time.
    """
    begun, is_said = trio.current_time(), False
    while True:
        problem = f"broker {broker_id} {failed} after {JOIN_SECONDS:.0f} s"
        try:
            brokers = {
                broker.node_id: broker.is_fenced for broker in await admin.describe_brokers()
            }
            if is_wanted(brokers.get(broker_id)):
                return
        except KafkaError as error:  # the broker that was asked may be the one that has just gone
            problem = f"broker {broker_id} cannot be asked about: {error}"
        waited_seconds = trio.current_time() - begun
        if waited_seconds > JOIN_SECONDS:
            raise ClusterNotReady(problem)
        if waited_seconds > TOLD_AFTER_SECONDS and not is_said:
            is_said = True
            say(f"waiting for up to {JOIN_SECONDS:.0f} s until {aim}")
        await trio.sleep(POLL_SECONDS)


async def wait_for_sync(
    admin: Admin,
    broker_id: int,
    wait_seconds: float = SYNC_SECONDS,
    say: Say = str,
    *,
    is_restarted: bool = False,
) -> None:
    """Wait until the cluster works without a broker that is to be restarted, or was restarted.

    ``cluster_plans.rolling`` has the conditions. In addition all other brokers must respond.
    ``is_restarted`` only changes the texts.

    Raises:
        ClusterNotReady: they are not met within ``wait_seconds``. The text says why.
    """
    aim = "until all is in sync again" if is_restarted else f"before broker {broker_id} restarts"
    failed = "not all is in sync again" if is_restarted else f"broker {broker_id} is not restarted"
    begun, is_said = trio.current_time(), False
    while True:
        try:
            state = await read_state(admin)
            found = obstacles(state.layout, state.quorum, broker_id)
            found += [
                f"broker {each} does not respond" for each in state.silent if each != broker_id
            ]
        except KafkaError as error:
            found = [str(error)]
        if not found:
            return
        waited_seconds = trio.current_time() - begun
        if waited_seconds > wait_seconds:
            raise ClusterNotReady(f"{failed}: {'; '.join(found)}")
        if waited_seconds > TOLD_AFTER_SECONDS and not is_said:
            is_said = True
            say(f"waiting for up to {wait_seconds:.0f} s {aim}: {'; '.join(found)}")
        await trio.sleep(POLL_SECONDS)
