"""TLS certificates of a running node, changed by requests or by new files (KIP-226).

Decides when a listener gets new keys and authorities. This node's own connections over that
listener get them too. A change is checked twice: before the request goes to the controller, so that
its sender gets the error, and when it arrives with the metadata. If the new ones are unusable at
that time, the old ones stay. Open connections keep the parameters that they agreed on.

Key and trust stores are read and tried in the pool for work that may wait for the disk. A key store
on a slow file system therefore delays no request.

Invariants: after a failed change a listener keeps what it had before. A single task installs what
was read, in order.
"""

import errno
import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import floor
from pathlib import Path

import trio

from log_service.common.env import NodeEnv
from log_service.common.errors import ConfigError
from log_service.config.definition import Trait
from log_service.config.dynamic_keys import base_name, listener_name, traits_of
from log_service.config.security import TlsConfig, effective_text
from log_service.config.tls import tls_config
from log_service.config.views import NodeConfig
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage, ResourceType
from log_service.security.file_digests import FileDigest, file_digest
from log_service.security.tls.contexts import Contexts, client_context, end_of, server_context
from log_service.security.tls.listener import TlsListener
from log_service.security.tls.material import MAX_STORE_BYTES, files_of
from log_service.security.tls.outgoing import OutgoingTls
from log_service.security.tls.replacement import validate_both_ways, validate_replacement

