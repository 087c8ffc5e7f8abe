"""A broker's membership: registers at each start, sends heartbeats, and leaves in order (KIP-631).

Decides when and with which content requests go to the controller. A start calls ``register``, then
``catch_up``, during which the broker asks to stay fenced. Once the broker has taken over the
metadata, it calls ``unfence``. It then calls ``run``, and ``leave`` to stop. Knows no partitions.
The metadata image shows the effect of membership on them.

Temporary errors are retried at the interval of heartbeats: registration until
``initial.broker.registration.timeout.ms``, heartbeats for as long as the broker runs. Errors that
no retry can fix end the node: another cluster, a directory of another broker, another process that
has registered under the same id.

Invariants:

- The broker epoch is the controller's, one for each start.
- The metadata offset in a heartbeat is that of the last applied record.
- The broker is unfenced only after it has applied its own registration.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

import trio

from log_service.broker.protection import own_name
from log_service.common.access import NODE_ADVICE
from log_service.common.errors import ErrorCode, KafkaError, StorageError
from log_service.common.types import BrokerEpoch, LeaderEpoch, NodeId
from log_service.config.views import NodeConfig
from log_service.controller.channel import ControllerChannel
from log_service.metadata.features import SUPPORTED_FEATURES, unserved_levels
from log_service.metadata.image import Endpoint, MetadataImage
from log_service.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from log_service.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from log_service.raft.batches import MetadataBatch
from log_service.raft.messages import NO_LEADER
from log_service.raft.snapshots import Snapshot

T = TypeVar("T")

logger = logging.getLogger(__name__)

NOT_REGISTERED = BrokerEpoch(-1)
NO_INCARNATION = UUID(int=0)
SILENCE_MS = 5_000
"""How long a waiting start stays silent before it logs that it waits.

Longer than an election takes.
"""
STARTING_PAUSE_MS = 10
"""Pause between heartbeats of a broker that waits to be unfenced.

It waits for its own metadata log, which takes milliseconds.
"""
LEAVING_PAUSE_MS = 20
"""Pause before the second heartbeat of a leaving broker.

