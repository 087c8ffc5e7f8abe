"""Applies dynamic configuration of this broker while it runs: connection limits, the cleaner, threads, producers' memory, cordoned disks,
verification of transactions.

This module decides which room is told. ``config.dynamic_broker_config`` decides what holds, and the replica manager has the defaults of
topics. A key that is set and has no effect here is named in one log line.
"""

import logging
from collections.abc import Mapping
from typing import Protocol

from log_service.broker.transaction_verifier import TransactionVerifier
from log_service.common.env import Files
from log_service.config.dynamic_broker_config import dynamic_broker_config, is_value
from log_service.config.server import idle_keys
from log_service.config.views import ConnectionLimits, DynamicBrokerConfig, NodeConfig
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage, ResourceType
from log_service.storage.log_manager import LogManager

ALL_BROKERS = ""

logger = logging.getLogger(__name__)


class HasConnectionLimits(Protocol):
    """What counts connections."""

    def set_connection_limits(self, limits: ConnectionLimits) -> None:
        """Go by these limits from now on."""


class LiveSettings:
    """A publisher of images that looks at the configuration of brokers only."""

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

    def on_image(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply what holds now, where the configuration of a broker changed."""
        if not any(resource_type == ResourceType.BROKER for resource_type, _ in delta.changed_configs):
            return
        cluster = image.configs.of(ResourceType.BROKER, ALL_BROKERS)
        own = image.configs.of(ResourceType.BROKER, self._node_id)
        self._warn({**cluster, **own})
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

    def _warn(self, texts: Mapping[str, str]) -> None:
        idle = idle_keys({name: text for name, text in texts.items() if is_value(name, text)})
        if idle and idle != self._warned:
            logger.warning("These keys were set for brokers and have no effect here: %s", ", ".join(idle))
        self._warned = idle
