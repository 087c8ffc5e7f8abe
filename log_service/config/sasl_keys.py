"""The keys of logins: mechanisms of listeners, lifetimes, and a node's login to other nodes.

This module declares names, types, defaults and bounds, as in Apache Kafka 4.3. ``config.sasl``
decides what they mean for a listener. SASL keys that have no effect here are in ``accepted_keys``.
"""

from typing import Final

from log_service.common.secrets import SecretText
from log_service.config.definition import (
    PER_BROKER,
    ConfigType,
    Trait,
    at_least,
    list_of,
    no_empty_item,
    to,
)
from log_service.config.definition import declared as _key

TOKEN_ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)
"""The signature algorithms of tokens (RFC 7518, 8037), all of them asymmetric."""


def _secret_or_none(text: str | None) -> SecretText | None:
    return SecretText(text) if text else None


OAUTH: Final = Trait.ACCESS | Trait.LISTENER | Trait.MECHANISM | Trait.FILE_ALONE
"""The traits of the keys of OAUTHBEARER."""

SASL_KEYS = (
    _key("sasl.enabled.mechanisms", ConfigType.LIST, "GSSAPI", "The mechanisms that a listener with SASL offers: PLAIN, SCRAM-SHA-256, "
         "SCRAM-SHA-512 and OAUTHBEARER.", "as in Apache Kafka; GSSAPI is not supported, so a listener with SASL must set the key",
         validator=no_empty_item, update_mode=PER_BROKER, traits=Trait.ACCESS | Trait.LISTENER | Trait.FILE_ALONE),
    _key("sasl.jaas.config", ConfigType.PASSWORD, None, "The login module of one mechanism of one listener. The key counts only with "
         "the prefix listener.name.<listener>.<mechanism>. For PLAIN it holds the users, as user_<name>=\"<password>\". username and "
         "password are this node's login to other nodes. A request can change only the users of PLAIN.",
         "none, because each mechanism needs its own", update_mode=PER_BROKER, traits=Trait.ACCESS | Trait.LISTENER | Trait.MECHANISM),
    _key("connections.max.reauth.ms", ConfigType.LONG, "0", "How long a login is valid before the client must log in again. 0 means "
         "for ever.", "clients log in once", traits=Trait.LISTENER | Trait.MECHANISM | Trait.FILE_ALONE),
    _key("connection.failed.authentication.delay.ms", ConfigType.INT, "100", "How long the node waits before it answers a refused "
         "login and closes the connection. 0 also allows wrong passwords of one address and user without a pause between them.",
         "it slows down the guessing of passwords", validator=at_least(0), traits=Trait.LISTENER | Trait.FILE_ALONE),
    _key("sasl.server.max.receive.size", ConfigType.INT, "524288", "The largest request before a login is complete, in bytes.",
         "tokens are small", validator=at_least(1), traits=Trait.LISTENER | Trait.FILE_ALONE),
    _key("sasl.mechanism.inter.broker.protocol", ConfigType.STRING, "GSSAPI", "The mechanism by which nodes log in to brokers, if the "
         "listener between brokers has SASL.", "as in Apache Kafka; GSSAPI is not supported, so such a listener needs another one",
         update_mode=PER_BROKER, traits=Trait.ACCESS | Trait.FILE_ALONE),
    _key("sasl.mechanism.controller.protocol", ConfigType.STRING, "GSSAPI", "The mechanism by which nodes log in to controllers, if "
         "the controllers' listener has SASL.", "as in Apache Kafka; GSSAPI is not supported, so such a listener needs another one",
         traits=Trait.ACCESS),
    _key("sasl.oauthbearer.clock.skew.seconds", ConfigType.INT, "30", "How far the clocks of issuers may differ from this node's, in "
         "seconds.", "clocks are rarely further apart", validator=at_least(0), traits=OAUTH),
    _key("sasl.oauthbearer.expected.audience", ConfigType.LIST, "", "The audiences that a token may have. A token must have one of "
         "them. Empty refuses tokens that have an audience.", "tokens without an audience need no setting", validator=no_empty_item,
         traits=OAUTH),
    _key("sasl.oauthbearer.expected.issuer", ConfigType.STRING, None, "The issuer that a token must have.",
         "every issuer whose key is known", traits=OAUTH),
    _key("sasl.oauthbearer.jwks.endpoint.refresh.ms", ConfigType.LONG, "3600000", "How often the issuer's keys are fetched.",
         "keys change rarely, and an unknown key is fetched at once", validator=at_least(0), traits=OAUTH),
    _key("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", ConfigType.LONG, "10000", "The longest pause before keys are fetched "
         "again after a failure.", "the end of a failure is noticed soon", validator=at_least(0), traits=OAUTH),
    _key("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", ConfigType.LONG, "100", "The first pause before keys are fetched again "
         "after a failure. Each further failure doubles it.", "most failures are short", validator=at_least(0), traits=OAUTH),
    _key("sasl.oauthbearer.jwks.endpoint.url", ConfigType.STRING, None, "The http, https or file URL of the issuer's keys. "
         "sasl.oauthbearer.allowed.urls must contain it.", "none; without it tokens cannot be checked", traits=OAUTH),
    _key("sasl.oauthbearer.jwt.validator.class", ConfigType.CLASS, "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
         "The class that checks tokens. Only Apache Kafka's own classes are known.", "signatures are checked", traits=OAUTH),
    _key("sasl.oauthbearer.scope.claim.name", ConfigType.STRING, "scope", "The claim that holds a token's scopes.", "the usual name",
         traits=OAUTH),
    _key("sasl.oauthbearer.sub.claim.name", ConfigType.STRING, "sub", "The claim that names the principal.", "the usual name",
         traits=OAUTH),
    _key("sasl.server.callback.handler.class", ConfigType.CLASS, None, "The class that checks logins. Only Apache Kafka's own classes "
         "for OAUTHBEARER are known.", "each mechanism has its own check", traits=OAUTH),
    _key("sasl.oauthbearer.allowed.algorithms", ConfigType.LIST, "", f"The algorithms that tokens may be signed by, some of "
         f"{', '.join(TOKEN_ALGORITHMS)}. Empty: each that the issuer's key takes. Kafka has no key for it.",
         "an algorithm has to fit the issuer's key as it is", validator=list_of(*TOKEN_ALGORITHMS), traits=OAUTH | Trait.OWN),
    _key("sasl.oauthbearer.allowed.urls", ConfigType.LIST, "", "The URLs that this node may fetch keys and its token from, spelled as "
         "in sasl.oauthbearer.jwks.endpoint.url and sasl.oauthbearer.token.endpoint.url. Apache Kafka has a JVM property for it.",
         "none, because a user who may change a broker's keys must not make the broker fetch any URL", validator=no_empty_item,
         traits=OAUTH | Trait.OWN),
    _key("sasl.oauthbearer.token.endpoint.url", ConfigType.STRING, None, "The source of this node's own token for logins to other "
         "nodes. It is the file: URL of a file, which is read at each login, or the http or https URL of an endpoint that issues "
         "tokens for an id and a secret. sasl.oauthbearer.allowed.urls must contain it.", "none; nodes log in by another mechanism",
         traits=OAUTH),
    _key("sasl.oauthbearer.client.credentials.client.id", ConfigType.STRING, None, "The client id that this node sends to the token "
         "endpoint. The JAAS text may give it as clientId instead.", "none; the JAAS text gives it, or there is no endpoint",
         traits=OAUTH),
    _key("sasl.oauthbearer.client.credentials.client.secret", ConfigType.PASSWORD, None, "The secret of that client id. The JAAS text "
         "may give it as clientSecret instead.", "none; the JAAS text gives it, or there is no endpoint", traits=OAUTH),
    _key("sasl.oauthbearer.scope", ConfigType.STRING, None, "The scope that this node requests for its token. The JAAS text may give "
         "it as scope instead.", "the endpoint's own default", traits=OAUTH),
    _key("sasl.oauthbearer.unsecured.tokens.allowed", ConfigType.BOOLEAN, "false", "Whether OAUTHBEARER accepts unsigned tokens. Then "
         "a client can claim to be any user, so set it for trials only.", "a client must prove its identity; Apache Kafka accepts such "
         "tokens if no handler is set", traits=OAUTH | Trait.OWN),
    _key("delegation.token.secret.key", ConfigType.PASSWORD, None, "The secret that delegation tokens are derived from. It must be the "
         "same on all nodes of a cluster.", "none; the cluster has no delegation tokens", traits=Trait.ACCESS,
         fields=to("TokenConfig.secret", _secret_or_none)),
    _key("delegation.token.max.lifetime.ms", ConfigType.LONG, "604800000", "The time from a token's creation during which it may be "
         "renewed.", "a week", validator=at_least(1), fields=to("TokenConfig.max_lifetime_ms")),
    _key("delegation.token.expiry.time.ms", ConfigType.LONG, "86400000", "How long a token is valid after it was created or renewed.",
         "a day", validator=at_least(1), fields=to("TokenConfig.expiry_time_ms")),
    _key("delegation.token.expiry.check.interval.ms", ConfigType.LONG, "3600000", "How often expired tokens are removed.",
         "it is short compared with an expiry of a day", validator=at_least(1), fields=to("TokenConfig.expiry_check_interval_ms")),
)  # fmt: skip
