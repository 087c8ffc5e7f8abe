"""The keys of logins: which mechanisms listeners offer, how long a login holds, and how a node logs in to others.

Decides names, types, defaults and bounds, as facts of Apache Kafka 4.3; ``config.sasl`` decides what they mean for a listener. Keys of SASL
that have no effect here are in ``accepted_keys``.
"""

from log_service.config.definition import ConfigKey, ConfigType, Importance, Validator, at_least, no_empty_item


def _key(
    name: str, config_type: ConfigType, default: str | None, documentation: str, reason: str, *, validator: Validator | None = None
) -> ConfigKey:
    return ConfigKey(
        name=name,
        type=config_type,
        default=default,
        documentation=documentation,
        reason=reason,
        validator=validator,
        importance=Importance.MEDIUM,
    )


SASL_KEYS = (
    _key("sasl.enabled.mechanisms", ConfigType.LIST, "GSSAPI", "The mechanisms that a listener with SASL offers, some of PLAIN, "
         "SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER.", "Kafka's; GSSAPI is not there, so that a listener with SASL has to name others",
         validator=no_empty_item),
    _key("sasl.jaas.config", ConfigType.PASSWORD, None, "The login module of one mechanism of one listener; counts with the prefix "
         "listener.name.<listener>.<mechanism>. only. For PLAIN it holds the users, as user_<name>=\"<password>\". username and password "
         "are what this node shows to other nodes.", "none, each mechanism needs one"),
    _key("connections.max.reauth.ms", ConfigType.LONG, "0", "How long a login holds before the client has to log in again; 0 is for ever.",
         "clients log in once"),
    _key("connection.failed.authentication.delay.ms", ConfigType.INT, "100", "How long a refused login is kept waiting before it is told "
         "and closed.", "guessing passwords takes time", validator=at_least(0)),
    _key("sasl.server.max.receive.size", ConfigType.INT, "524288", "The largest request, in bytes, before a login is complete.",
         "tokens are small", validator=at_least(1)),
)  # fmt: skip
