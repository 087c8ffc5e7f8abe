"""Checks whether a broker may leave the cluster, and whether a node may begin or cease to vote.

It also takes a voter out of the quorum. Each check reads the cluster, changes nothing, and refuses
with a sentence that says what to do first.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress

import trio

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import ConfigResource, RaftVoter
from log_service.cluster_operations.reading import QUORUM_TIMEOUT_MS, quorum_of, read_quorum
from log_service.cluster_plans.health import QuorumState
from log_service.cluster_plans.layout import ClusterLayout, PlanRefused
from log_service.cluster_plans.leaving import down_voters, refuse_to_lose_majority
from log_service.common.errors import KafkaError
from log_service.common.features import DYNAMIC_QUORUM, KRAFT_VERSION

AUTO_JOIN_KEY = "controller.quorum.auto.join.enable"
JOIN_SECONDS = 6.0
"""The time in which a controller that joins by itself becomes a voter again.

It asks the leader every ``controller.quorum.fetch.timeout.ms``.
"""
LOOK_SECONDS = 0.25


async def refuse_unknown_brokers(
    admin: Admin, layout: ClusterLayout, broker_ids: Sequence[int]
) -> None:
    """Refuse ids of brokers that are not registered. The error names all of them.

    Raises:
        PlanRefused: some ids are not registered.
    """
    known = [broker.broker_id for broker in layout.brokers]
    unknown = [each for each in dict.fromkeys(broker_ids) if each not in known]
    if unknown:
        raise PlanRefused(await no_such_brokers(admin, unknown, known))


async def no_such_brokers(admin: Admin, unknown: Sequence[int], known: Sequence[int]) -> str:
    """Return a sentence about ids of which no broker is registered.

    It says which of them are controllers, and which brokers exist.
    """
    try:
        members = {
            each.node_id: each.is_voter
            for each in (await read_quorum(admin, QUORUM_TIMEOUT_MS)).members
        }
    except KafkaError:
        members = {}
    controllers = [each for each in unknown if members.get(each)]
    strange = [each for each in unknown if each not in controllers]
    sentences = [
        f"node {each} is a controller and no broker, so it has no replicas" for each in controllers
    ]
    if strange:
        sentences.append(
            f"there is no broker {strange[0]}"
            if len(strange) == 1
            else f"there are no brokers {', '.join(map(str, strange))}"
        )
    return f"{'; '.join(sentences)}; there are {', '.join(map(str, known)) or 'none'}"


async def refuse_removal(admin: Admin, layout: ClusterLayout, broker_id: int) -> dict[int, bool]:
    """Refuse to remove a broker that the cluster needs.

    Return whether each voter follows the leader, by id. It is empty if the broker is not a voter.

    Raises:
        PlanRefused: the broker is unknown, the last one, the last voter, a voter that only the
            nodes' files can take out, one that would join again, or one without which too few
            voters would be left.
    """
    await refuse_unknown_brokers(admin, layout, [broker_id])
    if len(layout.brokers) == 1:
        raise PlanRefused(f"broker {broker_id} is the last one: without it there is no cluster")
    quorum = await read_quorum(admin)
    known = _voter_ids(quorum)
    if broker_id not in known:
        return {}
    _refuse_last(known, broker_id)
    if not await _is_dynamic(admin):
        raise PlanRefused(
            f"node {broker_id} is a voter of a quorum that is fixed in the nodes' files"
            f" (controller.quorum.voters): empty it with tidelog cluster drain {broker_id}, and"
            " take it out of all files"
        )
    refuse_to_lose_majority(quorum, broker_id, layout.fenced)
    await _refuse_joining(admin, broker_id)
    return _following(quorum, layout.fenced)


async def refuse_voter(admin: Admin, cluster_id: str, voter: RaftVoter) -> dict[int, bool]:
    """Refuse to add a voter that the quorum would not take.

    Return whether each present voter follows the leader, by id. ``cluster_id`` is the cluster for
    which the voter's directory was formatted.

    Raises:
        PlanRefused: the voter belongs to another cluster, votes already, or does not run, or the
            quorum is fixed in the nodes' files.
    """
    found = (await admin.describe_cluster()).cluster_id
    if cluster_id != found:
        raise PlanRefused(
            f"node {voter.node_id} was formatted for cluster {cluster_id}, and this is cluster"
            f" {found}"
        )
    await _refuse_fixed_quorum(admin)
    quorum = await admin.describe_metadata_quorum()
    known = sorted({each.node_id for each in quorum.voters})
    if voter.node_id in known:
        raise PlanRefused(
            f"node {voter.node_id} is a voter already: the voters are {', '.join(map(str, known))}"
        )
    if not any(
        (each.node_id, each.directory_id) == (voter.node_id, voter.directory_id)
        for each in quorum.observers
    ):
        raise PlanRefused(
            f"node {voter.node_id} does not follow the metadata log: start it, and try again once"
            " tidelog cluster quorum shows it"
        )
    return _following(quorum_of(quorum))


async def refuse_voter_removal(admin: Admin, node_id: int) -> dict[int, bool]:
    """Refuse to remove a voter that the quorum needs.

    Return whether each voter follows the leader, by id.

    Raises:
        PlanRefused: the node is not a voter or the last one, it would join again, too few voters
            would be left, or the quorum is fixed in the nodes' files.
    """
    quorum = await read_quorum(admin)
    known = _voter_ids(quorum)
    if node_id not in known:
        raise PlanRefused(
            f"node {node_id} is not a voter: the voters are {', '.join(map(str, known))}"
        )
    _refuse_last(known, node_id)
    await _refuse_fixed_quorum(admin)
    fenced = await _fenced(admin)
    refuse_to_lose_majority(quorum, node_id, fenced)
    await _refuse_joining(admin, node_id)
    return _following(quorum, fenced)


async def remove_voter(admin: Admin, node_id: int) -> bool:
    """Take a node out of the metadata quorum. Return whether it was a voter.

    The voters are counted again, because one may have died while the broker was emptied.

    Raises:
        KafkaError: the quorum refuses, for example because another change of voters is under way.
        PlanRefused: the node is the last voter, or too few voters would be left.
    """
    found = await admin.describe_metadata_quorum()
    for voter in found.voters:
        if voter.node_id == node_id:
            _refuse_last(_voter_ids(quorum_of(found)), node_id)
            refuse_to_lose_majority(quorum_of(found), node_id, await _fenced(admin))
            await admin.remove_raft_voter(node_id, voter.directory_id)
            return True
    return False


async def refuse_undone_removal(admin: Admin, node_id: int) -> None:
    """Wait for a while, and refuse if a removed voter that still runs joins the quorum again.

    A node that is only a controller does not report whether it is configured to join by itself.
    So only the wait can tell.

    Raises:
        PlanRefused: the node is a voter again.
    """
    deadline = trio.current_time() + JOIN_SECONDS
    while trio.current_time() < deadline:
        quorum = await admin.describe_metadata_quorum()
        if any(each.node_id == node_id for each in quorum.voters):
            raise PlanRefused(
                f"node {node_id} was taken out, and is a voter again: {_joining_text(node_id)}"
            )
        if not any(each.node_id == node_id for each in quorum.observers):
            return
        await trio.sleep(LOOK_SECONDS)


async def _refuse_joining(admin: Admin, node_id: int) -> None:
    """Refuse to take out a running broker that is configured to join the quorum by itself.

    It would vote again some seconds later.

    Raises:
        PlanRefused: the broker would join again.
    """
    if not any(
        each.node_id == node_id and not each.is_fenced for each in await admin.describe_brokers()
    ):
        return
    resource = ConfigResource.broker(node_id)
    with suppress(KafkaError):
        found = (await admin.describe_configs([resource]))[resource].get(AUTO_JOIN_KEY)
        if found is not None and found.value == "true":
            raise PlanRefused(_joining_text(node_id))


def _joining_text(node_id: int) -> str:
    return (
        f"node {node_id} has {AUTO_JOIN_KEY}=true in its file, and joins the quorum by itself for"
        " as long as it runs: stop it first, or set that to false and start it again"
    )


def _voter_ids(quorum: QuorumState) -> list[int]:
    return sorted({voter.node_id for voter in quorum.voters})


def _following(quorum: QuorumState, fenced: Collection[int] = ()) -> dict[int, bool]:
    down = down_voters(quorum, fenced)
    return {each: each not in down for each in _voter_ids(quorum)}


async def _fenced(admin: Admin) -> list[int]:
    return [each.node_id for each in await admin.describe_brokers() if each.is_fenced]


def _refuse_last(voter_ids: list[int], node_id: int) -> None:
    if voter_ids == [node_id]:
        raise PlanRefused(
            f"node {node_id} is the last voter of the metadata quorum: add another voter first"
        )


async def _is_dynamic(admin: Admin) -> bool:
    return (await admin.describe_features()).finalized.get(KRAFT_VERSION, 0) >= DYNAMIC_QUORUM


async def _refuse_fixed_quorum(admin: Admin) -> None:
    if not await _is_dynamic(admin):
        raise PlanRefused(
            "the quorum is fixed in the nodes' files (controller.quorum.voters): its voters change"
            " with kraft.version 1 only (tidelog cluster features --set kraft.version=1)"
        )
