"""The keys of a broker's connection to a schema registry, by Confluent's names.

This module declares names, types and defaults. ``config.schema_registry`` decides what they mean
together. The TLS keys are those of ``tls_keys`` with ``confluent.`` before them.
"""

from dataclasses import replace
from typing import Final

from log_service.config.definition import (
    READ_ONLY,
    ConfigKey,
    ConfigType,
    Trait,
    no_empty_item,
    one_of,
)
from log_service.config.tls_keys import TLS_KEYS

URL: Final = "confluent.schema.registry.url"
LOGIN_SOURCE: Final = "confluent.basic.auth.credentials.source"
LOGIN: Final = "confluent.basic.auth.user.info"
PREFIX: Final = "confluent."
_OF_SERVERS_ALONE: Final = frozenset(
    {
        "ssl.client.auth",
        "ssl.principal.mapping.rules",
        "ssl.allow.dn.changes",
        "ssl.allow.san.changes",
    }
)

REGISTRY_TLS_KEYS: Final = tuple(
    replace(
        key,
        name=PREFIX + key.name,
        documentation=f"{key.documentation} Applies to connections to the schema registry.",
        update_mode=READ_ONLY,
        traits=Trait.OWN,
    )
    for key in TLS_KEYS
    if key.name not in _OF_SERVERS_ALONE
)

SCHEMA_REGISTRY_KEYS: Final = (
    ConfigKey(
        name=URL,
        type=ConfigType.LIST,
        default="",
        validator=no_empty_item,
        documentation="The URLs of the schema registry for topics with "
        "confluent.value.schema.validation or confluent.key.schema.validation, such as "
        "http://127.0.0.1:8081. They are tried in turn. Every node needs them, controllers too.",
        reason="no registry is used, and topics cannot turn validation on",
        traits=Trait.OWN,
    ),
    ConfigKey(
        name=LOGIN_SOURCE,
        type=ConfigType.STRING,
        default="USER_INFO",
        validator=one_of("USER_INFO"),
        documentation=f"The source of the login to the schema registry. USER_INFO is {LOGIN}.",
        reason="URLs appear in logs, so a login must not be in them",
        traits=Trait.OWN,
    ),
    ConfigKey(
        name=LOGIN,
        type=ConfigType.PASSWORD,
        default=None,
        documentation="The login to the schema registry, as user:password.",
        reason="the registry asks for no login, or for a certificate",
        traits=Trait.OWN,
    ),
    *REGISTRY_TLS_KEYS,
)
