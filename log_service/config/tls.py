"""The ``ssl.*`` keys of a listener or a client, as one ``TlsConfig``.

This module decides which text applies (``config.security.effective_text``) and which keys
contradict each other. It opens no file, because ``security.tls`` reads the stores. An empty text
counts as unset, as in Apache Kafka.
"""

from collections.abc import Mapping
from typing import Final

from log_service.common.errors import ConfigError
from log_service.common.secrets import SecretText
from log_service.config.definition import split_list
from log_service.config.security import TlsConfig, effective_text
from log_service.config.tls_keys import TLS_KEYS

TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
CLIENT_AUTHS = ("none", "requested", "required")
STORE_TYPES = ("JKS", "PKCS12", "PEM")
JAVA_ONLY = ("ssl.engine.factory.class", "ssl.provider")
"""Keys that name Java classes. A listener that needs one cannot be served."""
DEFAULTS: Final = {key.name: key.default or "" for key in TLS_KEYS}


def tls_config(
    texts: Mapping[str, str], listener: str | None = None, *, is_sasl: bool = False
) -> TlsConfig:
    """Return the TLS configuration of a listener, or of a client if ``listener`` is None.

    On a listener with SASL only the ``ssl.client.auth`` with the listener's prefix counts, not the
    general one (KIP-684).

    Raises:
        ConfigError: a value is not valid for its key, or two keys contradict each other.
    """
    reader = _Texts(texts, listener)
    for name in JAVA_ONLY:
        if reader.text(name) is not None:
            raise ConfigError(
                f"{reader.where(name)} names a Java class, which cannot run here; remove the key"
            )
    config = TlsConfig(
        keystore_type=reader.choice("ssl.keystore.type", STORE_TYPES),
        keystore_location=reader.text("ssl.keystore.location"),
        keystore_password=reader.secret("ssl.keystore.password"),
        keystore_key=reader.secret("ssl.keystore.key"),
        keystore_certificate_chain=reader.secret("ssl.keystore.certificate.chain"),
        key_password=reader.secret("ssl.key.password"),
        truststore_type=reader.choice("ssl.truststore.type", STORE_TYPES),
        truststore_location=reader.text("ssl.truststore.location"),
        truststore_password=reader.secret("ssl.truststore.password"),
        truststore_certificates=reader.secret("ssl.truststore.certificates"),
        enabled_protocols=_protocols(reader),
        cipher_suites=split_list(reader.text("ssl.cipher.suites") or DEFAULTS["ssl.cipher.suites"]),
        client_auth=_client_auth(reader, is_sasl=is_sasl),
        endpoint_identification_algorithm=_identification(reader),
        principal_mapping_rules=reader.text("ssl.principal.mapping.rules")
        or DEFAULTS["ssl.principal.mapping.rules"],
    )
    _validate_keystore(config, reader)
    _validate_truststore(config, reader)
    return config


class _Texts:
    """The texts that apply to one listener or client."""

    def __init__(self, texts: Mapping[str, str], listener: str | None) -> None:
        self._texts = texts
        self._listener = listener

    def raw(self, name: str) -> str | None:
        """Return the text of a key, even if empty."""
        return (
            self._texts.get(name)
            if self._listener is None
            else effective_text(self._texts, name, self._listener)
        )

    def text(self, name: str) -> str | None:
        """Return the text of a key, None if it is missing or empty."""
        return (self.raw(name) or "").strip() or None

    def own(self, name: str) -> str | None:
        """Return the text of a key with the listener's prefix, or None.

        The key without the prefix is ignored.
        """
        return self._texts.get(self._prefixed(name))

    def secret(self, name: str) -> SecretText | None:
        """Return a secret text, or None if it is missing or empty.

        Blanks around it are part of the secret.
        """
        text = self.raw(name)
        return SecretText(text) if text else None

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """Return one of the choices, compared case-insensitively."""
        text = (self.text(name) or DEFAULTS[name]).upper()
        if text not in choices:
            raise ConfigError(
                f"{self.where(name)} is {self.text(name)!r}; it must be one of {', '.join(choices)}"
            )
        return text

    def where(self, name: str) -> str:
        """Return the full name of the key in effect, for error texts."""
        return self._prefixed(name) if self._prefixed(name) in self._texts else name

    def _prefixed(self, name: str) -> str:
        return name if self._listener is None else f"listener.name.{self._listener.lower()}.{name}"


