"""Secrets show themselves nowhere but where they are revealed."""

import json
import pickle
from dataclasses import dataclass

import pytest

from log_service.common.secrets import SecretBytes, SecretText


@dataclass(frozen=True, slots=True)
class Holder:
    password: SecretText


def test_no_text_of_a_secret_or_of_what_holds_it_shows_the_content() -> None:
    held = Holder(SecretText("correct horse"))
    for text in (
        repr(held),
        str(held.password),
        f"{held.password}",
        f"{held.password!r}",
        str(KeyError(held.password)),
    ):
        assert "correct" not in text
    assert held.password.reveal() == "correct horse"
    assert "key" not in repr(SecretBytes(b"key"))


def test_a_secret_is_not_written_by_accident() -> None:
    with pytest.raises(TypeError, match="not written anywhere"):
        pickle.dumps(SecretText("correct horse"))
    with pytest.raises(TypeError):
        json.dumps({"password": SecretText("correct horse")})


def test_secrets_are_equal_by_content_and_kind() -> None:
    assert SecretText("a") == SecretText("a")
    assert SecretText("a") != SecretText("b")
    assert SecretText("a") != SecretBytes(b"a")
    assert len({SecretBytes(b"a"), SecretBytes(b"a")}) == 1
