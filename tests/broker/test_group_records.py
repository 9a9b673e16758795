"""Records of __consumer_offsets with arbitrary bytes."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_core.broker.coordinator.group_records import (
    CommittedOffset,
    GroupRecord,
    OffsetRecord,
    offset_record,
    read_record,
)
from kraft_core.protocol.errors import KafkaError

KEY, VALUE = offset_record("g", "t", 3, CommittedOffset(7, -1, "m", 1_000))
KEYS = st.binary(max_size=40) | st.binary(max_size=20).map(lambda rest: b"\x00\x02" + rest) | st.just(KEY)
VALUES = st.none() | st.binary(max_size=60) | st.binary(max_size=40).map(lambda rest: b"\x00\x03" + rest)


@given(key=KEYS, value=VALUES)
def test_any_bytes_are_a_record_or_a_kafka_error(key: bytes, value: bytes | None) -> None:
    """Any other error would stop the load of a partition and leave its groups without a coordinator."""
    with suppress(KafkaError):
        assert isinstance(read_record(key, value), OffsetRecord | GroupRecord | None)


@pytest.mark.parametrize("size", [0, 1])
def test_a_value_without_a_version_is_a_kafka_error(size: int) -> None:
    with pytest.raises(KafkaError, match=f"{size} bytes"):
        read_record(KEY, bytes(size))
