"""Errors of a run: one sentence as the failure, and the rest in the log of the run."""

import dagster as dg

from orchestration.transforms.dagster_views.failures import explained
from orchestration.transforms.errors import TransformError, described

PLAN = "; line 1 pos 0;\n'Filter ('amuont > 1)\n+- LogicalRDD [id#0, name#1], false"
SAID = "[UNRESOLVED_COLUMN] A column with name `amuont` cannot be resolved."


@dg.op
def compute() -> None:
    """Fails as Spark does."""
    with explained("orders", None):
        spark = RuntimeError(f"{SAID} SQLSTATE: 42703{PLAN}")
        raise TransformError(f"Spark failed on the transform: {described(spark)}") from spark


@dg.job
def run() -> None:
    """Compute."""
    compute()


def test_a_failure_is_a_sentence_and_the_log_of_the_run_has_the_plan() -> None:
    """The plan stood in the text of the failure, in alerts and at the terminal."""
    with dg.DagsterInstance.ephemeral() as instance:
        result = run.execute_in_process(instance=instance, raise_on_error=False)
        logged = [
            entry.user_message
            for entry in instance.all_logs(result.run_id)
            if entry.level == 40 and not entry.is_dagster_event
        ]
    (failed,) = [event for event in result.all_events if event.is_step_failure]
    user_failure = failed.step_failure_data.user_failure_data
    assert user_failure is not None
    assert (
        user_failure.description == f"orders: Spark failed on the transform: RuntimeError: {SAID}"
    )
    assert logged == [f"orders: the whole text of the error: {SAID} SQLSTATE: 42703{PLAN}"]
