"""Watches each node's knowledge of ACLs, users and tokens, and the time from which it has it.

Nodes decide by that.

Decides nothing. A node decides by its newest image alone, so that a change holds on a node from the
moment at which its image has it. Every image that is published is noted, before anything is decided
by it.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

import trio

from log_service.metadata.access import AclEntry
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import AccessImage, MetadataImage
from log_service.metadata.loader import MetadataLoader
from tests.sim.access_model import AccessState, Rule
from tests.sim.access_users import SUPER_USERS, number_of
from tests.sim.pauses import HOST

NOTHING = AccessState(super_users=SUPER_USERS)
"""What a node knows that has read nothing yet."""


class AccessWitness:
    """The knowledge that each node has had, by its name."""

    def __init__(self, names: Sequence[str]) -> None:
        self._times: dict[str, list[float]] = {name: [-1.0] for name in names}
        self._states: dict[str, list[AccessState]] = {name: [NOTHING] for name in names}
        self._known: dict[tuple[int, int, int], tuple[AccessImage, AccessState]] = {}

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Watch what is published inside."""
        publish = MetadataLoader.publish

        def note_and_publish(
            loader: MetadataLoader, delta: MetadataDelta, image: MetadataImage
        ) -> None:
            if HOST.get() in self._times:
                self._note(HOST.get(), self._state_of(image.access))
            publish(loader, delta, image)

        with mock.patch.object(MetadataLoader, "publish", note_and_publish):
            yield

    def states(self, names: Iterable[str], since: float, until: float) -> list[AccessState]:
        """Return what any of the nodes has known at some time between two moments, those included."""
        found: dict[int, AccessState] = {}
        for name in names:
            times, states = self._times[name], self._states[name]
            first = max(0, bisect_left(times, since) - 1)
            for at, state in zip(times[first:], states[first:], strict=True):
                if at > until:
                    break
                found[id(state)] = state
        return list(found.values())

    def newest(self, name: str) -> AccessState:
        """Return what a node knows now."""
        return self._states[name][-1]

    def _note(self, name: str, state: AccessState) -> None:
        if self._states[name][-1] is not state:
            self._times[name].append(trio.current_time())
            self._states[name].append(state)

    def _state_of(self, access: AccessImage) -> AccessState:
        key = (id(access.acls), id(access.scram_credentials), id(access.delegation_tokens))
        known = self._known.get(key)
        if known is None:
            rules = tuple(map(rule_of, access.acls.values()))
            passwords = {
                user.name: number_of(credential.salt.reveal())
                for user, credential in access.scram_credentials.items()
            }
            tokens = {
                token.token_id: token.expiration_timestamp_ms
                for token in access.delegation_tokens.values()
            }
            state = AccessState(
                rules=rules, passwords=passwords, tokens=tokens, super_users=SUPER_USERS
            )
            # The image is kept, so that these ids stay its own.
            known = self._known[key] = (
                access,
                state,
            )
        return known[1]


def rule_of(entry: AclEntry) -> Rule:
    """Return an ACL of the metadata as the judges know it."""
    return Rule(
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission=entry.permission_type,
        resource=entry.resource_type,
        pattern=entry.pattern_type,
        name=entry.resource_name,
    )
