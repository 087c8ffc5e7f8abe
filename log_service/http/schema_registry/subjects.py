"""Parses and validates the names of subjects and contexts.

A qualified subject is ``:.context:name``. In the default context it is only the name. A qualified
subject with an empty name, ``:.context:``, is the scope of settings for all subjects of the
context.
"""

from dataclasses import dataclass

DEFAULT_CONTEXT = "."
GLOBAL_CONTEXT = ".__GLOBAL"
GLOBAL_SCOPE = f":{GLOBAL_CONTEXT}:"
"""Scope of settings that hold in every context."""
ANY_CONTEXT = ":*:"
"""Prefix that stands for the same name in every context."""
RESERVED_NAMES = frozenset({"__GLOBAL", "__EMPTY"})


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject's context, which begins with a dot, and its name, which may be empty."""

    context: str
    name: str

    @classmethod
    def parse(cls, text: str) -> "Subject":
        """Return the parts of a subject, qualified or not."""
        if text.startswith(ANY_CONTEXT):
            return cls("*", text.removeprefix(ANY_CONTEXT))
        if not text.startswith(":."):
            return cls(DEFAULT_CONTEXT, text)
        context, _, name = text[1:].partition(":")
        return cls(context, name)

    def __str__(self) -> str:
        return self.scope + self.name

    @property
    def scope(self) -> str:
        """The context as a prefix of subjects. It is empty for the default context."""
        return "" if self.context == DEFAULT_CONTEXT else f":{self.context}:"


def normal_subject(text: str) -> str:
    """Return a subject in its normal form, for instance ``orders`` for ``:.:orders``."""
    return str(Subject.parse(text))


def context_of(subject: str) -> str:
    """Return the context of a subject."""
    return Subject.parse(subject).context


def scope_of(subject: str) -> str:
    """Return the subject's context as a prefix, empty for the default context."""
    return Subject.parse(subject).scope


def is_valid_subject(text: str, *, is_scope_allowed: bool = False) -> bool:
    """Return whether schemas may be registered under a subject.

    ``is_scope_allowed`` also accepts contexts, which may have settings.
    """
    subject = Subject.parse(text)
    if any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in text) or text.startswith(
        ANY_CONTEXT
    ):
        return False
    if is_scope_allowed:
        return True
    return (
        bool(subject.name)
        and subject.name not in RESERVED_NAMES
        and subject.context != GLOBAL_CONTEXT
    )


def normal_context(text: str) -> str:
    """Return a context with its leading dot and without colons at its ends.

    Raises:
        ValueError: the name has a colon inside.
    """
    name = text.removeprefix(":").removesuffix(":")
    if ":" in name:
        raise ValueError(f"a context has no colon in its name: {text}")
    return name if name.startswith(".") else f".{name}"


def within(subject: str, parent: str) -> str:
    """Move a subject without a context into the context of ``parent``. Others stay unchanged."""
    own = Subject.parse(subject)
    if own.context != DEFAULT_CONTEXT:
        return str(own)
    return str(Subject(context_of(parent), own.name))
