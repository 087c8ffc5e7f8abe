"""A filter of ACLs finds what a walk over all of them finds, whatever it names and leaves open."""

from hypothesis import given, settings
from hypothesis import strategies as st

from log_service.security.acls.filters import AclFilter
from log_service.security.acls.index import NO_INDEX
from tests.unit.security.acls import Acl

PRINCIPALS = ("User:ann", "User:bob", "User:*")
HOSTS = ("*", "10.0.0.1")
NAMES = ("a", "ab", "b", "*")
acls = st.builds(
    Acl,
    resource_type=st.sampled_from([2, 3]),
    resource_name=st.sampled_from(NAMES),
    pattern_type=st.sampled_from([3, 4, 7]),  # another product may know more kinds
    principal=st.sampled_from(PRINCIPALS),
    host=st.sampled_from(HOSTS),
    operation=st.sampled_from([2, 3, 4]),
    permission_type=st.sampled_from([2, 3]),
)
filters = st.builds(
    AclFilter,
    resource_type=st.sampled_from([1, 2, 3]),
    resource_name=st.sampled_from([None, *NAMES]),
    pattern_type=st.sampled_from([1, 2, 3, 4, 7, 99]),
    principal=st.sampled_from([None, *PRINCIPALS]),
    host=st.sampled_from([None, *HOSTS]),
    operation=st.sampled_from([1, 2, 3, 4, 99]),
    permission_type=st.sampled_from([1, 2, 3]),
)


@settings(max_examples=300, deadline=None)
@given(present=st.lists(acls, max_size=30), wanted=st.lists(filters, min_size=1, max_size=10))
def test_a_filter_finds_what_a_walk_over_all_acls_finds(
    present: list[Acl], wanted: list[AclFilter]
) -> None:
    index = NO_INDEX.changed(present, ())
    for each in wanted:
        assert sorted(map(id, each.find(index))) == sorted(
            id(acl) for acl in present if each.matches(acl)
        ), each
