"""Applies dynamic configuration of this broker while it runs.

It covers connection limits, the cleaner, threads, producers' memory, cordoned disks, verification
of transactions. Decides which room gets a change. ``config.dynamic_broker_config`` decides the
effective values, and the replica manager applies the defaults of topics. One log line names the
keys that have no effect here, or have an effect only in the file.
"""

import logging
from collections.abc import Mapping
from typing import Protocol

from log_service.broker.transactions.verifier import TransactionVerifier
from log_service.common.env import Files
from log_service.config.dynamic_broker_config import dynamic_broker_config, is_value
from log_service.config.dynamic_keys import counts_from_file_alone
from log_service.config.server import idle_keys
from log_service.config.views import ConnectionLimits, DynamicBrokerConfig, NodeConfig
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.features import keeps_eligible_leaders
from log_service.metadata.image import MetadataImage, ResourceType
from log_service.storage.log_manager import LogManager

ALL_BROKERS = ""
MIN_ISR = "min.insync.replicas"

logger = logging.getLogger(__name__)


class HasConnectionLimits(Protocol):
    """A room that limits the number of connections."""

    def set_connection_limits(self, limits: ConnectionLimits) -> None:
        """Use these limits from now on."""


class LiveSettings:
    """Applies dynamic configuration of brokers.

    It gets each new metadata image by ``on_image``.
    """

    def __init__(
        self,
        config: NodeConfig,
        static_texts: Mapping[str, str],
        *,
        budget: HasConnectionLimits,
        logs: LogManager,
        files: Files,
        verifier: TransactionVerifier,
    ) -> None:
        self._node_id = str(config.node_id)
        self._log_dirs = config.log_manager.log_dirs
        self._static_texts = static_texts
        self._budget = budget
        self._logs = logs
        self._files = files
        self._verifier = verifier
        self._warned: tuple[str, ...] = ()
        self._warned_of_file: tuple[str, ...] = ()
        self._warned_min_isr: str | None = None

    def on_image(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply the effective configuration if that of a broker changed."""
        if not any(
            resource_type == ResourceType.BROKER for resource_type, _ in delta.changed_configs
        ):
            return
        cluster = image.configs.of(ResourceType.BROKER, ALL_BROKERS)
        own = image.configs.of(ResourceType.BROKER, self._node_id)
        self._warn({**cluster, **own})
        self._warn_of_min_isr(cluster, image)
        self._apply(dynamic_broker_config(self._log_dirs, self._static_texts, cluster, own))

    def _apply(self, dynamic: DynamicBrokerConfig) -> None:
        self._budget.set_connection_limits(dynamic.connections)
        self._files.set_pool_threads(dynamic.disk_pool_threads)
        self._verifier.is_enabled = dynamic.is_verification_enabled
        self._logs.reconfigure(
            cleaner=dynamic.cleaner,
            producer_id_expiration_ms=dynamic.producer_id_expiration_ms,
            cordoned_log_dirs=dynamic.cordoned_log_dirs,
        )

    def _warn_of_min_isr(self, cluster: Mapping[str, str], image: MetadataImage) -> None:
        """Log that the cluster's ``min.insync.replicas`` overrides the value in the file.

        An operator who edits the file expects an effect.
        """
        in_file, held = self._static_texts.get(MIN_ISR), cluster.get(MIN_ISR)
        if (
            in_file is None
            or held is None
            or held in (in_file, self._warned_min_isr)
            or not keeps_eligible_leaders(image.features)
        ):
            return
        self._warned_min_isr = held
        logger.warning(
            "%s=%s of the file does not count: the cluster keeps eligible leader replicas, and the"
            " value of all its brokers is %s; to change it: tidelog configs set %s=%s"
            " --cluster-default",
            *(MIN_ISR, in_file, held, MIN_ISR, in_file),
        )

    def _warn(self, texts: Mapping[str, str]) -> None:
        self._warn_of_file_keys(texts)
        idle = idle_keys({name: text for name, text in texts.items() if is_value(name, text)})
        if idle and idle != self._warned:
            logger.warning(
                "These keys were set for brokers and have no effect here: %s", ", ".join(idle)
            )
        self._warned = idle

    def _warn_of_file_keys(self, texts: Mapping[str, str]) -> None:
        """Log the keys that a request has set although they take effect only in the file.

        An operator who disables a mechanism by request expects that it is disabled.
        """
        unheeded = tuple(
            sorted(
                name
                for name, text in texts.items()
                if counts_from_file_alone(name) and text != self._static_texts.get(name)
            )
        )
        if unheeded and unheeded != self._warned_of_file:
            logger.warning(
                "These keys were set for this broker and change nothing, because they count from"
                " its file alone: %s; set them there, and restart it",
                ", ".join(unheeded),
            )
        self._warned_of_file = unheeded