FILE_CHECK_INTERVAL_MS = 30_000
WARNED_DAYS = 30
"""The node begins to warn this many days before a listener's certificate ends, once a day."""
DAY_SECONDS = 86_400

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The state of a listener in use: its configuration, and digests of the files that it read."""

    tls: TlsConfig
    digests: tuple[FileDigest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """The state of a listener after a change, checked and not yet installed."""

    loaded: Loaded
    server: Contexts | None
    client: Contexts | None
    node: ssl.SSLContext | None
    """A context for connecting as a node, without a check of the host name.

    The certificate of the next change is tried with it.
    """


class Certificates:
    """Keeps the certificates of all TLS listeners up to date. ``run`` looks for changed files.

    It gets each new metadata image by ``on_image``. ``outgoing`` is the TLS of this node's own
    connections, by the listener that they go to.
    """

    def __init__(
        self,
        env: NodeEnv,
        config: NodeConfig,
        static_texts: Mapping[str, str],
        listeners: Mapping[str, TlsListener],
        outgoing: Mapping[str, OutgoingTls],
    ) -> None:
        self._env = env
        self._node_id = str(config.node_id)
        self._static_texts = static_texts
        self._listeners = listeners
        self._outgoing = outgoing
        self._protections = {config.quorum.listener_name: config.controller_security}
        self._protections |= {
            each.name: each.security for each in (*config.listeners, *config.controller_listeners)
        }
        self._dynamic: Mapping[str, str] = {}
        self._is_reconfigured = trio.Event()
        self._loaded: dict[str, Loaded] = {}
        self._nodes: dict[str, ssl.SSLContext] = {}
        self._warned: dict[str, int] = {}
        for name in {**listeners, **outgoing}:
            tls = self._protections[name].tls
            assert tls is not None, "it has TLS"
            self._loaded[name] = Loaded(tls=tls, digests=self._digests(tls))
            if name in outgoing and name in listeners:
                self._nodes[name] = self._node(tls)

    def __repr__(self) -> str:
        return f"<Certificates of {', '.join(self._loaded)}>"

    async def run(self) -> None:
        """Apply changes of the configuration and of the files, until cancelled."""
        while True:
            with trio.move_on_after(FILE_CHECK_INTERVAL_MS / 1_000):
                await self._is_reconfigured.wait()
            await self.update()
            self.warn_of_ends()

    def warn_of_ends(self) -> None:
        """Log the listeners whose certificates expire soon or have expired.

        New clients do not accept an expired certificate.
        """
        for name, days in self.days_left().items():
            if days > WARNED_DAYS or self._warned.get(name) == days:
                continue
            self._warned[name] = days
            if days < 0:
                logger.error(
                    "The certificate of listener %s has ended: no client that connects accepts it;"
                    " give the listener a new one",
                    name,
                )
            else:
                logger.warning(
                    "The certificate of listener %s ends in %d days; give the listener a new one"
                    " before",
                    name,
                    days,
                )

    def days_left(self) -> dict[str, int]:
        """Return for each listener the whole days until the first of its certificates expires.

        The number is negative after that.
        """
        now_s = self._env.clock.wall_ms() / 1_000
        ends = {
            name: min(end_of(key).timestamp() for key in each.contexts.keys)
            for name, each in self._listeners.items()
        }
        return {name: floor((end_s - now_s) / DAY_SECONDS) for name, end_s in ends.items()}

    def on_image(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Wake ``run`` if the configuration of this broker changed."""
        if any(kind == ResourceType.BROKER for kind, _ in delta.changed_configs):
            self._dynamic = image.configs.of(ResourceType.BROKER, self._node_id)
            self._is_reconfigured.set()

    async def update(self) -> None:
        """Apply the current configuration and files to all listeners.

        Never run by two tasks at once.
        """
        reason = (
            "its configuration has changed"
            if self._is_reconfigured.is_set()
            else "its files have changed"
        )
        self._is_reconfigured = trio.Event()
        for name in self._loaded:
            try:
                fresh = await self._env.files.run_in_pool(partial(self._fresh, name, self._dynamic))
            except (ConfigError, OSError) as error:
                logger.error(
                    "Listener %s keeps its certificates, though %s: %s", name, reason, error
                )
                continue
            if fresh is not None:
                self.install(name, fresh)
                logger.info("Listener %s has new certificates: %s", name, reason)

    async def validate(self, names: frozenset[str], texts: Mapping[str, str]) -> None:
        """Check a change before it is made.

        ``names`` are the changing keys. ``texts`` are all keys and values that would be set for
        this broker.

        Raises:
            ConfigError: a listener could not use the changed keys.
        """
        for listener in {
            listener_name(name) for name in names if Trait.STORE in traits_of(base_name(name))
        }:
            if listener in self._loaded:
                try:
                    await self._env.files.run_in_pool(partial(self._fresh, listener, texts))
                except ConfigError as error:
                    raise ConfigError(f"listener {listener}: {error}") from error

    def _fresh(self, name: str, dynamic: Mapping[str, str]) -> Fresh | None:
        """Return a listener's new state, or None if it is unchanged.

        It reads files and changes nothing, because it runs in a thread.
        """
        security, known = self._protections[name], self._loaded[name]
        texts = {**self._static_texts, **dynamic}
        stores = tls_config(texts, name, is_sasl=security.sasl is not None)
        assert security.tls is not None, "it has TLS"
        tls = replace(
            stores,  # the other TLS keys do not change while a node runs
            client_auth=security.tls.client_auth,
            enabled_protocols=security.tls.enabled_protocols,
            cipher_suites=security.tls.cipher_suites,
            principal_mapping_rules=security.tls.principal_mapping_rules,
            endpoint_identification_algorithm=security.tls.endpoint_identification_algorithm,
        )
        loaded = Loaded(tls=tls, digests=self._digests(tls))
        if loaded == known:
            return None
        client = client_context(tls, self._read) if name in self._outgoing else None
        if name not in self._listeners:
            return Fresh(loaded=loaded, server=None, client=client, node=None)
        old, new = self._listeners[name].contexts, server_context(tls, self._read)
        validate_replacement(
            old,
            new,
            are_names_free=_is_true(effective_text(texts, "ssl.allow.dn.changes", name)),
            are_hosts_free=_is_true(effective_text(texts, "ssl.allow.san.changes", name)),
        )
        node = None
        if name in self._nodes:
            node = self._node(tls)
            validate_both_ways((old.context, self._nodes[name]), (new.context, node))
        return Fresh(loaded=loaded, server=new, client=client, node=node)

    def _node(self, tls: TlsConfig) -> ssl.SSLContext:
        return client_context(
            replace(tls, endpoint_identification_algorithm=""), self._read
        ).context

    def install(self, name: str, fresh: Fresh) -> None:
        """Serve new certificates from now on."""
        self._loaded[name] = fresh.loaded
        if fresh.server is not None:
            self._listeners[name].replace(fresh.server)
        if fresh.client is not None:
            self._outgoing[name].replace(fresh.client)
        if fresh.node is not None:
            self._nodes[name] = fresh.node

    def _read(self, path: Path) -> bytes:
        """Return a file's content.

        A file too large for a store is not read, because a request may name any file.
        """
        if self._env.files.size_bytes(path) > MAX_STORE_BYTES:
            raise OSError(errno.EFBIG, f"it has more than {MAX_STORE_BYTES} bytes")
        return self._env.files.read_bytes(path)

    def _digests(self, tls: TlsConfig) -> tuple[FileDigest, ...]:
        return tuple(file_digest(path, self._read) for path in files_of(tls))


def _is_true(text: str | None) -> bool:
    return (text or "").strip().lower() == "true"