def _protocols(reader: _Texts) -> tuple[str, ...]:
    names = split_list(reader.text("ssl.enabled.protocols") or DEFAULTS["ssl.enabled.protocols"])
    unknown = [name for name in names if name not in TLS_VERSIONS]
    if unknown:
        where = reader.where("ssl.enabled.protocols")
        raise ConfigError(
            f"{where} names {unknown[0]!r}; there are {' and '.join(TLS_VERSIONS)}, and what is"
            " older is not safe"
        )
    return tuple(dict.fromkeys(names))


def _client_auth(reader: _Texts, *, is_sasl: bool) -> str:
    text = reader.own("ssl.client.auth") if is_sasl else reader.text("ssl.client.auth")
    text = (text or DEFAULTS["ssl.client.auth"]).strip().lower()
    if text not in CLIENT_AUTHS:
        raise ConfigError(
            f"{reader.where('ssl.client.auth')} is {text!r}; it must be one of"
            f" {', '.join(CLIENT_AUTHS)}"
        )
    return text


def _identification(reader: _Texts) -> str:
    name = "ssl.endpoint.identification.algorithm"
    raw = reader.raw(name)
    text = DEFAULTS[name] if raw is None else raw.strip().lower()
    if text not in {"", "https"}:
        raise ConfigError(
            f"{reader.where(name)} is {text!r}; it must be https, or empty to compare no names"
        )
    return text


def _validate_keystore(config: TlsConfig, reader: _Texts) -> None:
    key, chain, location = (
        config.keystore_key,
        config.keystore_certificate_chain,
        config.keystore_location,
    )
    where = reader.where("ssl.keystore.type")
    if key is not None or chain is not None:
        if config.keystore_type != "PEM":
            raise ConfigError(
                f"{where} is {config.keystore_type}, but ssl.keystore.key is PEM text; set"
                f" {where}=PEM"
            )
        if location is not None:
            raise ConfigError(
                "ssl.keystore.key and ssl.keystore.location are both set; keep one of them"
            )
        if key is None or chain is None:
            missing = "ssl.keystore.key" if key is None else "ssl.keystore.certificate.chain"
            raise ConfigError(
                f"{reader.where(missing)} is missing; PEM text needs ssl.keystore.key and"
                " ssl.keystore.certificate.chain"
            )
    if location is not None and config.keystore_type != "PEM" and config.keystore_password is None:
        raise ConfigError(
            f"ssl.keystore.password is missing; a key store of type {config.keystore_type} has one"
            f" ({location})"
        )
    if config.keystore_type == "PEM" and config.keystore_password is not None:
        raise ConfigError(
            "ssl.keystore.password does not belong to a PEM key store; an encrypted key has"
            " ssl.key.password"
        )


def _validate_truststore(config: TlsConfig, reader: _Texts) -> None:
    where = reader.where("ssl.truststore.type")
    if config.truststore_certificates is not None:
        if config.truststore_type != "PEM":
            raise ConfigError(
                f"{where} is {config.truststore_type}, but ssl.truststore.certificates is PEM text;"
                f" set {where}=PEM"
            )
        if config.truststore_location is not None:
            raise ConfigError(
                "ssl.truststore.certificates and ssl.truststore.location are both set; keep one of"
                " them"
            )
    if config.truststore_type == "PEM" and config.truststore_password is not None:
        raise ConfigError(
            "ssl.truststore.password does not belong to a PEM trust store; certificates are not"
            " encrypted"
        )
