"""Keys and authorities are read out of every kind of store.

The error names the content of a store that holds something else.
"""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from log_service.common.errors import ConfigError
from log_service.config.security import TlsConfig
from log_service.security.tls.contexts import client_context, host_names, server_context
from log_service.security.tls.distinguished_names import subject_text
from log_service.security.tls.material import MAX_KEYS, files_of, read_keys, read_trust
from tests.helpers.authority import PASSWORD, Authority, Issued
from tests.helpers.tls_network import tls_config_of

FACTS = Path(__file__).parent / "facts"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def issued(authority: Authority) -> Issued:
    return authority.issue("node")


def der(issued: Issued) -> bytes:
    return issued.certificate.public_bytes(serialization.Encoding.DER)


def config(**texts: object) -> TlsConfig:
    """Return the configuration of keys whose names are given with underscores."""
    return tls_config_of(
        {f"ssl.{name.replace('_', '.')}": str(text) for name, text in texts.items()}
    )


def key_configs(issued: Issued, encrypted: Issued) -> list[tuple[TlsConfig, Issued]]:
    one_line = issued.key_text.replace("\n", " ")
    return [
        (config(keystore_type="PEM", keystore_location=issued.keystore), issued),
        (
            config(
                keystore_type="PEM",
                keystore_location=encrypted.keystore,
                key_password="open sesame",
            ),
            encrypted,
        ),
        (
            config(
                keystore_type="PEM",
                keystore_key=issued.key_text,
                keystore_certificate_chain=issued.chain_text,
            ),
            issued,
        ),
        (
            config(
                keystore_type="PEM",
                keystore_key=one_line,
                keystore_certificate_chain=issued.chain_text,
            ),
            issued,
        ),
        (
            config(
                keystore_type="PKCS12",
                keystore_location=issued.keystore_p12,
                keystore_password=PASSWORD,
            ),
            issued,
        ),
        (config(keystore_location=issued.keystore_p12, keystore_password=PASSWORD), issued),
    ]


def test_a_key_is_read_from_every_kind_of_store(authority: Authority, issued: Issued) -> None:
    for configured, expected in key_configs(
        issued, authority.issue("other", key_password="open sesame")
    ):
        (found,) = read_keys(configured, Path.read_bytes)
        assert found.chain[0] == der(expected), configured
        assert server_context(configured, Path.read_bytes).key == found
    (java,) = read_keys(
        config(
            keystore_location=FACTS / "key.jks",
            keystore_password=PASSWORD,
            key_password="changeit2",
        ),
        Path.read_bytes,
    )
    assert "BEGIN PRIVATE KEY" in java.key.reveal()


def test_several_keys_are_read_in_order_each_with_its_chain(
    authority: Authority, issued: Issued, tmp_path: Path
) -> None:
    other, encrypted = (
        authority.issue("other"),
        authority.issue("encrypted", key_password="open sesame"),
    )
    store = tmp_path / "several.pem"
    store.write_text("".join(each.keystore.read_text() for each in (other, encrypted, issued)))
    configured = config(keystore_type="PEM", keystore_location=store, key_password="open sesame")
    assert [key.chain for key in read_keys(configured, Path.read_bytes)] == [
        (der(each),) for each in (other, encrypted, issued)
    ]
    assert server_context(configured, Path.read_bytes).keys == read_keys(
        configured, Path.read_bytes
    )
    shown = client_context(configured, Path.read_bytes).key
    assert shown is not None
    assert shown.chain == (der(other),)


def test_the_aliases_of_a_java_key_store_are_the_order_of_its_keys() -> None:
    """The store is keytool's: ``zebra`` was made before ``apple``."""
    configured = config(keystore_location=FACTS / "two.jks", keystore_password=PASSWORD)
    assert [subject_text(key.chain[0]) for key in read_keys(configured, Path.read_bytes)] == [
        "CN=apple",
        "CN=zebra",
    ]
    contexts = server_context(configured, Path.read_bytes)
    assert [list(host_names(key.chain[0])) for key in contexts.keys] == [
        ["apple.example"],
        ["zebra.example"],
    ]


def test_authorities_are_read_from_every_kind_of_store(
    authority: Authority, issued: Issued
) -> None:
    root = authority.certificate.public_bytes(serialization.Encoding.DER)
    for configured in (
        config(truststore_type="PEM", truststore_location=issued.truststore),
        config(truststore_type="PEM", truststore_certificates=issued.truststore_text),
        config(
            truststore_type="PKCS12",
            truststore_location=issued.truststore_p12,
            truststore_password=PASSWORD,
        ),
        config(truststore_location=issued.truststore_p12, truststore_password=PASSWORD),
    ):
        found = read_trust(configured, Path.read_bytes)
        assert found is not None
        assert found.certificates == (root,)
        assert client_context(configured, Path.read_bytes).trust == found
    for password in ("changeit", ""):
        java = read_trust(
            config(truststore_location=FACTS / "trust.jks", truststore_password=password),
            Path.read_bytes,
        )
        assert java is not None
        assert len(java.certificates) == 1


def test_nothing_configured_is_nothing() -> None:
    assert read_keys(config(), Path.read_bytes) == ()
    assert read_trust(config(), Path.read_bytes) is None
    assert files_of(config()) == ()


