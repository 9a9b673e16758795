"""Uuids in Kafka's text form."""

from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_core.protocol.uuids import (
    DIRECTORY_LOST,
    METADATA_TOPIC_ID,
    ZERO_UUID,
    is_reserved,
    random_uuid,
    uuid_from_text,
    uuid_to_text,
)


@given(value=st.uuids())
def test_the_text_form_can_be_read_back(value: UUID) -> None:
    text = uuid_to_text(value)
    assert len(text) == 22
    assert uuid_from_text(text) == value
    assert uuid_from_text(text + "==") == value


def test_the_reserved_ids_have_kafkas_text() -> None:
    assert uuid_to_text(METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_to_text(DIRECTORY_LOST) == "AAAAAAAAAAAAAAAAAAAAAg"
    assert is_reserved(UUID(int=99))
    assert not is_reserved(UUID(int=100))


@pytest.mark.parametrize(
    "text", ["", "AAAA", "A" * 21, "A" * 23, "A" * 44, "AAAAAAAAAAAAAAAAAAAA+A", "AAAAAAAAAAAAAAAAAAAA A", "größe"]
)
def test_a_text_that_is_no_uuid_is_named_in_the_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not a Kafka uuid") as failure:
        uuid_from_text(text)
    assert repr(text[:40]) in str(failure.value)


def test_random_uuids_are_never_reserved_and_never_begin_with_a_dash() -> None:
    random = Random(7)
    drawn = [random_uuid(random) for _ in range(2_000)]
    assert len(set(drawn)) == 2_000
    assert not any(is_reserved(value) or uuid_to_text(value).startswith("-") for value in drawn)


def test_a_seeded_generator_returns_the_same_uuids() -> None:
    assert random_uuid(Random(1)) == random_uuid(Random(1))
    assert random_uuid() not in {random_uuid(), ZERO_UUID}
