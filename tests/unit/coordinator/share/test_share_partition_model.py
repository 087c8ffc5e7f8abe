"""A share partition lives through random stories, and keeps the promises of the model (KIP-932)."""

from hypothesis import settings

from tests.unit.coordinator.share.share_group_model import ShareGroupModel

ShareGroupModel.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
test_model = ShareGroupModel.TestCase
