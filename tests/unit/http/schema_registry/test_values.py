"""Values of the registry: names, metadata, rules and guids."""

import hashlib
from uuid import UUID

import pytest

from log_service.http.schema_registry.subjects import (
    Subject,
    is_valid_subject,
    normal_context,
    normal_subject,
    within,
)
from log_service.http.schema_registry.values import (
    CompatibilityLevel,
    Metadata,
    Reference,
    Rule,
    RuleSet,
    SchemaContent,
    Settings,
    guid_of,
)


@pytest.mark.parametrize(
    ("text", "context", "name"),
    [
        ("orders", ".", "orders"),
        (":.staging:orders", ".staging", "orders"),
        (":.staging:", ".staging", ""),
        (":.:orders", ".", "orders"),
        (":.a:b:c", ".a", "b:c"),
        (":*:orders", "*", "orders"),
        (":odd", ".", ":odd"),
        ("", ".", ""),
    ],
)
def test_a_subject_has_a_context_and_a_name(text: str, context: str, name: str) -> None:
    """Only a colon with a dot begins a context."""
    assert Subject.parse(text) == Subject(context, name)


def test_a_subject_has_one_normal_form() -> None:
    """The default context is not written."""
    assert normal_subject(":.:orders") == "orders"
    assert within("orders", ":.a:lines") == ":.a:orders"
    assert within(":.b:orders", ":.a:lines") == ":.b:orders"


@pytest.mark.parametrize(
    "text", ["", "a\nb", "a\x00", "__GLOBAL", "__EMPTY", ":.a:", ":.__GLOBAL:x", "\x85"]
)
def test_names_that_no_schema_may_have(text: str) -> None:
    """Reserved names and control characters are refused."""
    assert not is_valid_subject(text)


def test_a_context_has_a_leading_dot() -> None:
    """Both spellings of a request are one context."""
    assert normal_context(":.a:") == normal_context("a") == normal_context(".a") == ".a"
    with pytest.raises(ValueError, match="colon"):
        normal_context("a:b")


def test_a_guid_hashes_all_that_decides_a_schema() -> None:
    """The order of parts is Confluent's: text, references, metadata, rules."""
    text = '"string"'
    plain = SchemaContent(text=text)
    assert guid_of(plain) == str(UUID(hashlib.md5(text.encode()).hexdigest()))
    reference = Reference(name="n", subject="s", version=258)
    metadata = Metadata.of(tags={"p": ["t2", "t1"]}, properties={"k": "v"}, sensitive=["k"])
    rules = RuleSet(domain_rules=(Rule(name="r", type="CEL", disabled=True),))
    whole = SchemaContent(text=text, references=(reference,), metadata=metadata, rule_set=rules)
    expected = (
        b'"string"' + b"ns\x00\x00\x01\x02" + b"\x01pt1t2kvk" + b"\x01rTRANSFORMWRITEREADCEL\x01"
    )
    assert guid_of(whole) == str(UUID(hashlib.md5(expected).hexdigest()))


def test_merged_metadata_keeps_both_and_prefers_the_newer() -> None:
    """Overrides win, defaults fill."""
    old = Metadata.of(properties={"a": "1", "b": "1"}, sensitive=["a"])
    new = Metadata.of(properties={"b": "2"}, sensitive=["b"])
    assert old.merged(new) == Metadata.of(properties={"a": "1", "b": "2"}, sensitive=["a", "b"])


def test_merged_rules_replace_rules_of_one_name() -> None:
    """A newer rule takes the place of the older one."""
    old = RuleSet(domain_rules=(Rule(name="a", expr="1"), Rule(name="b", expr="1")))
    new = RuleSet(domain_rules=(Rule(name="a", expr="2"),))
    assert [(rule.name, rule.expr) for rule in old.merged(new).domain_rules] == [
        ("b", "1"),
        ("a", "2"),
    ]


def test_settings_of_a_subject_lie_over_wider_ones() -> None:
    """Settings that a subject lacks come from its scope."""
    wide = Settings(compatibility_level=CompatibilityLevel.FULL, normalize=True)
    own = Settings(compatibility_level=CompatibilityLevel.NONE)
    assert own.over(wide) == Settings(compatibility_level=CompatibilityLevel.NONE, normalize=True)
