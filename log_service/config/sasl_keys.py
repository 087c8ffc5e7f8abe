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
    _key("sasl.enabled.mechanisms", ConfigType.LIST, "GSSAPI", "The mechanisms that a listener with SASL offers, some of PLAIN, "
         "SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER.", "Kafka's; GSSAPI is not there, so that a listener with SASL has to name others",
         validator=no_empty_item, update_mode=PER_BROKER, traits=Trait.ACCESS | Trait.LISTENER | Trait.FILE_ALONE),
    _key("sasl.jaas.config", ConfigType.PASSWORD, None, "The login module of one mechanism of one listener; counts with the prefix "
         "listener.name.<listener>.<mechanism>. only. For PLAIN it holds the users, as user_<name>=\"<password>\". username and password "
         "are what this node shows to other nodes. A request changes the users of PLAIN, and nothing else.",
         "none, each mechanism needs one", update_mode=PER_BROKER, traits=Trait.ACCESS | Trait.LISTENER | Trait.MECHANISM),
    _key("connections.max.reauth.ms", ConfigType.LONG, "0", "How long a login holds before the client has to log in again; 0 is for ever.",
         "clients log in once", traits=Trait.LISTENER | Trait.MECHANISM | Trait.FILE_ALONE),
    _key("connection.failed.authentication.delay.ms", ConfigType.INT, "100", "How long a refused login is kept waiting before it is told "
         "and closed. 0 also lets wrong passwords of one address and user follow each other without a pause.",
         "guessing passwords takes time", validator=at_least(0), traits=Trait.LISTENER | Trait.FILE_ALONE),
    _key("sasl.server.max.receive.size", ConfigType.INT, "524288", "The largest request, in bytes, before a login is complete.",
         "tokens are small", validator=at_least(1), traits=Trait.LISTENER | Trait.FILE_ALONE),
    _key("sasl.mechanism.inter.broker.protocol", ConfigType.STRING, "GSSAPI", "The mechanism by which nodes log in to each other's "
         "brokers, where the listener between them has SASL.", "Kafka's; GSSAPI is not there, name another", update_mode=PER_BROKER,
         traits=Trait.ACCESS | Trait.FILE_ALONE),
    _key("sasl.mechanism.controller.protocol", ConfigType.STRING, "GSSAPI", "The mechanism by which nodes log in to controllers, where "
         "their listener has SASL.", "Kafka's; GSSAPI is not there, name another", traits=Trait.ACCESS),
    _key("sasl.oauthbearer.clock.skew.seconds", ConfigType.INT, "30",
         "How far the clocks of issuers may differ from this node's, in seconds.",
         "clocks differ", validator=at_least(0), traits=OAUTH),
    _key("sasl.oauthbearer.expected.audience", ConfigType.LIST, "",
         "The audiences that a token may be for; it must be for one of them. Empty: tokens for an audience are refused.",
         "no audience", validator=no_empty_item, traits=OAUTH),
    _key("sasl.oauthbearer.expected.issuer", ConfigType.STRING, None, "The issuer that a token must be of.", "any whose key is there",
         traits=OAUTH),
    _key("sasl.oauthbearer.jwks.endpoint.refresh.ms", ConfigType.LONG, "3600000",
         "How often the issuer's keys are fetched.",
         "keys change rarely; one that is not known is fetched at once", validator=at_least(0), traits=OAUTH),
    _key("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", ConfigType.LONG, "10000",
         "The longest pause before keys are fetched again after a failure.",
         "an issuer that comes back is noticed", validator=at_least(0), traits=OAUTH),
    _key("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", ConfigType.LONG, "100",
         "The first pause before keys are fetched again after a failure; it doubles.",
         "short failures pass", validator=at_least(0), traits=OAUTH),
    _key("sasl.oauthbearer.jwks.endpoint.url", ConfigType.STRING, None,
         "Where the issuer's keys are: an http, https or file URL that sasl.oauthbearer.allowed.urls has.",
         "none, tokens cannot be checked without", traits=OAUTH),
    _key("sasl.oauthbearer.jwt.validator.class", ConfigType.CLASS, "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
         "What checks tokens, by the name of Kafka's class; only its own are understood.",
         "signatures are checked", traits=OAUTH),
    _key("sasl.oauthbearer.scope.claim.name", ConfigType.STRING, "scope", "The claim that holds a token's scopes.", "the usual one",
         traits=OAUTH),
    _key("sasl.oauthbearer.sub.claim.name", ConfigType.STRING, "sub", "The claim that names the principal.", "the usual one", traits=OAUTH),
    _key("sasl.server.callback.handler.class", ConfigType.CLASS, None,
         "What checks logins, by the name of Kafka's class; only its own for OAUTHBEARER are understood.",
         "what a mechanism has by itself", traits=OAUTH),
    _key("sasl.oauthbearer.allowed.algorithms", ConfigType.LIST, "", f"The algorithms that tokens may be signed by, some of "
         f"{', '.join(TOKEN_ALGORITHMS)}. Empty: each that the issuer's key takes. Kafka has no key for it.",
         "an algorithm has to fit the issuer's key as it is", validator=list_of(*TOKEN_ALGORITHMS), traits=OAUTH | Trait.OWN),
    _key("sasl.oauthbearer.allowed.urls", ConfigType.LIST, "", "The URLs that this node may fetch keys and read its token from, exactly as "
         "they stand in sasl.oauthbearer.jwks.endpoint.url and sasl.oauthbearer.token.endpoint.url; Kafka has a JVM property for it.",
         "none: who may change keys of a broker must not make it fetch what he likes", validator=no_empty_item, traits=OAUTH | Trait.OWN),
    _key("sasl.oauthbearer.token.endpoint.url", ConfigType.STRING, None, "Where this node's own token is, with which it logs in to other "
         "nodes: the file: URL of a file, which is read at each login, or the http or https URL of an endpoint that gives tokens for an id "
         "and a secret. sasl.oauthbearer.allowed.urls must have it.",
         "none, nodes log in otherwise", traits=OAUTH),
    _key("sasl.oauthbearer.client.credentials.client.id", ConfigType.STRING, None, "The id that this node shows to the endpoint which "
         "gives it a token; the JAAS text may have it as clientId.", "none, the JAAS text has it, or no endpoint is asked", traits=OAUTH),
    _key("sasl.oauthbearer.client.credentials.client.secret", ConfigType.PASSWORD, None, "The secret that goes with the id; the JAAS text "
         "may have it as clientSecret.", "none, the JAAS text has it, or no endpoint is asked", traits=OAUTH),
    _key("sasl.oauthbearer.scope", ConfigType.STRING, None, "What this node's token is to be for; the JAAS text may have it as scope.",
         "what the endpoint gives by itself", traits=OAUTH),
    _key("sasl.oauthbearer.unsecured.tokens.allowed", ConfigType.BOOLEAN, "false", "Whether OAUTHBEARER takes tokens without signatures, "
         "so that every client is who it says. For trials alone.", "Kafka takes them where no handler is named; a client must prove "
         "who it is", traits=OAUTH | Trait.OWN),
    _key("delegation.token.secret.key", ConfigType.PASSWORD, None, "The secret that delegation tokens are made from, the same on all "
         "nodes of a cluster.", "none, there are no tokens", traits=Trait.ACCESS, fields=to("TokenConfig.secret", _secret_or_none)),
    _key("delegation.token.max.lifetime.ms", ConfigType.LONG, "604800000", "How long a token may be renewed.", "a week",
         validator=at_least(1), fields=to("TokenConfig.max_lifetime_ms")),
    _key("delegation.token.expiry.time.ms", ConfigType.LONG, "86400000", "How long a token holds until it is renewed.", "a day",
         validator=at_least(1), fields=to("TokenConfig.expiry_time_ms")),
    _key("delegation.token.expiry.check.interval.ms", ConfigType.LONG, "3600000", "How often tokens that have expired are removed.",
         "coarse beside a day", validator=at_least(1), fields=to("TokenConfig.expiry_check_interval_ms")),
)  # fmt: skip
