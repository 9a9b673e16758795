"""Subscriptions and assignments as bytes: round trips, older and newer versions, damage."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_core.clients.client_metadata import TopicPartition
from kraft_core.clients.consumer.assignors.consumer_partition_assignor import Assignment, Subscription
from kraft_core.clients.consumer.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kraft_core.protocol.errors import DecodeError

PARTITIONS = st.lists(st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 9)), unique=True)


@given(st.lists(st.sampled_from("abc"), unique=True), PARTITIONS, st.integers(-1, 2**31 - 1), st.none() | st.just("r"))
def test_subscriptions_survive_the_wire(
    topics: list[str], owned: list[TopicPartition], generation: int, rack: str | None
) -> None:
    given_one = Subscription(tuple(sorted(topics)), b"u", tuple(sorted(owned)), generation, rack)
    assert decode_subscription(encode_subscription(given_one)) == given_one


@given(PARTITIONS, st.none() | st.binary(max_size=4))
def test_assignments_survive_the_wire(partitions: list[TopicPartition], user_data: bytes | None) -> None:
    read = decode_assignment(encode_assignment(Assignment(tuple(partitions), user_data)))
    assert sorted(read.partitions) == sorted(partitions)
    assert read.user_data == user_data


def test_a_subscription_of_the_first_version_has_no_owned_partitions() -> None:
    first = struct.pack(">hih", 0, 1, 1) + b"t" + struct.pack(">i", -1)
    assert decode_subscription(first) == Subscription(("t",))


def test_a_version_newer_than_ours_is_read_as_our_newest() -> None:
    newest = encode_subscription(Subscription(("t",), rack_id="r"))
    assert decode_subscription(struct.pack(">h", 9) + newest[2:] + b"more").rack_id == "r"


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\3", b"\xff\xff" + b"\0" * 8, b"\0\3\0\0\0\7"])
def test_damaged_bytes_are_an_error(data: bytes) -> None:
    with pytest.raises(DecodeError, match="ConsumerProtocol"):
        decode_subscription(data)
    with pytest.raises(DecodeError, match="ConsumerProtocol"):
        decode_assignment(data)
