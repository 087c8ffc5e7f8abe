"""The logins of a node: the mechanisms that each SASL listener offers.

They are made from the configuration and the newest metadata. Decides which JAAS texts prevent a
start: invalid ones and those of another mechanism. Users of PLAIN are in the JAAS text of the
listener, which may change while the node runs. Users of SCRAM are in the metadata. A change of a
JAAS text is validated before it is made, and again when it arrives with the metadata. If it is
unusable at that time, the previous users stay. Completed logins stay valid.
Apache Kafka accepts any such text, and applies it at its next start.
"""

import hmac
import logging
from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import TYPE_CHECKING

import trio

from log_service.broker.logins.login import GuessGate, LoginHandler, LoginQueue
from log_service.broker.logins.tokens import TokenLogins
from log_service.broker.requests.call import StartTask
from log_service.common.env import NodeEnv
from log_service.common.errors import ConfigError
from log_service.common.secrets import SecretText
from log_service.config.sasl import clear_text_warnings, jaas_key
from log_service.config.security import SaslConfig
from log_service.config.views import ListenerConfig, NodeConfig
from log_service.metadata.access import ScramUser
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage, ResourceType
from log_service.network.responses import FrameHandler
from log_service.security.sasl.credentials import SCRAM_MECHANISMS, ScramCredential, ScramMechanism
from log_service.security.sasl.jaas import JaasEntry, parse_jaas
from log_service.security.sasl.mechanisms import Mechanism, ServerExchange
from log_service.security.sasl.oauthbearer import OAuthServer
from log_service.security.sasl.plain import PlainServer
from log_service.security.sasl.scram import (
    PLAIN_SHAPE,
    Shape,
    decoy_credential,
    random_text,
    usual_shape,
)
from log_service.security.sasl.scram_server import ScramServer
from log_service.security.sasl.session import LoginPolicy

if TYPE_CHECKING:
    from log_service.security import oauth

logger = logging.getLogger(__name__)


class DecoySecret:
    """The secret from which the credentials of unknown users (decoys) are derived.

    Decoys are the same on all nodes of a cluster, and stay the same as long as a node runs. So a
    client cannot tell them from credentials of users. The secret is derived from the log directory
    ids of the broker with the lowest id, and from the secret of delegation tokens, if any. The ids
    are random, and are visible only to clients that may also list the users. The secret depends on
    no user. A controller that knows no broker yet uses a random number of its own.
    """

    def __init__(
        self, image: Callable[[], MetadataImage], token_secret: SecretText | None, rng: Random
    ) -> None:
        self._image = image
        self._token_secret = b"" if token_secret is None else token_secret.reveal().encode()
        self._rng = rng
        self._own: bytes | None = None
        self._kept: bytes | None = None

    def __repr__(self) -> str:
        return "<DecoySecret>"

    def reveal(self) -> bytes:
        """Return the secret."""
        if self._kept is None:
            brokers = self._image().cluster.brokers
            ids = [each.bytes for each in sorted(brokers[min(brokers)].log_dirs)] if brokers else []
            if not ids:
                self._own = self._own or self._rng.randbytes(32)
                return self._own
            self._kept = hmac.digest(self._token_secret or b"decoys", b"".join(ids), "sha256")
        return self._kept


class ScramUsers:
    """The SCRAM credentials of the newest metadata, and decoys for unknown names.

    A decoy is a credential that no password fits. Decoys of users look like most credentials of the
    mechanism. Decoys of tokens look like those of tokens.
    """

    def __init__(self, image: Callable[[], MetadataImage], secret: DecoySecret) -> None:
        self._image = image
        self._secret = secret
        self._seen: Mapping[ScramUser, ScramCredential] = {}
        self._shapes: dict[ScramMechanism, Shape] = {}

    def find(self, mechanism: ScramMechanism, name: str) -> ScramCredential | None:
        """Return a user's credential."""
        return self._image().access.scram_credentials.get(ScramUser(mechanism, name))

    def decoy(self, mechanism: ScramMechanism, name: str, *, is_of_token: bool) -> ScramCredential:
        """Return a credential that no password fits."""
        return decoy_credential(
            mechanism,
            name,
            PLAIN_SHAPE if is_of_token else self._shape(mechanism),
            self._secret.reveal(),
        )

    def _shape(self, mechanism: ScramMechanism) -> Shape:
        credentials = self._image().access.scram_credentials
        if credentials is not self._seen:
            self._seen, self._shapes = credentials, {}
        if mechanism not in self._shapes:
            self._shapes[mechanism] = usual_shape(
                found for user, found in credentials.items() if user.mechanism == mechanism
            )
        return self._shapes[mechanism]


