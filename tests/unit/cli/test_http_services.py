"""Services over HTTP look for their cluster and their registry in a fixed order."""

from pathlib import Path

import pytest

from log_service.cli.http_services import given_properties

SERVERS, REGISTRY = "bootstrap.servers", "schema.registry.url"
ENVIRONMENT = {
    "TIDELOG_BOOTSTRAP_SERVERS": "environment:9092",
    "TIDELOG_SCHEMA_REGISTRY_URL": "http://environment:8081",
}
IN_FILE = "bootstrap.servers=file:9092\nschema.registry.url=http://file:8081\n"


@pytest.mark.parametrize(
    ("text", "option", "servers", "registry"),
    [
        (None, None, "environment:9092", "http://environment:8081"),
        (None, "option:9092", "option:9092", "http://environment:8081"),
        (IN_FILE, None, None, None),
        (IN_FILE, "option:9092", "option:9092", None),
    ],
)
def test_an_option_wins_over_the_file_and_the_file_over_the_environment(  # noqa: PLR0917
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str | None,
    option: str | None,
    servers: str | None,
    registry: str | None,
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    file = None
    if text is not None:
        file = tmp_path / "service.properties"
        file.write_text(text)
    given = given_properties(file, ["a=b"], listen=None, bootstrap_servers=option)
    assert (given.over.get(SERVERS), given.over.get(REGISTRY)) == (servers, registry)
    assert given.over["a"] == "b"
    assert given.text == (text or "")


def test_without_any_the_cluster_of_this_directory_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TIDELOG_DATA", str(tmp_path / "none"))
    given = given_properties(None, [], listen=None, bootstrap_servers=None)
    assert given.over == {SERVERS: "127.0.0.1:9092"}