Later pauses double, up to the heartbeat interval.
"""
LEAVING_DEADLINE_MS = 30_000
"""How long a leaving broker waits for the controller's permission. It then stops without it."""
LEAVING_SILENCE_MS = 5_000
"""How long a leaving broker waits for one response of the controller.

It is longer than an election takes after a controller's process has hung.
"""
LOOK_MS, GONE_COUNT = 100, 5
"""Checks of a leaving broker whether a majority of the controllers is gone: interval and count.

The majority must be gone in that many checks in a row.
"""
FATAL = frozenset(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryStates:
    """The states of this broker's log directories, by their ids.

    ``previous_broker_epoch`` is that of the last run, or -1 if some of its writes may be lost.
    """

    previous_broker_epoch: int = -1
    offline: frozenset[UUID] = frozenset()
    cordoned: frozenset[UUID] = frozenset()


class BrokerLifecycle:
    """This broker's membership. ``directories`` returns the current states of its log directories.

    ``is_quorum_gone`` returns whether the remaining controllers are too few for a majority.
    """

    def __init__(
        self,
        config: NodeConfig,
        controller: ControllerChannel,
        image: Callable[[], MetadataImage],
        directories: Callable[[], DirectoryStates] = DirectoryStates,
        is_quorum_gone: Callable[[], bool] = lambda: False,
    ) -> None:
        self._config = config
        self._controller = controller
        self._image = image
        self._directories = directories
        self._is_quorum_gone = is_quorum_gone
        self._incarnation_id = NO_INCARNATION
        self._is_caught_up = False
        self._is_leaving = False
        self._is_silence_logged = False
        self._reported_offline: frozenset[UUID] = frozenset()
        self._offline_since: float | None = None
        self._is_hurried = trio.Event()
        self._beating = trio.CancelScope()
        self.broker_epoch = NOT_REGISTERED

    def __repr__(self) -> str:
        return f"<BrokerLifecycle broker={self._config.node_id} epoch={self.broker_epoch}>"

    # Starting

    async def register(
        self,
        *,
        cluster_id: str,
        incarnation_id: UUID,
        endpoints: Mapping[str, Endpoint],
        log_dirs: tuple[UUID, ...],
    ) -> None:
        """Register this broker. It is fenced until ``unfence``.

        ``incarnation_id`` is a new one for each process.

        Raises:
            KafkaError: the controller refuses, or none was found in time.
        """
        directories = self._directories()
        request = BrokerRegistrationRequest(
            broker_id=self._config.node_id,
            cluster_id=cluster_id,
            incarnation_id=incarnation_id,
            listeners=[
                Listener(
                    name=name,
                    host=endpoint.host,
                    port=endpoint.port,
                    security_protocol=endpoint.security_protocol,
                )
                for name, endpoint in endpoints.items()
            ],
            features=[
                Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
                for name, (lowest, highest) in SUPPORTED_FEATURES.items()
            ],
            rack=self._config.rack,
            log_dirs=[
                directory_id for directory_id in log_dirs if directory_id not in directories.offline
            ],
            previous_broker_epoch=directories.previous_broker_epoch,
        )
        response = await self._until_registered(lambda: self._ask_in(request))
        self._incarnation_id = incarnation_id
        self.broker_epoch = BrokerEpoch(response.broker_epoch)

    async def _ask_in(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        """Send the registration, and return the response. Add advice to the text of a refusal.

        The text names this node's principal, the feature level, or the process that has this broker
        id.

        Raises:
            KafkaError: the controller refuses.
        """
        try:
            return await self._response_to(request)
        except KafkaError as error:
            if error.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                raise KafkaError(error.code, self._namesake_text(request)) from error
            if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                raise KafkaError(
                    error.code, f"this node comes as {own_name(self._config)}; {NODE_ADVICE}"
                ) from error
            faults = (
                unserved_levels(self._image().features)
                if error.code is ErrorCode.UNSUPPORTED_VERSION
                else ()
            )
            if not faults:
                raise
            text = (
                f"the cluster has {'; '.join(faults)}; lower the level with kafka-features.sh, or"
                " start a newer version"
            )
            raise KafkaError(error.code, text) from error

    async def _response_to(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        """Return the controller's response, and log if it takes long.

        The log line is for the operator, because the search for a controller may take minutes.

        Raises:
            KafkaError: the controller refuses.
        """
        response: BrokerRegistrationResponse | KafkaError | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._log_silence)
            try:
                response = await self._controller.request(request, BrokerRegistrationResponse)
            except KafkaError as error:
                response = error
            nursery.cancel_scope.cancel()
        assert response is not None, "what is not a KafkaError leaves with the nursery"
        try:
            if isinstance(response, KafkaError):
                raise response
            return response
        finally:
            del response  # the traceback of an error holds this frame

    async def _log_silence(self) -> None:
        await trio.sleep(SILENCE_MS / 1_000)
        if not self._is_silence_logged:
            self._is_silence_logged = True
            text = "No controller has taken this broker for %d s, which goes on asking%s"
            logger.warning(text, SILENCE_MS // 1_000, self._looks_at())

    def _namesake_text(self, request: BrokerRegistrationRequest) -> str:
        """Return an error text about the process that has this broker's id.

        After a crash that is this broker itself, until its session ends. A live process at this
        broker's address cannot be another one on this host, because this one listens there.
        """
        node_id = NodeId(self._config.node_id)
        known = self._image().cluster.brokers.get(node_id)
        where = (
            ", ".join(f"{name}://{each.host}:{each.port}" for name, each in known.endpoints.items())
            if known is not None
            else ""
        )
        own = {(listener.host, listener.port) for listener in request.listeners}
        if known is not None and own == {
            (each.host, each.port) for each in known.endpoints.values()
        }:
            return (
                f"the session of this broker's last run, at {where}, is not over; where that run is"
                " not over either, stop it"
            )
        return (
            f"another process is alive as broker {node_id}{f', at {where}' if where else ''}; stop"
            " it, or give this one another node.id (where it has just died its session has to run"
            " out first)"
        )

    async def catch_up(self) -> None:
        """Wait until this broker's metadata has its own registration.

        The broker asks to stay fenced meanwhile.

        Raises:
            KafkaError: the controller refuses.
        """
        await self._until_registered(self._catch_up)

    async def unfence(self) -> None:
        """Send heartbeats until the controller unfences this broker.

        Raises:
            KafkaError: the controller refuses.
        """
        await self._until_registered(self._unfence)

    async def _until_registered(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Return the result of ``attempt``, with retries after temporary errors.

        The retries end with the timeout of the registration.

        Raises:
            KafkaError: the last error.
        """
        deadline = trio.current_time() + self._config.initial_registration_timeout_ms / 1_000
        reported = ""
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                shown = self._with_addresses(error)
                if error.code in FATAL or trio.current_time() >= deadline:
                    raise shown from error.__cause__
                if str(shown) != reported:
                    # It retries every heartbeat interval, and logs each reason once.
                    reported = str(shown)
                    logger.warning(
                        "The controller does not register this broker yet. The broker tries"
                        " again: %s",
                        shown,
                    )
            await trio.sleep(min(self._interval_s, max(deadline - trio.current_time(), 0)))

    def _with_addresses(self, error: KafkaError) -> KafkaError:
        """Return the error. If no controller was found, add the addresses that were tried."""
        looks_at = self._looks_at()
        return (
            KafkaError(error.code, f"{error}{looks_at}")
            if looks_at and error.code is ErrorCode.NOT_CONTROLLER
            else error
        )

    def _looks_at(self) -> str:
        """Return "; it looks at ADDRESSES" with the controllers, to append to an error.

        Return an empty text if no controllers are configured.
        """
        quorum = self._config.quorum
        addresses = ", ".join(
            f"{each.host}:{each.port}" for each in quorum.bootstrap_servers or quorum.voters
        )
        return f"; it looks at {addresses}" if addresses else ""

    async def _catch_up(self) -> None:
        text = (
            "This broker has needed more than %d s to follow the metadata up to its registration."
            " The start continues"
        )
        await self._beat_until(lambda response: response.is_caught_up, text, wants_fence=True)

    async def _unfence(self) -> None:
        text = (
            "The controller has needed more than %d s to let this broker lead. The start continues"
        )
        await self._beat_until(lambda response: not response.is_fenced, text)

    async def _beat_until(
        self,
        is_over: Callable[[BrokerHeartbeatResponse], bool],
        text: str,
        *,
        wants_fence: bool = False,
    ) -> None:
        """Send heartbeats until ``is_over`` returns true for a response.

        ``text`` is logged if this takes long.
        """
        warn_at = trio.current_time() + SILENCE_MS / 1_000
        while not is_over(await self._beat(wants_fence=wants_fence)):
            if trio.current_time() >= warn_at:
                logger.warning(text, SILENCE_MS // 1_000)
                warn_at = math.inf
            await trio.sleep(STARTING_PAUSE_MS / 1_000)
        self._is_caught_up = True

    # Running

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send heartbeats to keep the session alive, until cancelled.

        Raises:
            KafkaError: another process has registered under this broker's id.
            StorageError: a log directory failed, and the controller could not be notified in time.
        """
        task_status.started()
        while True:
            with trio.move_on_after(self._interval_s):
                await self._is_hurried.wait()
            self._is_hurried = trio.Event()
            with trio.CancelScope() as self._beating:
                try:
                    await self._beat()
                except KafkaError as error:
                    self._check_place()
                    logger.warning("The controller refused a heartbeat: %s", error)
            self._check_failed_directories()

    def hurry(self) -> None:
        """Send the next heartbeat now, because a log directory failed or was cordoned."""
        self._is_hurried.set()

    def meet_controller(self) -> None:
        """Send a heartbeat to a new controller now.

        A heartbeat in flight is cancelled, because it waits for the previous controller or for a
        retry.
        """
        self._beating.cancel()
        self.hurry()

    def _check_place(self) -> None:
        """Raise if another process has registered under this broker's id.

        The cluster then knows only the other process.
        """
        registered = self._image().cluster.brokers.get(NodeId(self._config.node_id))
        if (
            registered is None
            or registered.epoch <= self.broker_epoch
            or registered.incarnation_id == self._incarnation_id
        ):
            return
        text = (
            f"another process has registered as broker {self._config.node_id}, with epoch"
            f" {registered.epoch}; this one, with epoch {self.broker_epoch}, ends. Give each node a"
            " node.id of its own"
        )
        raise KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, text)

    def _check_failed_directories(self) -> None:
        """Raise if the controller could not be notified of a failed directory in time.

        This broker still counts as leader of partitions that it cannot read.
        """
        if self._directories().offline <= self._reported_offline:
            self._offline_since = None
            return
        now = trio.current_time()
        if self._offline_since is None:
            self._offline_since = now
        if (now - self._offline_since) * 1_000 >= self._config.log_dir_failure_timeout_ms:
            raise StorageError(
                "a log directory failed, and the controller could not be told in time; look at the"
                " disk, then start again"
            )

    # Stopping

    async def leave(self) -> None:
        """Give up leadership, and wait until the other brokers know the new leaders.

        From now on each heartbeat reports that the broker leaves. The wait is limited. The limit is
        shorter if no controller responds, and shorter still if it is known that none can.

        Raises:
            KafkaError: the controller refuses, or does not respond.
        """
        if self.broker_epoch == NOT_REGISTERED:
            return
        self._is_leaving = True
        self._beating.cancel()  # one without the wish to leave could be repeated later
        refusal: KafkaError | None = None
        with trio.move_on_after(LEAVING_DEADLINE_MS / 1_000):
            async with trio.open_nursery() as nursery:
                silence = trio.CancelScope()
                nursery.start_soon(self._watch_quorum, silence)
                with silence:
                    try:
                        await self._leave(silence)
                    except KafkaError as error:
                        refusal = error
                nursery.cancel_scope.cancel()
            if refusal is not None:
                raise refusal
            if not silence.cancelled_caught:
                return
            text = (
                f"no controller has responded for {LEAVING_SILENCE_MS} ms, or too few of them are"
                " left to decide; this broker stops without"
            )
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)
        text = (
            f"the controller did not let this broker go within {LEAVING_DEADLINE_MS} ms; it stops"
            " without"
        )
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)

    async def _leave(self, silence: trio.CancelScope) -> None:
        """Send heartbeats until the controller allows this broker to stop.

        ``silence`` is cancelled if a response takes too long.
        """
        pause_s = LEAVING_PAUSE_MS / 1_000
        while True:
            silence.deadline = trio.current_time() + LEAVING_SILENCE_MS / 1_000
            if (await self._beat()).should_shut_down:
                return
            silence.deadline = math.inf
            await trio.sleep(pause_s)
            pause_s = min(pause_s * 2, self._interval_s)

    async def _watch_quorum(self, leaving: trio.CancelScope) -> None:
        """Cancel ``leaving`` if too few controllers for a majority are left for some time.

        A controller that only restarts is away for a shorter time.
        """
        seen_count = 0
        while seen_count < GONE_COUNT:
            await trio.sleep(LOOK_MS / 1_000)
            seen_count = seen_count + 1 if self._is_quorum_gone() else 0
        leaving.cancel()

    # Heartbeats

    @property
    def _interval_s(self) -> float:
        return self._config.broker_heartbeat_interval_ms / 1_000

    async def _beat(self, *, wants_fence: bool = False) -> BrokerHeartbeatResponse:
        directories = self._directories()
        request = BrokerHeartbeatRequest(
            broker_id=self._config.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._image().offset,
            want_fence=wants_fence,
            want_shut_down=self._is_leaving,
            offline_log_dirs=sorted(directories.offline),
            cordoned_log_dirs=sorted(directories.cordoned) if self._is_caught_up else None,
        )
        response = await self._controller.request(request, BrokerHeartbeatResponse)
        self._reported_offline = directories.offline
        return response


class ControllerWatch:
    """Watches the metadata log for a new active controller, and calls ``on_controller``.

    A new active controller is another node, or the same node in a later epoch. It only assumes
    that this broker is alive, and elects the broker as leader only after a heartbeat.
    """

    def __init__(self, on_controller: Callable[[], None]) -> None:
        self._on_controller = on_controller
        self._epoch = -1

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Do nothing, because only the leader of the metadata quorum matters here."""

    def on_batches(self, batches: Sequence[MetadataBatch]) -> None:
        """Do nothing, because only the leader of the metadata quorum matters here."""

    def on_leader_change(self, leader_id: NodeId, epoch: LeaderEpoch) -> None:
        """Call ``on_controller`` once for each epoch that has a leader."""
        if leader_id != NO_LEADER and epoch > self._epoch:
            self._epoch = epoch
            self._on_controller()
