"""Empties brokers, and removes an empty one from the cluster.

These are the steps of ``tidelog cluster drain | remove``, and of a Dagster job.

A serving broker is cordoned before its plan is made. It takes no new partitions until it is
unregistered. If it is not, it takes new ones again after the block of ``emptying``. A broker is
unregistered only once the cluster says that it has no replicas, does not vote, and has stopped.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass

from log_service.client.admin.admin import Admin
from log_service.cluster_operations.cordoning import Cordon, cordoned
from log_service.cluster_operations.membership import remove_voter
from log_service.cluster_operations.reading import read_layout
from log_service.cluster_operations.waiting import wait_until_empty, wait_until_fenced
from log_service.cluster_plans.layout import ClusterLayout
from log_service.cluster_plans.plan import Plan
from log_service.cluster_plans.plans import drain


@dataclass(frozen=True, slots=True, kw_only=True)
class Emptying:
    """A plan that empties brokers, the layout for which it is made, and the brokers' cordon."""

    layout: ClusterLayout
    plan: Plan
    cordon: Cordon


async def plan_emptying(
    admin: Admin,
    layout: ClusterLayout,
    broker_ids: Collection[int],
    cordon: Cordon,
    *,
    throttle_bytes: int | None,
    is_carried_out: bool,
) -> Emptying:
    """Plan to move all replicas off brokers.

    Brokers that serve are cordoned first, if the plan is to be carried out.

    Raises:
        PlanRefused: as ``cluster_plans.plans.drain``.
        KafkaError: the state of the cluster cannot be read after the cordon.
    """
    leaving = [
        each
        for each in dict.fromkeys(broker_ids)
        if is_carried_out and not layout.broker(each).is_fenced
    ]
    for broker_id in leaving:
        await cordon.begin(admin, broker_id)
    seen = await read_layout(admin) if leaving else layout
    return Emptying(
        layout=seen, plan=drain(seen, broker_ids, throttle_bytes=throttle_bytes), cordon=cordon
    )


@asynccontextmanager
async def emptying(
    admin: Admin,
    layout: ClusterLayout,
    broker_ids: Collection[int],
    *,
    throttle_bytes: int | None,
    is_carried_out: bool,
    say: Callable[[str], object],
) -> AsyncIterator[Emptying]:
    """Yield the plan of ``plan_emptying``, whose cordon ends with the block.

    ``say`` is called with a line for each request that the cluster refuses. Raises as
    ``plan_emptying``.
    """
    async with cordoned(admin, say) as cordon:
        yield await plan_emptying(
            admin,
            layout,
            broker_ids,
            cordon,
            throttle_bytes=throttle_bytes,
            is_carried_out=is_carried_out,
        )


async def forget(
    admin: Admin,
    broker_id: int,
    stop: Callable[[int], Awaitable[object]] | None,
    cordon: Cordon,
    say: Callable[[str], object] = str,
) -> str:
    """Take an empty broker out of the quorum, and unregister it if it has stopped.

    Return a summary. ``stop`` stops the broker's process for good. It is None if the caller cannot
    do that. Then the broker is unregistered only if it has stopped already.

    Raises:
        PlanRefused: the broker is not empty, or too few voters would be left without it.
        ClusterNotReady: the broker was stopped, but the cluster does not notice.
        KafkaError: the cluster refuses a step.
    """
    layout = await wait_until_empty(admin, broker_id)
    await remove_voter(admin, broker_id)
    if stop is not None:
        await stop(broker_id)
        await wait_until_fenced(admin, broker_id, say)
    elif not layout.broker(broker_id).is_fenced:
        return (
            f"broker {broker_id} is empty: stop it, and then: tidelog cluster remove {broker_id}"
            " --execute"
        )
    await admin.unregister_broker(broker_id)
    cordon.forgotten(broker_id)
    return f"broker {broker_id} is forgotten"
