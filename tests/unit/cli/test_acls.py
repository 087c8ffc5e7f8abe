"""``tidelog acls add`` refuses, without a cluster, what could never allow or deny anything."""

import pytest
from click.testing import CliRunner

from log_service.cli.main import tidelog


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--operation", "idempotent_write", "--topic", "orders"], "idempotent_write is nothing that can be done with a topic"),
        (["--operation", "write", "--group", "billing"], "write is nothing that can be done with a group"),
        (["--operation", "delete", "--cluster"], "delete is nothing that can be done with a cluster"),
        (["--operation", "read", "--topic", "ord*"], "--pattern prefixed"),
        (["--producer", "--topic", "or ders"], "no topic is called 'or ders'"),
    ],
)
def test_what_means_nothing_is_refused(arguments: list[str], told: str) -> None:
    result = CliRunner(env={"COLUMNS": "300", "TIDELOG_BOOTSTRAP_SERVERS": "127.0.0.1:1"}).invoke(
        tidelog, ["acls", "add", "--allow-principal", "shop", *arguments]
    )
    assert result.exit_code == 2
    assert told in result.output
