"""The registry of ``tidelog up --secure``, as the platform's processes reach it."""

import json
import subprocess
from http import HTTPStatus
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from log_service.client import (
    BlockingAvroSerializer,
    BlockingProducer,
    BlockingSchemaRegistryClient,
    SchemaRegistryError,
)
from log_service.supervisor.spec import ServiceContext
from orchestration import RegistrySchemaError, TopicSpec, from_registry, topic_asset
from orchestration.installation.services import clients_environment, granting, registry_environment
from orchestration.resources import LogServiceResource
from orchestration.settings import client_settings, registry_settings
from tests.helpers.ports import free_port
from tests.integration.http.secured import until
from tests.integration.secured_installations import installation

pytestmark = [pytest.mark.platform, pytest.mark.timeout(240)]
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


def written() -> bytes | None:
    """Return a value whose schema was registered with the login of this process.

    It is None until the registry knows of the platform's rights.
    """
    url, settings = registry_settings()
    try:
        with BlockingSchemaRegistryClient(url, **settings) as client:
            return BlockingAvroSerializer(client, json.dumps(ORDER)).serialize("orders", {"id": 7})
    except SchemaRegistryError as error:
        if error.status == HTTPStatus.FORBIDDEN:
            return None
        raise


def test_the_platform_reads_schemas_with_its_own_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its certificate and its rights on topics. Without the login nothing is told."""
    port, registry_port = free_port(), free_port()
    arguments = ("--secure", "--registry-port", str(registry_port))
    with installation(tmp_path, port, *arguments) as data:
        clients = data / "security" / "clients"
        context = ServiceContext(
            data_directory=data,
            project_directory=tmp_path,
            host="127.0.0.1",
            bootstrap_servers=f"127.0.0.1:{port}",
            ui_port=1,
            spark_port=2,
            registry_port=registry_port,
            client_config=clients / "platform.properties",
            operator_config=clients / "operator.properties",
        )
        for command in granting(context):
            subprocess.run(command, check=True)
        told = {**registry_environment(context), **clients_environment(context)}
        for name, value in {**told, "TIDELOG_DATA": str(tmp_path / "platform")}.items():
            monkeypatch.setenv(name, value)
        found: list[bytes] = []

        def is_written() -> bool:
            found.extend(one for one in [written()] if one is not None)
            return bool(found)

        until(is_written, "the platform's rights")
        spec = TopicSpec(name="orders", schema=from_registry("orders-value"))
        resources: Any = {"log_service": LogServiceResource(bootstrap_servers=f"127.0.0.1:{port}")}
        assert dg.materialize([topic_asset(spec)], resources=resources).success
        with BlockingProducer(context.bootstrap_servers, **client_settings()) as producer:
            producer.send("orders", found[-1])
        assert spec.value_format is not None
        rows, faults = spec.value_format.read(pa.array(found[-1:], pa.binary()))
        assert (rows.to_pylist(), faults.to_pylist()) == ([{"id": 7}], [None])
        monkeypatch.delenv("TIDELOG_SCHEMA_REGISTRY_SSL_KEYSTORE_LOCATION")
        monkeypatch.delenv("TIDELOG_SCHEMA_REGISTRY_SSL_KEYSTORE_TYPE")
        with pytest.raises(RegistrySchemaError, match="401"):
            from_registry("orders-value", version=1)
