"""Jobs that operate the cluster: rebalance, add, remove, roll. Each only shows its plan unless ``dry_run`` is false in its config.

The plans are those of ``tidelog cluster``. A run that is cancelled leaves the moves that are under way to the cluster, throttled, as Ctrl-C
does there. Brokers are restarted, and stopped, only where ``tidelog up`` runs them.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import dagster as dg
from pydantic import Field

from log_service.client import BlockingAdmin
from log_service.cluster_operations.membership import refuse_removal, refuse_unknown_brokers, remove_voter
from log_service.cluster_operations.moving import Mover
from log_service.cluster_operations.reading import read_layout, read_state
from log_service.cluster_operations.rolling import RollingRestart
from log_service.cluster_operations.waiting import ClusterNotReady, wait_until_fenced
from log_service.cluster_plans import plans
from log_service.cluster_plans.layout import ClusterLayout, PlanRefused
from log_service.cluster_plans.plan import Plan
from log_service.cluster_plans.rolling import roll_order
from log_service.common.errors import ConfigError
from log_service.supervisor.control import REMOVE, RESTART, ControlRefused, ControlRequest, ask
from log_service.supervisor.nodes import read_cluster
from log_service.supervisor.state import is_locked
from orchestration.log_client import LogServiceError
from orchestration.resources.log_service import LogServiceResource
from orchestration.settings import load_settings

POLL_S = 1.0
TOLD_EVERY_S = 10.0
DEFAULT_THROTTLE = 50 << 20
CONTROL_S = 180.0
INTERNAL_FACTOR = 3
SHOWN_MOVES = 200


class PlanConfig(dg.Config):
    """What every plan is told. ``throttle_bytes`` a second for each broker; 0 is none."""

    dry_run: bool = True
    throttle_bytes: int = DEFAULT_THROTTLE

    @property
    def throttle(self) -> int | None:
        """The throttle, None for none."""
        return self.throttle_bytes or None


class RebalanceConfig(PlanConfig):
    """``even_bytes``: even out bytes, too, to within a tenth of the mean."""

    even_bytes: bool = False


class AddConfig(PlanConfig):
    """``brokers`` that have joined; all that have no replicas where none is named."""

    brokers: list[int] = Field(default_factory=list)


class RemoveConfig(PlanConfig):
    """``broker`` that is to leave."""

    broker: int


class RollConfig(dg.Config):
    """``brokers`` to restart; all where none is named."""

    dry_run: bool = True
    brokers: list[int] = Field(default_factory=list)


def cluster_jobs() -> list[dg.JobDefinition]:
    """Return the jobs."""
    return [cluster_rebalance, cluster_add, cluster_remove, cluster_roll]


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn what cannot be into the run's failure, without trying again: it would be refused again."""
    try:
        yield
    except (PlanRefused, ControlRefused, ClusterNotReady, LogServiceError) as error:
        raise dg.Failure(description=str(error), allow_retries=False) from error


def _done(context: dg.OpExecutionContext, admin: BlockingAdmin, layout: ClusterLayout, plan: Plan, *, is_dry: bool) -> bool:
    """Show a plan and carry it out unless this is a dry run; return whether the cluster is as the plan wants it."""
    problems = plans.lack_of_room(layout, plan)
    moves = [f"{move.where}: {','.join(map(str, move.before))} -> {','.join(map(str, move.after))}" for move in plan.moves]
    context.add_output_metadata(
        {
            "moves": len(plan.moves),
            "copied_replicas": plan.copied_replicas,
            "copied_bytes": plan.copied_bytes,
            "expected_seconds": plan.expected_seconds or 0.0,
            "dry_run": is_dry,
            "plan": dg.MetadataValue.md(
                "\n".join(f"- {line}" for line in [*plan.notes, *problems, *moves[:SHOWN_MOVES]]) or "nothing to do"
            ),
        }
    )
    if problems and not is_dry:
        raise PlanRefused(f"nothing was changed: {problems[0]}")
    if is_dry or plan.is_empty:
        return plan.is_empty
    _carry_out(context, Mover(admin, plan))
    return True


def _carry_out(context: dg.OpExecutionContext, mover: Mover) -> None:
    mover.begin()
    told_at = time.monotonic()
    progress = mover.step()
    while not mover.is_done:
        time.sleep(POLL_S)
        progress = mover.step()
        if time.monotonic() - told_at > TOLD_EVERY_S:
            context.log.info(
                "%d of %d moves, %d of %d bytes", progress.complete, progress.total, progress.copied_bytes, progress.total_bytes
            )
            told_at = time.monotonic()
    mover.finish()
    for problem in mover.problems():
        context.log.warning("%s", problem)


