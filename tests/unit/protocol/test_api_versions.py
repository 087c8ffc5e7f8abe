"""The table of APIs equals that of Apache Kafka 4.3.

Its rows lead to classes that agree, and nothing is imported before it is asked for.
"""

import subprocess
import sys

import pytest

from log_service.common.errors import ProtocolError
from log_service.protocol.api_versions import (
    KNOWN,
    ApiKey,
    ApiSpec,
    header_versions,
    is_flexible,
    request_class,
    response_class,
    spec_of,
)
from log_service.protocol.schema import version_span


@pytest.mark.parametrize("spec", KNOWN.values(), ids=lambda spec: spec.name)
def test_row_agrees_with_the_schemas_it_leads_to(spec: ApiSpec) -> None:
    for cls in (request_class(spec.key), response_class(spec.key)):
        assert version_span(cls.SCHEMA.valid) == (spec.min_version, spec.max_version)
        first_flexible = (
            version_span(cls.SCHEMA.flexible)[0] if cls.SCHEMA.flexible else spec.max_version + 1
        )
        assert first_flexible == spec.first_flexible_version
        assert cls.SCHEMA.key == spec.key
        assert cls.__name__.startswith(spec.name)


@pytest.mark.parametrize(
    ("key", "version", "expected"),
    [
        (ApiKey.METADATA, 8, (1, 0)),
        (ApiKey.METADATA, 9, (2, 1)),
        (ApiKey.API_VERSIONS, 2, (1, 0)),
        (ApiKey.API_VERSIONS, 3, (2, 0)),
        (ApiKey.DESCRIBE_CLUSTER, 0, (2, 1)),
    ],
)
def test_header_versions(key: ApiKey, version: int, expected: tuple[int, int]) -> None:
    assert header_versions(key, version) == expected
    assert is_flexible(key, version) == (expected[0] == 2)


def test_api_that_is_not_served_is_named() -> None:
    with pytest.raises(ProtocolError, match="4711"):
        spec_of(4711)
    with pytest.raises(ProtocolError):
        request_class(ApiKey.UNREGISTER_CONTROLLER)


def test_no_message_module_is_imported_before_its_class_is_asked_for() -> None:
    program = (
        "import sys, log_service.protocol.frames as f, log_service.protocol.api_versions as a\n"
        "loaded = lambda: {m for m in sys.modules if m.startswith('log_service.protocol.messages.')}\n"
        "assert loaded() == set(), loaded()\n"
        "a.request_class(3)\n"
        "assert loaded() == {'log_service.protocol.messages.metadata'}, loaded()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
