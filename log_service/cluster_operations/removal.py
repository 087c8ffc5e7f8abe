"""Empties brokers, and removes an empty one from the cluster. These are the steps of ``tidelog
cluster drain | remove``, and of a job.

A broker that serves takes no new partitions from before its plan is made until it is forgotten, or stays. It is forgotten only once the
cluster says that it is empty, has ceased to vote, and has stopped.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from log_service.client.blocking.admin import BlockingAdmin
from log_service.cluster_operations.cordoning import Cordon, cordoned
from log_service.cluster_operations.membership import remove_voter
from log_service.cluster_operations.reading import read_layout
from log_service.cluster_operations.waiting import wait_until_empty, wait_until_fenced
from log_service.cluster_plans.layout import ClusterLayout
from log_service.cluster_plans.plan import Plan
from log_service.cluster_plans.plans import drain


@dataclass(frozen=True, slots=True, kw_only=True)
class Emptying:
    """The plan that empties brokers, the cluster that it is made for, and the cordon that holds meanwhile."""

    layout: ClusterLayout
    plan: Plan
    cordon: Cordon


@contextmanager
def emptying(
    admin: BlockingAdmin,
    layout: ClusterLayout,
    broker_ids: Collection[int],
    *,
    throttle_bytes: int | None,
    is_carried_out: bool,
    say: Callable[[str], object],
) -> Iterator[Emptying]:
    """Plan to move all replicas off brokers. Brokers that serve are cordoned until the block ends,
    where the plan is carried out.

    ``say`` is told what the cluster refused of the cordon.

    Raises:
        PlanRefused: as ``cluster_plans.plans.drain``.
        KafkaError: the cluster does not tell how it is once they are cordoned.
    """
    leaving = [each for each in dict.fromkeys(broker_ids) if is_carried_out and not layout.broker(each).is_fenced]
    with cordoned(admin, leaving, say) as cordon:
        seen = read_layout(admin) if leaving else layout
        yield Emptying(layout=seen, plan=drain(seen, broker_ids, throttle_bytes=throttle_bytes), cordon=cordon)


def remove_broker(
    admin: BlockingAdmin,
    layout: ClusterLayout,
    broker_id: int,
    *,
    throttle_bytes: int | None,
    is_carried_out: bool,
    carry_out: Callable[[ClusterLayout, Plan], bool],
    stop: Callable[[int], object] | None,
    say: Callable[[str], object],
) -> str:
    """Empty a broker and have the cluster forget it. Return a summary, or an empty text where the
    plan was only shown.

    ``carry_out`` shows the plan, carries it out where ``is_carried_out``, and returns whether the cluster is as the plan wants it. ``stop``
    stops the broker's process for good; it is None where that is not the caller's: the broker is forgotten only if it has stopped.

    Raises:
        PlanRefused: as ``cluster_plans.plans.drain``; or the broker is not empty, or too few voters would be left without it.
        ClusterNotReady: it was stopped, and the cluster does not notice.
        KafkaError: the cluster refuses a step.
    """
    with emptying(admin, layout, [broker_id], throttle_bytes=throttle_bytes, is_carried_out=is_carried_out, say=say) as found:
        if not (carry_out(found.layout, found.plan) and is_carried_out):
            return ""
        return forget(admin, broker_id, stop, found.cordon, say)


def forget(
    admin: BlockingAdmin, broker_id: int, stop: Callable[[int], object] | None, cordon: Cordon, say: Callable[[str], object] = str
) -> str:
    """Take an empty broker out of the quorum, and out of the cluster where it has stopped. Return a
    summary.

    Raises:
        As ``remove_broker`` once the plan is carried out.
    """
    layout = wait_until_empty(admin, broker_id)
    remove_voter(admin, broker_id)
    if stop is not None:
        stop(broker_id)
        wait_until_fenced(admin, broker_id, say)
    elif not layout.broker(broker_id).is_fenced:
        return f"broker {broker_id} is empty: stop it, and then: tidelog cluster remove {broker_id} --execute"
    admin.unregister_broker(broker_id)
    cordon.forgotten(broker_id)
    return f"broker {broker_id} is forgotten"