@dg.op(description="Even out replicas and leaders")
def rebalance(context: dg.OpExecutionContext, config: RebalanceConfig, log_service: LogServiceResource) -> None:
    """Even out replicas and leaders."""
    with _refusals(), log_service.open_admin() as admin:
        layout = read_layout(admin)
        plan = plans.rebalance(layout, throttle_bytes=config.throttle, byte_tolerance=0.1 if config.even_bytes else None)
        _done(context, admin, layout, plan, is_dry=config.dry_run)


@dg.op(description="Give new brokers their share")
def add(context: dg.OpExecutionContext, config: AddConfig, log_service: LogServiceResource) -> None:
    """Give new brokers their share."""
    with _refusals(), log_service.open_admin() as admin:
        layout = read_layout(admin)
        _done(
            context,
            admin,
            layout,
            plans.join(layout, config.brokers, INTERNAL_FACTOR, throttle_bytes=config.throttle),
            is_dry=config.dry_run,
        )


@dg.op(description="Empty a broker and have the cluster forget it")
def remove(context: dg.OpExecutionContext, config: RemoveConfig, log_service: LogServiceResource) -> None:
    """Empty a broker; have it stopped and forgotten where ``tidelog up`` runs it, or it is down already."""
    with _refusals(), log_service.open_admin() as admin:
        layout = read_layout(admin)
        refuse_removal(admin, layout, config.broker)
        is_running = not layout.broker(config.broker).is_fenced
        if is_running:
            _refuse_to_stop(admin, config.broker)
        plan = plans.drain(layout, [config.broker], throttle_bytes=config.throttle)
        if not _done(context, admin, layout, plan, is_dry=config.dry_run) or config.dry_run:
            return
        remove_voter(admin, config.broker)
        if is_running:
            _ask(REMOVE)(config.broker)
            wait_until_fenced(admin, config.broker)
        admin.unregister_broker(config.broker)


@dg.op(description="Restart brokers one by one")
def restart(context: dg.OpExecutionContext, config: RollConfig, log_service: LogServiceResource) -> None:
    """Restart brokers one by one, each while the cluster can be without it."""
    with _refusals(), log_service.open_admin() as admin:
        state = read_state(admin)
        refuse_unknown_brokers(admin, state.layout, config.brokers)
        order = [each for each in roll_order(state.layout, state.quorum) if not config.brokers or each in config.brokers]
        context.add_output_metadata({"order": ", ".join(map(str, order)), "dry_run": config.dry_run})
        if not config.dry_run:
            rolling = RollingRestart(admin, state, order, _ask(RESTART), lambda text: context.log.info("%s", text))
            try:
                rolling.run()
            finally:
                for line in rolling.left_behind():
                    context.log.info("%s", line)


def _refuse_to_stop(admin: BlockingAdmin, broker_id: int) -> None:
    """Refuse a broker that serves and that the supervisor of this installation cannot stop for good, before anything is changed.

    Raises:
        PlanRefused: no ``tidelog up`` on the data directory runs it, or the files of all nodes name it as a controller.
    """
    data = load_settings().data_directory
    cluster = read_cluster(data) if is_locked(data) else None
    is_ours = cluster is not None and cluster.cluster_id == admin.describe_cluster().cluster_id
    if cluster is None or not is_ours or all(node.node_id != broker_id for node in cluster.nodes):
        raise PlanRefused(
            f"broker {broker_id} serves, and no tidelog up on {data} runs it, so this job cannot stop it: empty it with "
            f"tidelog cluster drain {broker_id} --execute, stop it, and run the job again"
        )
    try:
        cluster.without(broker_id)
    except ConfigError as error:
        raise PlanRefused(str(error)) from error


def _ask(command: str) -> Callable[[int], None]:
    """Return what has the supervisor of this installation do something to a node."""
    data = load_settings().data_directory

    def ask_supervisor(broker_id: int) -> None:
        ask(data, ControlRequest(command=command, node_id=broker_id), timeout_s=CONTROL_S)

    return ask_supervisor


@dg.job(description="Even out replicas and leaders; a dry run unless dry_run is false")
def cluster_rebalance() -> None:
    """Even out replicas and leaders."""
    rebalance()


@dg.job(description="Give new brokers their share; a dry run unless dry_run is false")
def cluster_add() -> None:
    """Give new brokers their share."""
    add()


@dg.job(description="Empty a broker and have the cluster forget it; a dry run unless dry_run is false")
def cluster_remove() -> None:
    """Empty a broker and have the cluster forget it."""
    remove()


@dg.job(description="Restart brokers one by one; a dry run unless dry_run is false")
def cluster_roll() -> None:
    """Restart brokers one by one."""
    restart()
