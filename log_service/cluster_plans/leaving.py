"""What a cluster loses when it forgets a broker: what is on it, and why one that serves is not forgotten.

A broker that is forgotten while its process runs does not register again by itself, so its partitions stay without it until it restarts.
"""

from log_service.cluster_plans.layout import ClusterLayout, PlanRefused

MAX_NAMED = 3


def what_is_on(layout: ClusterLayout, broker_id: int) -> str:
    """Return what a broker leads and holds, and the partitions of which no other broker has every record."""
    held = [each for each in layout.partitions if broker_id in each.replicas]
    if not held:
        return "no replica"
    led = sum(each.leader == broker_id for each in held)
    alone = [each for each in held if each.isr == (broker_id,)]
    parts = [f"{_counted(len(held), 'replica')}"]
    if led:
        parts.append(f"the leaders of {_counted(led, 'partition')}")
    if alone:
        names = ", ".join(str(each.where) for each in alone[:MAX_NAMED])
        more = f" and {len(alone) - MAX_NAMED} more" if len(alone) > MAX_NAMED else ""
        parts.append(f"the only replica in sync of {_counted(len(alone), 'partition')} ({names}{more})")
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]


def refuse_to_forget(layout: ClusterLayout, broker_id: int) -> None:
    """Refuse to forget a broker that is there.

    Raises:
        PlanRefused: it is unknown, or it serves.
    """
    if not layout.broker(broker_id).is_fenced:
        raise PlanRefused(
            f"broker {broker_id} serves, with {what_is_on(layout, broker_id)}: empty it and take it out with "
            f"tidelog cluster remove {broker_id} --execute; if it has just stopped, wait until tidelog cluster status calls it fenced"
        )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
