"""``tidelog cluster roll`` shows its plan, runs a command on several nodes, and may end early."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from click.testing import CliRunner, Result

from log_service.cli import cluster_roll
from log_service.cli.main import tidelog
from log_service.client.admin.values import BrokerDescription, QuorumDescription
from log_service.cluster_operations import rolling
from log_service.cluster_operations.reading import ClusterState
from log_service.cluster_plans.health import QuorumMember, QuorumState
from log_service.cluster_plans.layout import BrokerLayout
from log_service.common.errors import ErrorCode, KafkaError
from log_service.supervisor.installation import Installation
from tests.helpers.stand_ins import opening, returning
from tests.unit.cluster_plans.layouts import layout, partition

QUORUM = QuorumState(
    leader_id=1,
    leader_epoch=4,
    members=tuple(QuorumMember(node_id=n, is_voter=True, lag=0) for n in (1, 2, 3)),
)
PARTITIONS = (partition("t", 0, [1, 2, 3]), partition("solo", 2, [2]))
BROKERS = tuple(
    BrokerLayout(broker_id=number, address=f"host{number}:9092") for number in (1, 2, 3)
)
COMMAND = f"{sys.executable} -c 'import sys; open(sys.argv[1], \"a\").write(sys.argv[2] + \"\\n\")' {{file}} '{{id}} on {{host}}'"
ON_ITS_WAY = "on its way: broker 3"
GO_ON = "once tidelog cluster status says that all is well, go on with: tidelog cluster roll"


class Admin:
    """An admin of three brokers, of which ``down`` are fenced."""

    def __init__(self) -> None:
        self.down: set[int] = set()
        self.elected = 0

    async def describe_brokers(self, *, timeout_ms: int) -> tuple[BrokerDescription, ...]:
        assert timeout_ms > 0, "a person who pressed Ctrl-C does not wait"
        return tuple(
            BrokerDescription(node_id=n, host="h", port=1, rack=None, is_fenced=n in self.down)
            for n in (1, 2, 3)
        )

    async def describe_metadata_quorum(self, *, timeout_ms: int | None = None) -> QuorumDescription:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"no response in {timeout_ms} ms")


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    """A cluster whose brokers come back at once; waits and elections are noted."""
    made = Admin()

    async def elect(_admin: object, _partitions: object) -> None:
        made.elected += 1

    state = ClusterState(
        cluster_id="c",
        layout=layout(BROKERS, PARTITIONS),
        quorum=QUORUM,
        silent=MappingProxyType({}),
    )
    monkeypatch.setattr(cluster_roll, "open_admin", opening(made))
    monkeypatch.setattr(cluster_roll, "read_state", returning(state))
    monkeypatch.setattr(rolling, "wait_for_sync", returning(None))
    monkeypatch.setattr(rolling, "wait_until_serving", returning(None))
    monkeypatch.setattr(rolling, "elect_preferred", elect)
    return made


def roll(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(tidelog, ["cluster", "roll", *arguments])


def test_brokers_that_no_installation_here_runs_are_told_with_what_can_be_done(
    admin: Admin, tmp_path: Path
) -> None:
    shown = roll("--data", str(tmp_path))
    assert shown.exit_code == 0
    assert (
        f"brokers 1, 2, 3 are not nodes of a tidelog up on {tmp_path}, so nothing here can restart them"
        in shown.stderr
    )
    assert "--command 'ssh {host} systemctl restart kafka'" in shown.stderr
    assert (
        "1 partition has a single replica: it is offline while its broker restarts" in shown.stderr
    )
    refused = roll("3", "--data", str(tmp_path), "--execute")
    assert (refused.exit_code, refused.stdout, admin.elected) == (1, "", 0)
    assert "broker 3 is not a node of a tidelog up" in refused.stderr
    assert refused.stderr.endswith("Nothing was restarted\n")


def test_the_plan_names_a_broker_that_is_down(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = (*BROKERS[:2], replace(BROKERS[2], is_fenced=True))
    state = ClusterState(
        cluster_id="c",
        layout=layout(brokers, PARTITIONS),
        quorum=QUORUM,
        silent=MappingProxyType({}),
    )
    monkeypatch.setattr(cluster_roll, "read_state", returning(state))
    assert (
        "broker 3 is down: start it first, or the restart of the others waits for it"
        in roll("--command", "restart {id}").stderr
    )


def test_a_command_restarts_several_nodes_one_after_the_other(admin: Admin, tmp_path: Path) -> None:
    file = tmp_path / "restarted"
    done = roll("--execute", "--command", COMMAND.replace("{file}", str(file)))
    assert done.exit_code == 0, done.output
    assert file.read_text().splitlines() == ["2 on host2", "3 on host3", "1 on host1"]
    assert done.stdout.splitlines()[1].split() == ["2", "1", "1", "no", "--command"]
    assert done.stdout.endswith("3 brokers restarted\n")
    assert admin.elected == 1


def test_a_command_that_fails_ends_the_restart_and_says_how_to_go_on(admin: Admin) -> None:
    command = f"{sys.executable} -c 'import sys; sys.exit({{id}} == 3)'"
    failed = roll("--execute", "--command", command)
    assert failed.exit_code == 1
    assert failed.stderr.splitlines()[-5:] == [
        "restarted: broker 2",
        "on its way: broker 3 was being restarted; now the cluster says that it serves",
        "not touched: broker 1",
        f"{GO_ON} 3 1 --execute --command {shlex.quote(command)}",
        f"Error: {sys.executable} -c 'import sys; sys.exit(3 == 3)' ended with exit code 1: broker 3 is not restarted",
    ]
    assert admin.elected == 0
    assert (
        "nowhere 2 cannot be run (No such file or directory)"
        in roll("--execute", "--command", "nowhere {id}").stderr
    )


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "systemctl restart kafka",
            "is the same for each of 3 brokers: {id} and {host} stand for the broker's",
        ),
        ("ssh {host} 'restart", "cannot be split into words: No closing quotation"),
        (" ", "it is empty: say what restarts a broker"),
    ],
)
def test_a_command_that_cannot_do_it_is_refused_before_anything_restarts(
    admin: Admin, command: str, said: str
) -> None:
    refused = roll("--execute", "--command", command)
    assert (refused.exit_code, refused.stdout, admin.elected) == (2, "", 0)
    assert said in refused.stderr


def interrupt_at(monkeypatch: pytest.MonkeyPatch, step: str, broker_id: int) -> None:
    """Press Ctrl-C in one step of one broker's restart."""

    async def interrupted(*arguments: object) -> None:
        if broker_id in arguments:
            raise KeyboardInterrupt

    monkeypatch.setattr(Installation if step == "restart" else rolling, step, interrupted)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (
            "wait_for_sync",
            ["restarted: broker 2", "not touched: brokers 3, 1", f"{GO_ON} 3 1 --execute"],
        ),
        (
            "restart",
            [
                "restarted: broker 2",
                f"{ON_ITS_WAY} was being restarted; now the cluster says that it is down or not ready",
                "not touched: broker 1",
                "tidelog up completes that restart by itself; tidelog status shows it",
                f"{GO_ON} 1 --execute",
            ],
        ),
        (
            "wait_until_serving",
            [
                "restarted: broker 2",
                f"{ON_ITS_WAY} is restarted, and was not back in the cluster yet; now the cluster says that it is down or not ready",
                "not touched: broker 1",
                f"{GO_ON} 1 --execute",
            ],
        ),
    ],
)
def test_ctrl_c_says_what_is_done_what_is_on_its_way_and_how_to_go_on(
    admin: Admin, monkeypatch: pytest.MonkeyPatch, step: str, said: list[str]
) -> None:
    monkeypatch.setattr(Installation, "runs", lambda *_: True)
    monkeypatch.setattr(Installation, "restart", returning(None))
    interrupt_at(monkeypatch, step, 3)
    admin.down = {3}
    stopped = roll("--execute")
    assert stopped.exit_code == 130
    lines = stopped.stderr.splitlines()
    assert lines[lines.index("stopped") + 1 :] == said


def test_brokers_that_cannot_be_restarted_are_named(admin: Admin) -> None:
    assert admin.down == set()
    assert "Error: there are no brokers 8, 9; there are 1, 2, 3" in roll("8", "1", "9").stderr
    wrong = roll("one")
    assert (
        wrong.exit_code,
        "'one' is not a node id, which is a whole number from 0 to 2147483647, such as 1"
        in wrong.stderr,
    ) == (2, True)
    assert roll(str(2**31)).exit_code == 2
    assert roll("9" * 5_000).exit_code == 2  # more digits than Python reads


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["up", "--brokers", "x"], "'x' is not a valid whole number."),
        (["up", "--brokers", "0"], "0 is not in the range 1<=x<=100."),
        (["cluster", "roll", "--wait", "long"], "'long' is not a valid number."),
    ],
)
def test_what_is_no_number_is_called_so(arguments: list[str], said: str) -> None:
    """click calls its type 'integer range'."""
    refused = CliRunner().invoke(tidelog, arguments)
    assert (refused.exit_code, said in refused.stderr) == (2, True), refused.stderr
