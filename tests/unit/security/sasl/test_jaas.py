"""The parser takes or refuses texts of sasl.jaas.config as Apache Kafka's does.

Nothing crashes it or shows a password.
"""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.common.errors import ConfigError
from log_service.security.sasl.jaas import (
    MODULES,
    OAUTHBEARER_MODULE,
    PLAIN_MODULE,
    SCRAM_MODULE,
    parse_jaas,
)


def value_of(written: str) -> str | None:
    return parse_jaas(f"{PLAIN_MODULE} required p={written};").option("p")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("a1234", "a1234"),
        ("true", "true"),
        ("$a.b-c_d", "$a.b-c_d"),
        ("\u00fcmlaut", "\u00fcmlaut"),
        ('""', ""),
        ('"1234"', "1234"),
        ("'a b=c;'", "a b=c;"),
        ('"it\'s"', "it's"),
        (r'"a\tb\nc"', "a\tb\nc"),
        (r'"a\\b\"c"', 'a\\b"c'),
        (r'"\101\1012"', "AA2"),
        (r'"\777"', "?7"),
        (r'"\u0041"', "u0041"),
        ('"http://x//y/*z*/"', "http://x//y/*z*/"),
        ("a /* one\n * two */", "a"),
        ("a // the rest ;\n", "a"),
        ("a / the rest ;\n", "a"),
    ],
)
def test_value(written: str, value: str) -> None:
    assert value_of(written) == value


@pytest.mark.parametrize(
    "written",
    [
        "1234",
        "5x",
        "-x",
        ".5",
        "a@b",
        "a/b q=c",
        "a:b",
        "a+b",
        "a,b",
        "#a",
        '"open',
        '"line\nbreak"',
        "",
        "=",
    ],
)
def test_refused_value(written: str) -> None:
    with pytest.raises(ConfigError, match="JAAS text"):
        value_of(written)


def test_number_is_to_be_quoted() -> None:
    with pytest.raises(ConfigError, match="read as a number; put it in quotes"):
        value_of("1234")
    with pytest.raises(ConfigError, match="quotes"):
        parse_jaas(f'{PLAIN_MODULE} required 1user="p";')


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  /* nothing */ ",
        PLAIN_MODULE,
        f"{PLAIN_MODULE} required",
        f"{PLAIN_MODULE} needed;",
        f'{PLAIN_MODULE} required a="b"',
        f"{PLAIN_MODULE} required a=b; {PLAIN_MODULE} required;",
        f"{PLAIN_MODULE} required a b;",
        "com.sun.security.auth.module.JndiLoginModule required;",
        f"{PLAIN_MODULE.lower()} required;",
    ],
)
def test_refused_text(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_jaas(text)


def test_kerberos_is_refused_with_what_to_use() -> None:
    with pytest.raises(ConfigError, match="SCRAM-SHA-512, OAUTHBEARER or mTLS"):
        parse_jaas("com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;")


@pytest.mark.parametrize("flag", ["required", "Requisite", "SUFFICIENT", "optional"])
def test_flag_in_any_case(flag: str) -> None:
    assert parse_jaas(f"{SCRAM_MODULE} {flag};").flag == flag.lower()


def test_mechanisms_of_modules() -> None:
    found = {module: parse_jaas(f"{module} required;").mechanisms for module in MODULES}
    assert found[SCRAM_MODULE] == ("SCRAM-SHA-256", "SCRAM-SHA-512")
    assert found[PLAIN_MODULE] == ("PLAIN",)
    assert found[OAUTHBEARER_MODULE] == ("OAUTHBEARER",)


def test_users_and_the_last_of_equal_keys() -> None:
    text = f"""{PLAIN_MODULE} required username="me" password="mine"
        user_me="mine" "user_a b"="with blank" user_bob-x_y.z='first' user_bob-x_y.z='last';"""
    users = {name: password.reveal() for name, password in parse_jaas(text).plain_users().items()}
    assert users == {"me": "mine", "a b": "with blank", "bob-x_y.z": "last"}


def test_nothing_shows_a_password() -> None:
    entry = parse_jaas(f'{PLAIN_MODULE} required password="planted-secret";')
    assert "planted" not in repr(entry)
    for text in (
        f"{PLAIN_MODULE} required password=planted-secret@x;",
        f'{PLAIN_MODULE} required p="planted',
        "planted required;",
    ):
        with pytest.raises(ConfigError) as caught:
            parse_jaas(text)
        assert "planted" not in str(caught.value)


@given(st.text(alphabet=st.sampled_from("ab1_-.$=;\"'\\/*\n\r @\u00e9\u0085"), max_size=60))
def test_any_text_is_read_or_refused(tail: str) -> None:
    for text in (tail, f"{PLAIN_MODULE} required {tail}"):
        with suppress(ConfigError):
            assert parse_jaas(text).login_module in MODULES


@given(
    st.text(
        alphabet=st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\n"),
        max_size=40,
    )
)
def test_any_quoted_text_comes_back(value: str) -> None:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    assert value_of(f'"{escaped}"') == value
