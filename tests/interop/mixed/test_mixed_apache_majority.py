"""A quorum of two of Apache's controllers and one of ours; a second one of ours joins."""

from collections.abc import Iterator

import pytest

from tests.interop.admin.tools import Tools
from tests.interop.mixed.mixed_claims import MixedQuorumClaims
from tests.interop.mixed.mixed_story import Story, run_story

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1_200)]  # the first test waits for the whole story


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, tools: Tools) -> Iterator[Story]:
    with run_story(tmp_path_factory.mktemp("mixed"), frozenset({1, 2}), tools) as found:
        yield found


class TestTwoOfApachesAndOneOfOurs(MixedQuorumClaims):
    """With the fixture above."""
