"""Runs suites of Great Expectations on a Spark DataFrame or on a bounded sample.

Suites are declared as plain values and shown as asset checks. Great Expectations is imported when a
suite runs, because its import takes seconds. Decides nothing about commits. The outcome says
whether an expectation is met and whether it blocks.

Invariants: there is one outcome per expectation, in the order declared. An expectation that cannot
be evaluated is not met, and its outcome has the reason.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from orchestration.quality.expectation_types import validate_expectation
from orchestration.quality.rules import validate_check_name
from orchestration.settings import export_environment

MAX_NAME_LENGTH = 80
DEFAULT_SAMPLE_ROWS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One expectation by its type (``expect_column_values_to_not_be_null``) and arguments.

    The types are those of Great Expectations.
    """

    type: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    is_blocking: bool = False
    description: str = ""

    @property
    def check_name(self) -> str:
        """The asset check's name, as given or made from type and columns."""
        return self.name or _name_of(self.type, self.arguments)


@dataclass(frozen=True, slots=True, init=False)
class Suite:
    """Expectations about one table.

    A blocking expectation sees every row of the coming commit. ``sample_rows`` bounds the rows that
    the others see. None means every row, evaluated by Spark.

    :raises ValueError: two expectations have the same name.
    """

    expectations: tuple[Expectation, ...]
    sample_rows: int | None

    def __init__(
        self, *expectations: Expectation, sample_rows: int | None = DEFAULT_SAMPLE_ROWS
    ) -> None:
        names = [one.check_name for one in expectations]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(
                "expectations need names of their own; give name=... to tell apart:"
                f" {', '.join(repeated)}"
            )
        object.__setattr__(self, "expectations", expectations)
        object.__setattr__(self, "sample_rows", sample_rows)

    def parts(self) -> tuple["Suite", "Suite"]:
        """Return the blocking expectations and the others, each as a suite."""
        blocking = (one for one in self.expectations if one.is_blocking)
        others = (one for one in self.expectations if not one.is_blocking)
        return Suite(*blocking, sample_rows=self.sample_rows), Suite(
            *others, sample_rows=self.sample_rows
        )

    def in_order(self, outcomes: Sequence["Outcome"]) -> tuple["Outcome", ...]:
        """Return the outcomes in the order in which the expectations were declared."""
        found = {one.expectation.check_name: one for one in outcomes}
        return tuple(found[one.check_name] for one in self.expectations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one expectation, with the observed numbers and short texts.

    If a sample was read, ``observed["rows"]`` is the number of rows in it, and
    ``observed["of_rows"]`` is the number of all rows.
    """

    expectation: Expectation
    is_met: bool
    observed: Mapping[str, int | float | str]


def expect(
    type: str,  # noqa: A002 - GX's word
    *,
    name: str = "",
    is_blocking: bool = False,
    description: str = "",
    **arguments: Any,
) -> Expectation:
    """Declare an expectation by its type and arguments.

    For example: ``expect("expect_column_values_to_be_between", column="distance", min_value=0,
    is_blocking=True)``.

    :raises ValueError: there is no such expectation, or it takes other arguments.
    """
    declared = Expectation(
        type=type, arguments=arguments, name=name, is_blocking=is_blocking, description=description
    )
    validate_check_name(declared.check_name)
    validate_expectation(type, arguments)
    return declared


def run_suite(suite: Suite, frame: Any, *, table: str) -> tuple[Outcome, ...]:
    """Return the outcomes of ``suite`` on ``frame``, a Spark or pandas DataFrame.

    Also turns off the analytics of Great Expectations in this process.
    """
    if not suite.expectations:
        return ()
    export_environment({"GX_ANALYTICS_ENABLED": "false"})
    import great_expectations as gx  # noqa: PLC0415 - seconds of import that only a run with a suite needs
    from great_expectations.data_context.types.base import ProgressBarsConfig  # noqa: PLC0415

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    source = (
        context.data_sources.add_spark("lake")
        if _is_spark(frame)
        else context.data_sources.add_pandas("lake")
    )
    batch = (
        source.add_dataframe_asset(table)
        .add_batch_definition_whole_dataframe("batch")
        .get_batch({"dataframe": frame})
    )
    return tuple(_evaluated(one, batch, frame) for one in suite.expectations)


def _evaluated(expectation: Expectation, batch: Any, frame: Any) -> Outcome:
    from great_expectations.exceptions.exceptions import GreatExpectationsError  # noqa: PLC0415
    from great_expectations.expectations.expectation_configuration import (  # noqa: PLC0415
        ExpectationConfiguration,
    )

    from orchestration.quality.moments import fitted  # noqa: PLC0415 - with pandas

    try:
        configuration = ExpectationConfiguration(
            type=expectation.type, kwargs=fitted(expectation.arguments, frame)
        )
        answer = batch.validate(configuration.to_domain_obj())
    except (GreatExpectationsError, ValueError, TypeError) as error:
        return Outcome(
            expectation=expectation,
            is_met=False,
            observed={"error": f"{expectation.type} cannot be evaluated: {error}"},
        )
    return Outcome(
        expectation=expectation,
        is_met=bool(answer.success),
        observed=_observed(answer.to_json_dict()),
    )


def _observed(answer: Mapping[str, Any]) -> dict[str, int | float | str]:
    result = answer.get("result") or {}
    wanted = (
        "element_count",
        "unexpected_count",
        "unexpected_percent",
        "missing_count",
        "observed_value",
    )
    found = {name: _plain(result.get(name)) for name in wanted}
    observed = {
        name: value for name, value in found.items() if isinstance(value, int | float | str)
    }
    samples = result.get("partial_unexpected_list") or []
    if samples:
        observed["unexpected_values"] = ", ".join(str(value) for value in samples[:10])
    failure = _exception_text(answer.get("exception_info") or {})
    return {**observed, "error": failure} if failure else observed


def _plain(value: Any) -> Any:
    """Return a plain Python number in place of a numpy number.

    numpy's float64 is a subclass of float, but Dagster stores no subclasses.
    """
    return value.item() if isinstance(value, np.generic) else value


def _exception_text(info: Mapping[str, Any]) -> str:
    candidates = [info, *(value for value in info.values() if isinstance(value, Mapping))]
    return next(
        (str(one["exception_message"]) for one in candidates if one.get("exception_message")), ""
    )


def _is_spark(frame: Any) -> bool:
    return type(frame).__module__.startswith("pyspark.")


def _name_of(kind: str, arguments: Mapping[str, Any]) -> str:
    columns = [value for key, value in arguments.items() if key.startswith("column")]
    flat = [
        str(one)
        for value in columns
        for one in (value if isinstance(value, list | tuple) else [value])
    ]
    name = "_".join([*flat, kind.removeprefix("expect_")])
    plain = "".join(
        letter if letter.isalnum() and letter.isascii() else "_" for letter in name
    ).lstrip("_0123456789")
    if len(plain) <= MAX_NAME_LENGTH:
        return plain
    return f"{plain[:MAX_NAME_LENGTH]}_{hashlib.sha256(plain.encode()).hexdigest()[:8]}"
