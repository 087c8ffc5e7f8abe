"""The name in a certificate reads as Java writes it, and rules make users of names.

Suites have OpenSSL's names, and JKS is read.
"""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from log_service.common.errors import ConfigError
from log_service.common.secrets import SecretText
from log_service.security.tls.cipher_suites import TLS13_SUITES, CipherChoice, choose_ciphers
from log_service.security.tls.distinguished_names import name_text, subject_text
from log_service.security.tls.java_key_store import read_java_key_store
from log_service.security.tls.principal_mapping import NoRuleMatchesError, PrincipalMapping
from tests.helpers.authority import Authority

FACTS = Path(__file__).parent / "facts"
JAVA = json.loads((FACTS / "names.json").read_text())
"""Names in DER, and what ``X500Principal.getName()`` of Java 17 made of each."""


@pytest.mark.parametrize("der", JAVA)
def test_a_name_reads_as_java_writes_it(der: str) -> None:
    assert name_text(bytes.fromhex(der)) == JAVA[der]


def test_the_subject_of_a_certificate_is_found(tmp_path: Path) -> None:
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "A, B"),
            x509.NameAttribute(NameOID.COMMON_NAME, "orders"),
        ]
    )
    issued = Authority(tmp_path).issue("orders", subject=subject)
    assert (
        subject_text(issued.certificate.public_bytes(serialization.Encoding.DER))
        == "CN=orders,O=A\\, B"
    )


@given(st.binary(max_size=60))
def test_any_bytes_are_a_name_or_an_error(content: bytes) -> None:
    for read in (name_text, subject_text):
        with suppress(ValueError):
            assert isinstance(read(content), str)


@pytest.mark.parametrize("der", [der for der in JAVA if len(der) > 4][:6])
def test_a_name_that_is_cut_is_an_error(der: str) -> None:
    for end in range(1, len(der) // 2):
        with pytest.raises(ValueError, match=r"DER|set|value"):
            name_text(bytes.fromhex(der)[:end])


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        ("DEFAULT", "CN=Bob,O=A", "CN=Bob,O=A"),
        ("", "CN=Bob,O=A", "CN=Bob,O=A"),
        ("RULE:^CN=(.*?),OU=Service.*$/$1/L,DEFAULT", "CN=Bob,OU=Service,O=A", "bob"),
        ("RULE:^CN=(.*?),OU=Service.*$/$1/L,DEFAULT", "CN=Bob,OU=Other", "CN=Bob,OU=Other"),
        ("RULE:CN=(.*?),.*/$1/U", "CN=Bob,O=A", "BOB"),
        (
            "RULE:^CN=(.*?), *OU=(.*?), *O=(.*?)$/$1@$2/L\nDEFAULT",
            "CN=Duke,OU=JavaSoft,O=Sun",
            "duke@javasoft",
        ),
        ("RULE:^CN=(.*)$/$1\\/x/", "CN=Bob", "Bob/x"),
        ("RULE:^CN=(.*)$/$9-$1/", "CN=Bob", "$9-Bob"),
        ("RULE:^CN=(.)(.*)$/$12/", "CN=Bob", "B2"),
        ("RULE:^CN=(.*)$/\\$1/", "CN=Bob", "$1"),
    ],
)
def test_rules_are_applied_as_in_kafka(rules: str, name: str, user: str) -> None:
    assert PrincipalMapping(rules).user_of(name) == user


def test_a_name_that_no_rule_matches_is_nobody() -> None:
    with pytest.raises(NoRuleMatchesError, match="CN=Eve"):
        PrincipalMapping("RULE:^CN=Bob$/bob/").user_of("CN=Eve")


@pytest.mark.parametrize(
    "name", ["CN=node,O=Other", "O=Other,CN=node", "CN=node\n", "cn=node", "CN=nodes"]
)
def test_a_rule_matches_the_whole_name(name: str) -> None:
    """A rule without ``^`` and ``$`` is not about names that hold its text.

    An authority may sign those for others.
    """
    assert PrincipalMapping("RULE:CN=(node)/$1/").user_of("CN=node") == "node"
    with pytest.raises(NoRuleMatchesError):
        PrincipalMapping("RULE:CN=(node)/$1/").user_of(name)


def test_a_pattern_takes_no_more_time_than_its_text_is_long() -> None:
    with pytest.raises(NoRuleMatchesError):
        PrincipalMapping("RULE:^(a+)+$/x/").user_of("a" * 5_000 + "b")


@pytest.mark.parametrize(
    "rules",
    [
        "RULE:a",
        "RULE:a/b",
        "NOTHING",
        "DEFAULT DEFAULT",
        "RULE:(/b/",
        "RULE:a/b/X",
        "RULE:(?=a)b/c/",
    ],
)
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapping(rules)


BOTH = ("TLSv1.2", "TLSv1.3")
OLDER = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"


def test_a_list_of_suites_says_which_protocols_are_spoken() -> None:
    assert choose_ciphers(BOTH, ()) == CipherChoice(protocols=BOTH)
    assert choose_ciphers(BOTH, (OLDER,)) == CipherChoice(
        protocols=("TLSv1.2",), openssl_names="ECDHE-RSA-AES128-GCM-SHA256"
    )
    assert choose_ciphers(BOTH, sorted(TLS13_SUITES)) == CipherChoice(protocols=("TLSv1.3",))
    assert choose_ciphers(BOTH, (OLDER, *sorted(TLS13_SUITES))).protocols == BOTH


@pytest.mark.parametrize(
    ("protocols", "suites", "named"),
    [
        (BOTH, ("SSL_RSA_WITH_RC4_128_MD5",), "which is not known"),
        (BOTH, ("TLS_AES_128_GCM_SHA256",), "name all three"),
        (("TLSv1.3",), (OLDER,), "no suite of TLSv1.3"),
    ],
)
def test_suites_that_cannot_be_chosen_are_refused(
    protocols: tuple[str, ...], suites: tuple[str, ...], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        choose_ciphers(protocols, suites)


def test_a_jks_file_cut_anywhere_is_refused() -> None:
    content = (FACTS / "key.jks").read_bytes()
    for password in (SecretText("changeit"), None):
        for end in range(0, len(content) - 1, 7):
            with pytest.raises(ConfigError):
                read_java_key_store(content[:end], password).keys[0].key(SecretText("changeit2"))
