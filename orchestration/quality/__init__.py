"""Checks of what a transform returns: rules on every row before the commit, and Great Expectations suites on the batch or a sample.

``rules`` compiles to one Spark SQL column, and ``conditions`` looks at their text when they are declared. ``suites`` runs expectations,
``expectation_types`` knows their names, and ``moments`` has times as their columns have them. All become asset checks with the names given
here.
"""

from orchestration.quality.rules import Rule, Severity, fail, quarantine, warn
from orchestration.quality.suites import Expectation, Suite, expect

__all__ = ["Expectation", "Rule", "Severity", "Suite", "expect", "fail", "quarantine", "warn"]
