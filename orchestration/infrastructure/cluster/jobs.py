"""Jobs that operate the cluster: rebalance, add, remove, roll.

Each only shows its plan unless ``dry_run`` is false in its config. The plans are those of ``tidelog
cluster``. If a run is cancelled, the cluster finishes the moves that have begun, with their
throttle, as after Ctrl-C of that command. Brokers are started, restarted and stopped only if
``tidelog up`` runs the cluster's nodes on the data directory.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import dagster as dg
from pydantic import Field

from log_service.client import BlockingAdmin
from log_service.cluster_operations.cordoning import Cordon
from log_service.cluster_operations.membership import refuse_removal, refuse_unknown_brokers
from log_service.cluster_operations.moving import Mover
from log_service.cluster_operations.reading import read_layout, read_state
from log_service.cluster_operations.removal import forget, plan_emptying
from log_service.cluster_operations.rolling import RollingRestart, brokers_to_restart
from log_service.cluster_operations.waiting import ClusterNotReady, wait_until_serving
from log_service.cluster_plans import plans
from log_service.cluster_plans.layout import ClusterLayout, PlanRefused
from log_service.cluster_plans.plan import Plan
from log_service.common.errors import ConfigError, StorageError
from log_service.supervisor.control import ControlRefused
from log_service.supervisor.installation import Installation
from log_service.supervisor.nodes import ClusterSpec
from orchestration.log_client.protocol import LogServiceError
from orchestration.resources.log_service import LogServiceResource
from orchestration.settings import load_settings

POLL_S = 1.0
TOLD_EVERY_S = 10.0
DEFAULT_THROTTLE = 50 << 20
INTERNAL_FACTOR = 3
SHOWN_MOVES = 200


class PlanConfig(dg.Config):
    """The config of every job that moves replicas.

    ``throttle_bytes`` bounds the moves per second and broker, and 0 means unlimited.
    """

    dry_run: bool = True
    throttle_bytes: int = DEFAULT_THROTTLE

    @property
    def throttle(self) -> int | None:
        """The throttle in bytes per second and broker, None if unlimited."""
        return self.throttle_bytes or None


class RebalanceConfig(PlanConfig):
    """The config of a rebalance.

    ``even_bytes`` also makes the bytes per broker equal, to within a tenth of the mean.
    """

    even_bytes: bool = False


class AddConfig(PlanConfig):
    """The config of moving replicas to ``brokers`` that have joined.

    If it names no brokers, it means all brokers without replicas. ``start`` first starts one more
    node of ``tidelog up``.
    """

    brokers: list[int] = Field(default_factory=list)
    start: bool = False


class RemoveConfig(PlanConfig):
    """The config of removing ``broker``."""

    broker: int


class RollConfig(dg.Config):
    """The config of restarting ``brokers``. Without names it restarts all."""

    dry_run: bool = True
    brokers: list[int] = Field(default_factory=list)


def cluster_jobs() -> list[dg.JobDefinition]:
    """Return the jobs."""
    return [cluster_rebalance, cluster_add, cluster_remove, cluster_roll]


@contextmanager
def _refusals() -> Iterator[None]:
    """Fail the run without a retry if cluster or supervisor refuses, or does not respond.

    A retry would fail again.
    """
    try:
        yield
    except (PlanRefused, ControlRefused, ClusterNotReady, LogServiceError, StorageError) as error:
        raise dg.Failure(description=str(error), allow_retries=False) from error


def _done(
    context: dg.OpExecutionContext,
    admin: BlockingAdmin,
    layout: ClusterLayout,
    plan: Plan,
    *,
    is_dry: bool,
) -> bool:
    """Show a plan, and carry it out to its end unless this is a dry run.

    Return whether the cluster is as the plan wants it.

    :raises PlanRefused: a broker lacks room for its replicas. Nothing was changed.
    """
    problems = plans.lack_of_room(layout, plan)
    moves = [
        f"{move.where}: {','.join(map(str, move.before))} -> {','.join(map(str, move.after))}"
        for move in plan.moves
    ]
    context.add_output_metadata(
        {
            "moves": len(plan.moves),
            "copied_replicas": plan.copied_replicas,
            "copied_bytes": plan.copied_bytes,
            "expected_seconds": plan.expected_seconds or 0.0,
            "dry_run": is_dry,
            "plan": dg.MetadataValue.md(
                "\n".join(f"- {line}" for line in [*plan.notes, *problems, *moves[:SHOWN_MOVES]])
                or "nothing to do"
            ),
        }
    )
    if problems and not is_dry:
        raise PlanRefused(f"nothing was changed: {problems[0]}")
    if is_dry or plan.is_empty:
        return plan.is_empty
    _carry_out(context, admin, Mover(plan))
    return True


def _carry_out(context: dg.OpExecutionContext, admin: BlockingAdmin, mover: Mover) -> None:
    admin.run(mover.begin)
    reported_at = time.monotonic()
    progress = admin.run(mover.step)
    while not mover.is_done:
        time.sleep(POLL_S)
        progress = admin.run(mover.step)
        if time.monotonic() - reported_at > TOLD_EVERY_S:
            context.log.info(
                "%d of %d moves, %d of %d bytes",
                progress.complete,
                progress.total,
                progress.copied_bytes,
                progress.total_bytes,
            )
            reported_at = time.monotonic()
    admin.run(mover.finish)
    for problem in admin.run(mover.problems):
        context.log.warning("%s", problem)


@dg.op(description="Even out replicas and leaders")
def rebalance(
    context: dg.OpExecutionContext, config: RebalanceConfig, log_service: LogServiceResource
) -> None:
    """Even out replicas and leaders."""
    with _refusals(), log_service.open_admin() as admin:
        layout = admin.run(read_layout)
        plan = plans.rebalance(
            layout,
            throttle_bytes=config.throttle,
            byte_tolerance=0.1 if config.even_bytes else None,
        )
        _done(context, admin, layout, plan, is_dry=config.dry_run)


@dg.op(description="Give new brokers their share")
def add(context: dg.OpExecutionContext, config: AddConfig, log_service: LogServiceResource) -> None:
    """Give new brokers their share."""
    with _refusals(), log_service.open_admin() as admin:
        layout = admin.run(read_layout)
        admin.run(refuse_unknown_brokers, layout, config.brokers)
        if config.start:
            layout = _with_one_more(context, admin, layout, config)
        plan = plans.join(layout, config.brokers, INTERNAL_FACTOR, throttle_bytes=config.throttle)
        _done(context, admin, layout, plan, is_dry=config.dry_run)


def _with_one_more(
    context: dg.OpExecutionContext, admin: BlockingAdmin, layout: ClusterLayout, config: AddConfig
) -> ClusterLayout:
    """Start one more node, and return the layout of the cluster with it.

    A dry run starts none, and returns the layout with an assumed node.
    """
    if config.brokers:
        raise PlanRefused("start starts a broker with the next id: name no brokers with it")
    nodes = _own_nodes(admin)
    if nodes is None:
        raise PlanRefused(
            f"{_no_installation()}, so this job cannot start a broker: start it where it is to run,"
            " and run the job again without start"
        )
    if config.dry_run:
        return layout.with_one_more(nodes.next_node_id, nodes.rack or None)
    node_id = admin.run(lambda _: _installation().start_one_more())
    admin.run(wait_until_serving, node_id, context.log.info)
    context.log.info("broker %d has joined", node_id)
    return admin.run(read_layout)


@dg.op(description="Empty a broker and have the cluster forget it")
def remove(
    context: dg.OpExecutionContext, config: RemoveConfig, log_service: LogServiceResource
) -> None:
    """Move all replicas off a broker, stop the broker, and unregister it.

    If it is running, ``tidelog up`` has to run it on the data directory, else nothing is changed.
    """
    with _refusals(), log_service.open_admin() as admin:
        layout = admin.run(read_layout)
        admin.run(refuse_removal, layout, config.broker)
        is_running = not layout.broker(config.broker).is_fenced
        if is_running:
            refuse_to_stop(admin, config.broker)
        stop = _installation().stop_for_good if is_running else None
        cordon = Cordon(context.log.warning)
        try:
            found = admin.run(
                plan_emptying,
                layout,
                [config.broker],
                cordon,
                throttle_bytes=config.throttle,
                is_carried_out=not config.dry_run,
            )
            if (
                _done(context, admin, found.layout, found.plan, is_dry=config.dry_run)
                and not config.dry_run
            ):
                context.log.info(
                    "%s", admin.run(forget, config.broker, stop, cordon, context.log.warning)
                )
        finally:
            admin.run(cordon.take_back)


@dg.op(description="Restart brokers one by one")
def restart(
    context: dg.OpExecutionContext, config: RollConfig, log_service: LogServiceResource
) -> None:
    """Restart brokers one by one, each while the cluster can be without it."""
    with _refusals(), log_service.open_admin() as admin:
        state = admin.run(read_state)
        order = admin.run(brokers_to_restart, state, config.brokers)
        context.add_output_metadata(
            {"order": ", ".join(map(str, order)), "dry_run": config.dry_run}
        )
        if not config.dry_run:
            _refuse_to_restart(admin, order)
            rolling = RollingRestart(
                state, order, _installation().restart, lambda text: context.log.info("%s", text)
            )
            try:
                admin.run(rolling.run)
            finally:
                for line in admin.run(rolling.left_behind):
                    context.log.info("%s", line)


def _own_nodes(admin: BlockingAdmin) -> ClusterSpec | None:
    """Return the nodes of this installation, None if it does not run the cluster of ``admin``."""
    return _installation().nodes_of(admin.describe_cluster().cluster_id)


def _installation() -> Installation:
    return Installation(load_settings().data_directory)


def _no_installation() -> str:
    return f"no tidelog up on {_installation().data} runs nodes of this cluster"


def _refuse_to_restart(admin: BlockingAdmin, order: Sequence[int]) -> None:
    """Refuse to restart brokers that the supervisor of this installation does not run.

    Call it before the first restart.

    :raises PlanRefused: names these brokers.
    """
    nodes = _own_nodes(admin)
    own = {node.node_id for node in nodes.nodes} if nodes is not None else set()
    strange = [each for each in sorted(order) if each not in own]
    if strange:
        which = (
            f"broker {strange[0]} is not a node"
            if len(strange) == 1
            else f"brokers {', '.join(map(str, strange))} are not nodes"
        )
        raise PlanRefused(
            f"{which} of a tidelog up on {_installation().data}, so this job cannot restart"
            f" {'it' if len(strange) == 1 else 'them'}: see tidelog cluster roll --command. Nothing"
            " was restarted"
        )


def refuse_to_stop(admin: BlockingAdmin, broker_id: int) -> None:
    """Refuse to stop a serving broker that this installation's supervisor cannot stop for good.

    Call it before the first change.

    :raises PlanRefused: no ``tidelog up`` on the data directory runs it, or the files of all nodes
        name it as a controller.
    """
    nodes = _own_nodes(admin)
    if nodes is None or all(node.node_id != broker_id for node in nodes.nodes):
        raise PlanRefused(
            f"broker {broker_id} serves, and no tidelog up on {_installation().data} runs it, so"
            f" this job cannot stop it: empty it with tidelog cluster drain {broker_id} --execute,"
            " stop it, and run the job again"
        )
    try:
        nodes.without(broker_id)
    except ConfigError as error:
        raise PlanRefused(str(error)) from error


@dg.job(description="Even out replicas and leaders; a dry run unless dry_run is false")
def cluster_rebalance() -> None:
    """Even out replicas and leaders."""
    rebalance()


@dg.job(description="Give new brokers their share; a dry run unless dry_run is false")
def cluster_add() -> None:
    """Give new brokers their share."""
    add()


@dg.job(
    description="Empty a broker and have the cluster forget it; a dry run unless dry_run is false"
)
def cluster_remove() -> None:
    """Empty a broker and have the cluster forget it."""
    remove()


@dg.job(description="Restart brokers one by one; a dry run unless dry_run is false")
def cluster_roll() -> None:
    """Restart brokers one by one."""
    restart()
