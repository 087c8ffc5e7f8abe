"""Checks of a transform's result: rules on every row before the commit, and suites of expectations.

The suites are those of Great Expectations, on the batch or a sample. ``rules`` compiles rules to
one Spark SQL column, and ``conditions`` checks the text of their SQL when they are declared.
``suites`` runs expectations, ``expectation_types`` knows their names, and ``moments`` converts
times to the types of their columns. All become asset checks with the names given here.
"""

from orchestration.quality.rules import Rule, Severity, fail, quarantine, warn
from orchestration.quality.suites import Expectation, Suite, expect

__all__ = ["Expectation", "Rule", "Severity", "Suite", "expect", "fail", "quarantine", "warn"]