def test_no_repr_shows_a_key(issued: Issued) -> None:
    configured = config(
        keystore_type="PEM",
        keystore_key=issued.key_text,
        keystore_certificate_chain=issued.chain_text,
    )
    found = read_keys(configured, Path.read_bytes)
    secret = issued.key_text.splitlines()[1]
    assert secret not in repr(configured)
    assert secret not in repr(found)


def unusable_binary_stores(issued: Issued, garbage: Path) -> list[tuple[TlsConfig, str]]:
    """Return stores of PKCS12 and JKS, or none at all, and why each cannot be used."""
    return [
        (
            config(keystore_location=issued.keystore_p12, keystore_password="no"),
            "its password is wrong, or it is neither PKCS12 nor JKS",
        ),
        (
            config(keystore_location=garbage, keystore_password="no"),
            "its password is wrong, or it is neither PKCS12 nor JKS",
        ),
        (
            config(keystore_location=issued.truststore_p12, keystore_password=PASSWORD),
            "holds no private key with its certificate",
        ),
        (
            config(keystore_location=FACTS / "key.jks", keystore_password="no"),
            "keytool -importkeystore",
        ),
        (
            config(keystore_location=FACTS / "key.jks", keystore_password=PASSWORD),
            "the password of the key 'one' is wrong",
        ),
        (config(), "a listener with TLS needs a key store"),
    ]


def test_stores_that_cannot_be_used_are_refused_with_what_to_do(
    authority: Authority, issued: Issued, tmp_path: Path
) -> None:
    other, encrypted = (
        authority.issue("other"),
        authority.issue("encrypted", key_password="open sesame"),
    )
    garbage = tmp_path / "garbage"
    garbage.write_bytes(b"\x30\x82garbage")
    both = tmp_path / "both.pem"
    both.write_text(issued.key_text + other.key_text + issued.chain_text)
    swapped, many = tmp_path / "swapped.pem", tmp_path / "many.pem"
    swapped.write_text(issued.key_text + other.chain_text + other.key_text + issued.chain_text)
    many.write_text((issued.key_text + issued.chain_text) * (MAX_KEYS + 1))
    cases = [
        (
            config(keystore_type="PEM", keystore_location="/nowhere"),
            "ssl.keystore.location names /nowhere, which cannot be read",
        ),
        (
            config(keystore_type="PEM", keystore_location=issued.chain),
            "holds 0 private keys in PEM",
        ),
        (config(keystore_type="PEM", keystore_location=issued.key), "holds no certificate in PEM"),
        (
            config(keystore_type="PEM", keystore_location=both),
            "both.pem (private key 1 of 2) holds no certificate in PEM",
        ),
        (
            config(keystore_type="PEM", keystore_location=swapped),
            "swapped.pem (private key 1 of 2): the private key does not belong",
        ),
        (
            config(keystore_type="PEM", keystore_location=many),
            f"holds {MAX_KEYS + 1} private keys in PEM; there have to be 1 to ",
        ),
        (
            config(keystore_type="PEM", keystore_location=encrypted.keystore),
            "is encrypted; set ssl.key.password",
        ),
        (
            config(keystore_type="PEM", keystore_location=encrypted.keystore, key_password="no"),
            "ssl.key.password does not open",
        ),
        (
            config(
                keystore_type="PEM",
                keystore_key=other.key_text,
                keystore_certificate_chain=issued.chain_text,
            ),
            "does not belong to the",
        ),
        *unusable_binary_stores(issued, garbage),
    ]
    for configured, named in cases:
        with pytest.raises(ConfigError) as raised:
            server_context(configured, Path.read_bytes)
        assert named in str(raised.value)
        assert "open sesame" not in str(raised.value)
    with pytest.raises(ConfigError, match="holds no certificate in PEM"):
        client_context(
            config(truststore_type="PEM", truststore_location=issued.key), Path.read_bytes
        )


@pytest.mark.parametrize(
    ("texts", "named"),
    [
        ({"keystore_key": "k", "keystore_certificate_chain": "c"}, "set ssl.keystore.type=PEM"),
        (
            {"keystore_type": "PEM", "keystore_key": "k"},
            "ssl.keystore.certificate.chain is missing",
        ),
        (
            {
                "keystore_type": "PEM",
                "keystore_key": "k",
                "keystore_certificate_chain": "c",
                "keystore_location": "/k",
            },
            "keep one of them",
        ),
        ({"keystore_location": "/k"}, "ssl.keystore.password is missing"),
        (
            {"keystore_type": "PEM", "keystore_location": "/k", "keystore_password": "p"},
            "does not belong to a PEM key store",
        ),
        ({"keystore_type": "BCFKS"}, "it must be one of JKS, PKCS12, PEM"),
        ({"truststore_certificates": "c"}, "set ssl.truststore.type=PEM"),
        (
            {"truststore_type": "PEM", "truststore_location": "/t", "truststore_password": "p"},
            "does not belong to a PEM trust store",
        ),
        ({"enabled_protocols": "TLSv1.2,SSLv3"}, "names 'SSLv3'"),
        ({"client_auth": "maybe"}, "it must be one of required, requested, none"),
        ({"endpoint_identification_algorithm": "ldaps"}, "it must be https, or empty"),
        (
            {"engine_factory_class": "com.example.Factory"},
            "names a Java class, which cannot run here",
        ),
    ],
)
def test_keys_that_contradict_each_other_are_refused(texts: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as raised:
        config(**texts)
    assert named in str(raised.value)