class Offer:
    """The mechanisms that one listener offers."""

    _plain_users: Mapping[str, SecretText]

    def __init__(
        self, listener: ListenerConfig, config: SaslConfig, env: NodeEnv, scram_users: ScramUsers
    ) -> None:
        self.config = config
        self._rng = env.rng
        self._scram_users = scram_users
        self._listener = listener.name
        self._plain_users = {}
        self.oauth: oauth.OAuthOffer | None = None
        for name, mechanism in config.mechanisms.items():
            assert mechanism.jaas is not None, "the configuration has one for each mechanism"
            entry = _entry(listener.name, name, mechanism.jaas)
            if name == Mechanism.PLAIN:
                self._plain_users = entry.plain_users()
            elif name == Mechanism.OAUTHBEARER:
                from log_service.security.oauth import (  # noqa: PLC0415 - only a listener that offers it imports it
                    OAuthOffer,
                )

                assert mechanism.oauth is not None, "the configuration has read its keys"
                self.oauth = OAuthOffer(listener.name, mechanism.oauth, entry, env.clock)

    def validate(self, names: Collection[str], texts: Mapping[str, str]) -> None:
        """Validate changes of the listener's JAAS texts.

        Raises:
            ConfigError: a text cannot be used.
        """
        for mechanism in self.config.mechanisms:
            text = texts.get(jaas_key(self._listener, mechanism))
            if text is not None and jaas_key(self._listener, mechanism) in names:
                _entry(self._listener, mechanism, SecretText(text))

    def follow(self, texts: Mapping[str, str]) -> None:
        """Apply the users of PLAIN, from a dynamically set text or else from the node's file.

        Raises:
            ConfigError: the text cannot be used; the previous users stay.
        """
        plain = self.config.mechanisms.get(Mechanism.PLAIN)
        if plain is not None and plain.jaas is not None:
            text = texts.get(jaas_key(self._listener, Mechanism.PLAIN))
            self._plain_users = _entry(
                self._listener, Mechanism.PLAIN, plain.jaas if text is None else SecretText(text)
            ).plain_users()

    def policy(self) -> LoginPolicy:
        """Return the rules for the login sessions of the listener."""
        mechanisms = self.config.mechanisms
        lifetimes = {name: mechanism.max_reauth_ms for name, mechanism in mechanisms.items()}
        return LoginPolicy(mechanisms=tuple(mechanisms), begin=self._begin, max_reauth_ms=lifetimes)

    def _begin(self, name: str) -> ServerExchange:
        if name == Mechanism.PLAIN:
            return PlainServer(self._plain_users)
        if self.oauth is not None and name == Mechanism.OAUTHBEARER:
            return OAuthServer(self.oauth.validate)
        mechanism, users = SCRAM_MECHANISMS[name], self._scram_users
        return ScramServer(
            mechanism,
            random_text(self._rng.getrandbits),
            find=lambda user: users.find(mechanism, user),
            decoy=lambda user, is_of_token: users.decoy(mechanism, user, is_of_token=is_of_token),
        )


class NodeLogins:
    """The logins of all listeners of a node.

    Raises:
        ConfigError: a listener cannot offer the logins of its configuration.
    """

    def __init__(
        self, env: NodeEnv, config: NodeConfig, image: Callable[[], MetadataImage]
    ) -> None:
        self.refusals = LoginQueue()
        self.gate = GuessGate(env.clock)
        self.handlers: dict[str, LoginHandler] = {}
        self._env = env
        self._node_id = str(config.node_id)
        scram_users = ScramUsers(image, DecoySecret(image, config.tokens.secret, env.rng))
        self._tokens = TokenLogins(
            config.tokens.secret, image, clock=env.clock, run_in_pool=env.files.run_in_pool
        )
        self._offers: dict[str, Offer] = {}
        for listener in (*config.listeners, *config.controller_listeners):
            security = listener.security
            if security.sasl is not None:
                self._offers[listener.name] = Offer(listener, security.sasl, env, scram_users)
                for warning in clear_text_warnings(
                    security.protocol, listener.name, security.sasl.mechanisms
                ):
                    logger.warning("%s", warning)

    def __repr__(self) -> str:
        return f"<NodeLogins of {', '.join(self._offers) or 'no listener'}>"

    async def validate(self, names: Collection[str], texts: Mapping[str, str]) -> None:
        """Validate a change of this broker's configuration.

        ``names`` are the changing keys. ``texts`` are all keys and values that would be set.

        Raises:
            ConfigError: a listener could not use it.
        """
        for offer in self._offers.values():
            offer.validate(names, texts)

    def on_image(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply the JAAS texts of the newest metadata if this broker's configuration changed."""
        if (ResourceType.BROKER, self._node_id) not in delta.changed_configs:
            return
        texts = image.configs.of(ResourceType.BROKER, self._node_id)
        for name, offer in self._offers.items():
            try:
                offer.follow(texts)
            except ConfigError as error:
                logger.error("Listener %s keeps its users: %s", name, error)

    async def start(self, nursery: trio.Nursery) -> None:
        """Fetch the keys that check tokens, and refresh them in ``nursery``.

        Raises:
            ConfigError: the keys cannot be fetched.
        """
        for offer in self._offers.values():
            if offer.oauth is not None:
                await offer.oauth.fetch_keys()
                if offer.oauth.jwks is not None:
                    nursery.start_soon(offer.oauth.jwks.run)

    def in_front_of(
        self, handler: FrameHandler, listener: ListenerConfig, start_task: StartTask
    ) -> FrameHandler:
        """Return a listener's frame handler.

        It is ``handler`` itself, or one that handles logins and passes other frames on to
        ``handler``.
        """
        offer = self._offers.get(listener.name)
        if offer is None:
            return handler
        login = self.handlers[listener.name] = LoginHandler(
            handler,
            offer.policy(),
            clock=self._env.clock,
            start_task=start_task,
            find=self._tokens.find,
            refusals=self.refusals,
            gate=self.gate,
            failed_delay_ms=offer.config.failed_delay_ms,
        )
        return login


def _entry(listener: str, mechanism: str, text: SecretText) -> JaasEntry:
    try:
        entry = parse_jaas(text.reveal())
    except ConfigError as error:
        raise ConfigError(
            f"the login module of {mechanism} on listener {listener}: {error}"
        ) from None
    if mechanism not in entry.mechanisms:
        named = " and ".join(entry.mechanisms)
        raise ConfigError(
            f"the login module of {mechanism} on listener {listener} is {entry.login_module}, which"
            f" is for {named}"
        )
    return entry
