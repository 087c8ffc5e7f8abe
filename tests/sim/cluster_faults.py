"""Plays the adversaries of a simulated cluster.

Each node has one, as in ``node_faults``, and some bounds hold for all of them together.

Decides which of the plan's faults may strike just now. Each adversary keeps its own node running,
so that several nodes may be down, cut off or paused at once; what is promised under that, and what
is not, is said in ``cluster_plan``.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import trio

from log_service.storage.clean_shutdown import UNKNOWN_BROKER_EPOCH
from tests.sim import missing_files
from tests.sim.cluster_format import format_node
from tests.sim.cluster_plan import ClusterPlan
from tests.sim.missing_files import Loss
from tests.sim.network import Weather
from tests.sim.node_audit import Auditor
from tests.sim.node_checker import Violation
from tests.sim.node_faults import Adversary, Victims
from tests.sim.node_history import DiskFault, History, Paused
from tests.sim.node_host import DATA_DIRECTORIES, Death, Incarnation, NodeHost
from tests.sim.node_plan import Fault
from tests.sim.streams_stages import TASK_STAGES, HandoverWatch
from tests.sim.transaction_stages import STAGES, StageWatch

LONGEST_WATCH_SECONDS = 5.0
"""How long an adversary waits for its node to lead."""
LOOK_SECONDS = 0.1
LONGEST_PAUSE_SESSIONS = 3.0
"""How many broker sessions a process may be paused."""


class Allowance:
    """The faults that the plan allows on all nodes together.

    ``is_whole`` says whether every partition has all of its replicas in sync, ``is_voter_missed``
    whether an operator has asked to take out a voter that is not back yet: the quorum can spare no
    other one.

    Where logs are not synced first, power goes on one machine at a time, or a disk: that machine is
    ``wounded`` until the cluster is whole again. Where a disk is lost, power goes on no other
    machine, synced or not: a broker that comes back from that may not say that it has everything.
    Processes may be killed at any time, all at once too: they have lost nothing, and the controller
    is told so.
    """

    def __init__(
        self,
        plan: ClusterPlan,
        is_whole: Callable[[], bool],
        *,
        is_voter_missed: Callable[[], bool] = lambda: False,
    ) -> None:
        self.plan = plan
        self._is_voter_missed = is_voter_missed
        self._is_whole = is_whole
        self.wounded: str | None = None
        self._is_disk_lost = False

    def may_lose_power(self, name: str) -> bool:
        """Return whether the machine ``name`` may lose unsynced bytes.

        Acknowledged records are then on another machine.
        """
        if (
            self.wounded is not None
            and self.wounded != name
            and (self._is_disk_lost or not self.plan.is_all_synced)
        ):
            if not self._is_whole():
                return False
            self.wounded, self._is_disk_lost = None, False
        return True

    def may_lose_disk(self, host: NodeHost) -> bool:
        """Whether a machine may lose a disk: what counts is on others, and the quorum can be told
        of it.
        """
        is_voter_of_configuration = host.config.is_controller and not self.plan.are_voters_dynamic
        is_voter_too_many = host.config.is_controller and self._is_voter_missed()
        return not is_voter_of_configuration and not is_voter_too_many and self._is_whole()

    def may_lose_directory(self) -> bool:
        """Whether a machine may lose what is in a log directory that has no metadata."""
        return self._is_whole()

    def note_power_lost(self, name: str) -> None:
        """Take note that a machine has lost what it had not synced."""
        self._is_disk_lost &= self.wounded == name
        self.wounded = name

    def note_disk_lost(self, name: str) -> None:
        """Take note that a machine has lost all that it had."""
        self.wounded, self._is_disk_lost = name, True


class ClusterAdversary(Adversary):
    """Does what the plan allows to one node of a cluster. ``cluster`` holds the adversaries of all
    nodes, this one among them.
    """

    def __init__(
        self,
        plan: ClusterPlan,
        host: NodeHost,
        auditor: Auditor,
        *,
        history: History,
        victims: Victims,
        allowance: Allowance,
    ) -> None:
        super().__init__(plan, host, auditor, history, victims)
        self.plan: ClusterPlan = plan
        self.cluster: Sequence[ClusterAdversary] = (self,)
        self._allowance = allowance
        self._session_seconds = plan.session_seconds
        self._held_until = 0.0
        self.is_absent = host.name in plan.late_names
        """Whether the node has not joined its cluster yet."""
        self._acts |= {
            Fault.PAUSE: self._pause_process,
            Fault.SEVERAL_DIE: self._several_die,
            Fault.SLOW_PEER: self._slow_peer,
            Fault.RESET_PEER: self._reset_peer,
            Fault.LOST_DISK: self._lose_disk,
            Fault.LOST_DIRECTORY: self._lose_directory,
            Fault.FAILED_DIRECTORY: self._fail_directory,
            Fault.MISSING_FILES: self._miss_files,
            Fault.NEW_LEADER_DIES: self._die_as_new_leader,
            Fault.RESET_WHILE_WAITING: self._reset_while_waiting,
            Fault.COORDINATOR_ENDS: self._end_as_coordinator,
            Fault.HANDOVER_ENDS: self._end_in_handover,
            Fault.REFUSED: self._refuse_peers,
            Fault.LAGGING_LEADS: self._come_back_behind,
        }
        noted = host.on_death

        def on_death(death: Death) -> None:
            noted(death)
            if death is Death.POWER:
                allowance.note_power_lost(host.name)

        host.on_death = on_death
        host.settle_death = self._settle_death

    def _draw_death(self) -> Death:
        return self._settle_death(super()._draw_death())

    def _settle_death(self, death: Death) -> Death:
        return (
            death
            if death is Death.KILL or self._allowance.may_lose_power(self.host.name)
            else Death.KILL
        )

    async def start_promptly(self) -> None:
        """Start the node; nothing has happened to it."""
        if self.is_absent:
            return
        await trio.sleep(self.rng.choice([0, 0.05, 0.5]))
        await self._start()
        await self.keep_running()

    async def strike(self, seconds: float) -> None:
        """Let things go wrong for so long; a node that comes late joins first."""
        if self.is_absent:
            pause_seconds = self.rng.uniform(0.05, 0.5) * seconds
            await trio.sleep(pause_seconds)
            self.is_absent = False
            self.world.log("join", self.host.name)
            await self.start_promptly()
            seconds -= pause_seconds
        await super().strike(seconds)

    async def keep_running(self) -> None:
        """Start the node if it does not run, and is not to stay down for a while."""
        if not self.host.is_running and trio.current_time() < self._held_until:
            await trio.sleep_until(self._held_until)
        await super().keep_running()

    def hold_down(self, seconds: float) -> None:
        """End the node, and start it again only after so long."""
        self._held_until = trio.current_time() + seconds
        self.host.die(Death.KILL)

    async def calm(self) -> None:
        self.world.resume(self.host.name)
        await super().calm()

    async def _restart_after_power_loss(self) -> None:
        """End the node by a kill if power may not go just now."""
        if self._allowance.may_lose_power(self.host.name):
            await super()._restart_after_power_loss()
        elif self.host.is_running:
            await self._restart_after_kill()
        else:
            await self.keep_running()

    async def _fail_sync(self) -> None:
        """Pages whose sync failed are as good as lost: the same bound as for power."""
        if self._allowance.may_lose_power(self.host.name):
            self._allowance.note_power_lost(self.host.name)
            await super()._fail_sync()

    async def _fill_disk(self) -> None:
        """A node that ends over it is started again as after a loss of power: the same bound. So is
        one with a failed directory.
        """
        if not self._allowance.may_lose_power(self.host.name):
            return
        self._allowance.note_power_lost(self.host.name)
        await super()._fill_disk()
        current = self.host.current
        if (
            self.host.is_running
            and current is not None
            and any(home.is_offline for home in current.broker.foundation.logs.directories)
        ):
            self.counts["offline directories"] += 1
            await self._restart_after_kill()

    async def _pause_and_heal(self, seconds: float) -> None:
        """Heal first, and start the node then if another adversary has ended it.

        Cut off from its quorum it could not start.
        """
        await trio.sleep(seconds)
        self.world.network.heal(self.host.name)
        await self.keep_running()

    async def _pause_process(self) -> None:
        """Stop the process for less or for longer than its session, as SIGSTOP does."""
        seconds = self.rng.choice([0.1, 0.5, 1.2, LONGEST_PAUSE_SESSIONS]) * self._session_seconds
        incarnation = self.host.current
        self.world.pause(self.host.name)
        paused = self.history.add(Paused(node=self.host.name))
        await trio.sleep(seconds)
        self.history.end(paused)
        if self.host.current is incarnation:
            self.world.resume(self.host.name)

    async def _several_die(self) -> None:
        """End this node and others in one moment: some, or all of those whose adversaries start
        them again.
        """
        others = [
            adversary
            for adversary in self.cluster
            if adversary is not self and not adversary.is_over
        ]
        for adversary in (
            self,
            *self.rng.sample(others, self.rng.randint(1, len(others)) if others else 0),
        ):
            adversary.host.die(adversary._draw_death())
        await self._wait_ended()

    async def _slow_peer(self) -> None:
        """Have one direction between this node and another be slow."""
        seconds = self.rng.choice([0.2, 1.0])
        route = [self.host.name, self._draw_peer()]
        self.rng.shuffle(route)
        self.world.network.slow(
            route[0], route[1], Weather(min_latency=seconds / 2, max_latency=seconds)
        )
        await self._pause_and_heal(self.rng.uniform(0.5, 8))

    async def _reset_peer(self) -> None:
        """Break all connections of another node."""
        self.world.network.reset_connections(self._draw_peer())

    async def _lose_disk(self) -> None:
        """Put an empty disk into the machine, and format it; as a voter the node is another one
        from now on.
        """
        await self._replace(Path("/"))

    async def _lose_directory(self) -> None:
        """The same with the second log directory, which does not hold the metadata."""
        if self.host.has_partitions:
            await self._replace(DATA_DIRECTORIES[1])

    async def _replace(self, path: Path) -> None:
        if not self._allowance.may_lose_disk(self.host):
            return
        self.host.die(Death.KILL)
        await self._wait_ended()
        self._allowance.note_disk_lost(self.host.name)
        self._put_in_an_empty_one(path)

    def _put_in_an_empty_one(self, path: Path) -> None:
        """Replace what is mounted at a directory by something empty that is formatted; the node is
        down.
        """
        self.host.disk.wipe(path)
        self.auditor.forget_disk()
        self.counts["disks replaced"] += 1
        node = next(node for node in self.plan.nodes if node.name == self.host.name)
        format_node(self.world, node, self.rng)

    async def _miss_files(self) -> None:
        """End the node, and perhaps others at once, and take files away before its next start.

        That start may not claim its epoch.

        Where that start refuses a log, its directory is moved away, as the product says, and the
        node is started again.
        """
        with trio.move_on_after(LONGEST_WATCH_SECONDS):
            while not self._allowance.may_lose_directory():  # noqa: ASYNC110 - many nodes make it so
                await trio.sleep(LOOK_SECONDS)
        if not self.host.has_partitions or not self._allowance.may_lose_directory():
            return
        others = [
            adversary
            for adversary in self.cluster
            if adversary is not self and not adversary.is_over
        ]
        for adversary in (self, *self.rng.sample(others, self.rng.choice([0, 0, len(others)]))):
            adversary.host.die(Death.KILL)
        await self._wait_ended()
        path = self.rng.choice(self.host.config.log_manager.log_dirs)
        taken = missing_files.take(self.host.disk, self.rng, path)
        if taken is None:
            return
        loss, told = taken
        self.world.log("files", self.host.name, loss.value, told)
        self.counts[loss.value] += 1
        self.history.add(DiskFault())
        self._allowance.note_disk_lost(self.host.name)
        self.auditor.forget_disk()
        self.auditor.is_damage_expected = True
        known = self.host.current
        await self.keep_running()
        started = self.host.current
        if (
            known is not None
            and started is not None
            and started.number == known.number + 1
            and loss is not Loss.INDEXES
        ):
            self._judge_claim(started, f"{loss.value}: {told}")
        await self._move_refused_logs_away()
        self.auditor.is_damage_expected = False

    def _judge_claim(self, started: Incarnation, told: str) -> None:
        """A broker that misses something may not say that it has all that its last run had."""
        epoch = started.broker.foundation.logs.previous_broker_epoch
        if epoch != UNKNOWN_BROKER_EPOCH:
            self.failures.append(
                Violation("missing files", f"{self.host.name} claims epoch {epoch}, though {told}")
            )

    async def _move_refused_logs_away(self) -> None:
        current = self.host.current
        damaged = (
            []
            if current is None or not self.host.is_running
            else [*current.broker.foundation.logs.damaged.values()]
        )
        if not damaged:
            return
        self.host.die(Death.KILL)
        await self._wait_ended()
        for log in damaged:
            self.counts["refused logs moved away"] += 1
            missing_files.move_away(self.host.disk, log.directory)
        await self.keep_running()

    async def _fail_directory(self) -> None:
        """Have everything fail in a log directory for a while.

        The node lives on without it, perhaps through a start.

        Then its device comes back without what was not synced, or another one comes in its place,
        empty and formatted. Where the metadata were there the node ends, and starts only then.
        """
        path = self.rng.choice([DATA_DIRECTORIES[0], DATA_DIRECTORIES[1], DATA_DIRECTORIES[1]])
        has_metadata = path == DATA_DIRECTORIES[0]
        is_for_good = self.rng.random() < 0.6 and not has_metadata
        if is_for_good:
            with trio.move_on_after(LONGEST_WATCH_SECONDS):
                while not self._allowance.may_lose_directory():  # noqa: ASYNC110 - many nodes make it so
                    await trio.sleep(LOOK_SECONDS)
            await self.keep_running()
            is_for_good = self._allowance.may_lose_directory()
        if not self.host.has_partitions or not self._allowance.may_lose_power(self.host.name):
            return
        note_lost = (
            self._allowance.note_disk_lost if is_for_good else self._allowance.note_power_lost
        )
        note_lost(self.host.name)
        self._begin_disk_fault()
        self.host.disk.failed = path
        await self._live_without_a_directory()
        if self.host.is_running and not has_metadata and self.rng.random() < 0.4:
            await self._restart_after_kill()
            self._is_disk_at_fault = True
            await self._live_without_a_directory()
        if self.host.is_running:
            self.counts["offline directories"] += 1
            self.host.die(Death.KILL)
        await self._wait_ended()
        self._excuse_end()
        self.host.disk.failed = None
        if is_for_good:
            self._put_in_an_empty_one(path)
        else:
            self.host.lose_power_while_down()

    async def _live_without_a_directory(self) -> None:
        """Wait; where that is long, others have to serve what the node cannot."""
        self.is_striking = False
        await self._pause_at_fault(
            self.rng.choice([0.2, self._session_seconds, self.plan.failover_limit_seconds + 1])
        )
        self.is_striking = True

    async def _die_as_new_leader(self) -> None:
        """Wait for the node to lead a partition, or to go on in another epoch, and end it a moment
        later.
        """
        with trio.move_on_after(LONGEST_WATCH_SECONDS):
            await self.host.began_to_lead.wait()
            await trio.sleep(self.rng.choice([0, 0.0005, 0.005, 0.05]))
            await self._die()

    async def _end_as_coordinator(self) -> None:
        """Wait for a state of a transaction that the node coordinates, and strike a moment later.

        The node ends, or its connections do.
        """
        wanted = self.rng.choice(STAGES)
        await self._end_at(StageWatch(self.host, wanted), wanted)

    async def _end_in_handover(self) -> None:
        """The same with a task that goes from one instance of Kafka Streams to another."""
        wanted = self.rng.choice(TASK_STAGES)
        await self._end_at(HandoverWatch(self.host, wanted), wanted.name.lower().replace("_", " "))

    async def _end_at(self, watch: StageWatch | HandoverWatch, wanted: str) -> None:
        self.world.clock.on_idle.append(watch.look)
        try:
            with trio.move_on_after(LONGEST_WATCH_SECONDS):
                await watch.is_reached.wait()
                await trio.sleep(self.rng.choice([0, 0, 0.0005, 0.005]))
        finally:
            self.world.clock.on_idle.remove(watch.look)
        if watch.is_reached.is_set():
            self.counts[f"ended at {wanted}"] += 1
            await self.rng.choice([self._die, self._die, self._die, self._stop, self._split])()

    async def _come_back_behind(self) -> None:
        """Come back without the records of another node, which was the last one in sync.

        The node dies first, and stays away until that one is the last, and has ended.
        """
        self.host.die(Death.KILL)
        await self._wait_ended()
        with trio.move_on_after(LONGEST_WATCH_SECONDS):
            while (last := self._last_in_sync()) is None:  # noqa: ASYNC110 - many nodes make it so
                await trio.sleep(LOOK_SECONDS)
            await trio.sleep(self.rng.uniform(0.2, 1.5))
            self.counts["last ones ended"] += 1
            last.hold_down(self.rng.uniform(1, 3) * self._session_seconds)

    def _last_in_sync(self) -> "ClusterAdversary | None":
        """Return the adversary of a node that alone is in sync in a partition with a replica on
        this node.
        """
        for other in self.cluster:
            current = other.host.current
            if other is self or not other.host.is_running or current is None:
                continue
            for topic in current.broker.image.topics.by_name.values():
                for partition in topic.partitions.values():
                    if (
                        partition.isr == (other.host.node_id,)
                        and self.host.node_id in partition.replicas
                    ):
                        return other
        return None

    async def _reset_while_waiting(self) -> None:
        """Hold up the fetches of followers, and break the connections of clients whose records
        wait.

        They send them again.
        """
        for peer in self.victims.nodes:
            if peer != self.host.name:
                self.world.network.slow(
                    self.host.name, peer, Weather(min_latency=1.0, max_latency=2.0)
                )
        await trio.sleep(self.rng.uniform(0.1, 0.5))
        for machine in self.victims.machines():
            self.world.network.reset_connections(machine)
        await self._pause_and_heal(self.rng.uniform(0.5, 2))

    async def _refuse_peers(self) -> None:
        """Live, and have no other node connect here; connections break again and again.

        A node that another adversary ends meanwhile is started only once peers may connect again:
        its quorum may need that.
        """
        for peer in self.victims.nodes:
            if peer != self.host.name:
                self.world.network.refuse(peer, self.host.name)
        for _ in range(self.rng.randint(1, 3)):
            self.world.network.reset_connections(self.host.name)
            await self._pause_at_fault(self.rng.uniform(0.5, 3))
        self.world.network.heal(self.host.name)

    def _draw_peer(self) -> str:
        return self.rng.choice([name for name in self.victims.nodes if name != self.host.name])
