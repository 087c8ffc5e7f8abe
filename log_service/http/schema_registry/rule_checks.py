"""Checks the names, types and modes of a schema's rules, which only clients run."""

from collections import Counter

from log_service.http.schema_registry.errors import INVALID_RULE_SET, RegistryError
from log_service.http.schema_registry.values import Rule, RuleSet

KINDS = frozenset({"TRANSFORM", "CONDITION"})
MIGRATION_MODES = frozenset({"UPGRADE", "DOWNGRADE", "UPDOWN"})
DOMAIN_MODES = frozenset({"WRITE", "READ", "WRITEREAD"})


def check_rule_set(rule_set: RuleSet | None) -> None:
    """Refuse rules that no client understands.

    Raises:
        RegistryError: a rule has no name, the name of another rule, no type, or a mode that its
            list does not allow.
    """
    if rule_set is None:
        return
    _check_rules(rule_set.migration_rules, MIGRATION_MODES, "Migration")
    _check_rules(rule_set.domain_rules, DOMAIN_MODES, "Domain")
    _check_rules(rule_set.encoding_rules, DOMAIN_MODES, "Encoding")


def _check_rules(rules: tuple[Rule, ...], modes: frozenset[str], what: str) -> None:
    counts = Counter(rule.name for rule in rules)
    for rule in rules:
        name = rule.name or ""
        if not name:
            raise _refusal("Missing rule name")
        if not (name.replace("_", "a").isalnum() and not name[0].isdigit()):
            raise _refusal(f"Illegal character in rule name: {name}")
        if counts[name] > 1:
            raise _refusal(f"Found rule with duplicate name '{name}'")
        if not rule.type:
            raise _refusal("Missing rule type")
        if rule.kind not in KINDS:
            raise _refusal(f"Rule {name} has kind {rule.kind}, and may have TRANSFORM or CONDITION")
        if rule.mode not in modes:
            raise _refusal(f"{what} rules can only be {', '.join(sorted(modes))}")


def _refusal(text: str) -> RegistryError:
    return RegistryError(INVALID_RULE_SET, text)
