"""The proof of a configuration key depends on that key.

The key is made to be ignored, and the proof has to fail.

    python -m tests.unit.config.ignored_keys              # every key that acts, in some minutes, as in a long run of the tests
    python -m tests.unit.config.ignored_keys node.id ...  # these keys of a broker
    python -m tests.unit.config.ignored_keys --sample     # a few of them, as in every run of the tests

A key of a broker is ignored as if neither the file nor a request had set it; a key of a topic has
its default whatever is set. Each proof runs in a fork of this process, which has imported what it
needs, so that a key costs about as much as its test. ``test_proofs`` registers the proofs.
"""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from log_service.config import server
from log_service.config.definition import ConfigKey, Value
from log_service.config.dynamic_keys import base_name
from log_service.config.topic_keys import TOPIC_KEYS
from log_service.metadata.image import ConfigsImage, ResourceType
from tests.unit.broker.effects_on_logs import EFFECTS, EFFECTS_OF_UNITS
from tests.unit.config.proofs import LOGS, PROOFS, PROOFS_OF_TOPIC_KEYS, TESTS

EVERY_NTH = 32
"""One key of so many is in the sample."""


class Proof(NamedTuple):
    """A key, whose it is, and the test that has to see what it does."""

    resource_type: ResourceType
    key: str
    test: str

    def __str__(self) -> str:
        return f"{self.resource_type.name.lower()} {self.key}: {self.test}"


def proofs() -> Iterator[Proof]:
    """Yield every proof of every key that acts."""
    for key, (path, name) in sorted(PROOFS.items()):
        yield Proof(ResourceType.BROKER, key, f"{path}::{name}")
    for topic_key in sorted(EFFECTS):
        yield Proof(
            ResourceType.BROKER,
            TOPIC_KEYS[topic_key].synonyms[0],
            f"{LOGS}::test_set_in_the_file[{topic_key}]",
        )
        yield Proof(ResourceType.TOPIC, topic_key, f"{LOGS}::test_set_for_a_topic[{topic_key}]")
    for key in sorted(EFFECTS_OF_UNITS):
        yield Proof(ResourceType.BROKER, key, f"{LOGS}::test_coarser_units_in_the_file[{key}]")
    for key, (path, name) in sorted(PROOFS_OF_TOPIC_KEYS.items()):
        yield Proof(ResourceType.TOPIC, key, f"{path}::{name}")


def ignore(resource_type: ResourceType, key: str) -> None:
    """Make this process ignore a key from now on."""
    if resource_type == ResourceType.TOPIC:
        _ignore_of_topics(TOPIC_KEYS[key])
    else:
        _ignore_of_brokers(key)


def _ignore_of_topics(key: ConfigKey) -> None:
    parse = ConfigKey.parse

    def default(asked: ConfigKey, text: str) -> Value:
        return parse(asked, (key.default or "") if asked is key else text)

    setattr(ConfigKey, "parse", default)  # noqa: B010 - mypy refuses an assignment to a method
    _hide_from_image(ResourceType.TOPIC, key.name)  # some texts are read without their key


def _ignore_of_brokers(key: str) -> None:
    texts_of_file = server.property_texts

    def texts(source: str | Mapping[str, str], overrides: Sequence[str]) -> dict[str, str]:
        return _without(key, texts_of_file(source, overrides))

    server.property_texts = texts
    _hide_from_image(ResourceType.BROKER, key)


def _hide_from_image(resource_type: ResourceType, key: str) -> None:
    """Make it as if no request had set a key."""
    configs_of = ConfigsImage.of

    def of(image: ConfigsImage, kind: int, name: str) -> Mapping[str, str]:
        found = configs_of(image, kind, name)
        return _without(key, found) if kind == resource_type else found

    setattr(ConfigsImage, "of", of)  # noqa: B010 - mypy refuses an assignment to a method


def _without(key: str, texts: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in texts.items() if base_name(name) != key}


def fails_without_its_key(proof: Proof, log: Path) -> bool:
    """Run a proof in a fork that ignores the key. What it prints goes to ``log``."""
    child = os.fork()
    if child == 0:
        code: int = pytest.ExitCode.INTERNAL_ERROR
        try:
            ignore(proof.resource_type, proof.key)
            with (
                log.open("w") as file,
                contextlib.redirect_stdout(file),
                contextlib.redirect_stderr(file),
            ):
                code = pytest.main(
                    [
                        "-q",
                        "-n",
                        "0",
                        "-p",
                        "no:cacheprovider",
                        "--tb",
                        "short",
                        str(TESTS / proof.test),
                    ]
                )
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
        raise AssertionError(f"{proof} did not run: {log.read_text()}")
    return code == pytest.ExitCode.TESTS_FAILED


def main(arguments: Sequence[str]) -> int:
    """Check the proofs that the arguments choose; print those that hold whatever their key says."""
    chosen = list(proofs())
    if "--sample" in arguments:
        chosen = chosen[::EVERY_NTH]
    elif arguments:
        chosen = [proof for proof in chosen if proof.key in arguments]
    idle = []
    with tempfile.TemporaryDirectory() as directory:
        for proof in chosen:
            if not fails_without_its_key(proof, Path(directory) / "log"):
                idle.append(proof)
                print(f"does not depend on its key: {proof}", flush=True)
    print(f"{len(chosen)} proofs, {len(idle)} of them do not depend on their key")
    return 1 if idle else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
