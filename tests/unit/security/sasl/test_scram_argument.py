"""A SCRAM user on the command line: what is taken, what is refused, and that nothing shows a
password.
"""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.common.errors import ConfigError
from log_service.common.secrets import SecretText
from log_service.security.sasl.credentials import ScramMechanism
from log_service.security.sasl.scram import salted_password
from log_service.security.sasl.scram_argument import ScramArgument, parse_scram_argument
from tests.unit.security.sasl.scram_story import credential

SALTED = base64.b64encode(bytes(range(32))).decode()


def test_name_and_password() -> None:
    user = parse_scram_argument(
        'SCRAM-SHA-512=[name="alice b",password="a=b",iterations=8192,salt=c2FsdA==]'
    )
    assert user == ScramArgument(
        mechanism=ScramMechanism.SHA_512,
        name="alice b",
        password=SecretText("a=b"),
        salt=b"salt",
        iterations=8192,
    )
    assert user.credential(lambda bits: 1) == credential(
        ScramMechanism.SHA_512, "a=b", salt=b"salt", iterations=8192
    )


def test_salt_that_is_not_given_is_made() -> None:
    user = parse_scram_argument("SCRAM-SHA-256=[name=alice,password=secret]")
    made = user.credential(lambda bits: 2**bits - 1)
    assert len(made.salt.reveal()) == 26
    assert made == credential(ScramMechanism.SHA_256, "secret", salt=made.salt.reveal())


def test_password_that_was_salted_before() -> None:
    salted = salted_password(ScramMechanism.SHA_256, SecretText("secret"), b"salt", 4096).reveal()
    text = f"SCRAM-SHA-256=[name=alice,saltedpassword={base64.b64encode(salted).decode()},salt=c2FsdA==]"
    assert parse_scram_argument(text).credential(lambda bits: 1) == credential(
        ScramMechanism.SHA_256, "secret", salt=b"salt"
    )


def test_password_in_a_file() -> None:
    assert parse_scram_argument("SCRAM-SHA-256=[name=alice,passwordfile=-]").password_file == "-"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "MECHANISM="),
        ("SCRAM-SHA-256", "MECHANISM="),
        ("SCRAM-SHA-256=name=alice", "MECHANISM="),
        (
            "SCRAM-SHA-1=[name=alice,password=planted]",
            "must be one of SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        ("SCRAM-SHA-256=[password=planted]", "no name"),
        ("SCRAM-SHA-256=[name=,password=planted]", "no name"),
        ("SCRAM-SHA-256=[name=alice]", "exactly one of"),
        ("SCRAM-SHA-256=[name=alice,password=planted,passwordfile=x]", "exactly one of"),
        ("SCRAM-SHA-256=[name=alice,password=]", "is empty"),
        ("SCRAM-SHA-256=[name=alice,password=planted,password=planted]", "password twice"),
        ("SCRAM-SHA-256=[name=alice,pasword=planted]", "with the keys name, password"),
        ("SCRAM-SHA-256=[name=alice,password=planted,rest]", "with the keys"),
        ("SCRAM-SHA-256=[name=alice,password=planted,iterations=4095]", "4096 to 16384"),
        ("SCRAM-SHA-256=[name=alice,password=planted,iterations=16385]", "4096 to 16384"),
        ("SCRAM-SHA-256=[name=alice,password=planted,iterations=many]", "4096 to 16384"),
        ("SCRAM-SHA-256=[name=alice,password=planted,salt=!]", "salt .* not base64"),
        ("SCRAM-SHA-256=[name=alice,password=planted,salt=]", "salt .* is empty"),
        (f"SCRAM-SHA-256=[name=alice,saltedpassword={SALTED}]", "no salt"),
        (f"SCRAM-SHA-512=[name=alice,saltedpassword={SALTED},salt=c2FsdA==]", "must have 64"),
    ],
)
def test_refusals_say_what_to_do_and_show_no_password(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        parse_scram_argument(text)
    assert "planted" not in str(caught.value)
    assert SALTED not in str(caught.value)


@given(st.text(max_size=30), st.text(alphabet='name=,"[]pasword1 iter', max_size=30))
def test_any_text_is_read_or_refused(text: str, parts: str) -> None:
    for argument in (text, f"SCRAM-SHA-256=[{parts}]"):
        try:
            user = parse_scram_argument(argument)
        except ConfigError:
            continue
        assert user.name
