"""Kafka's uuids: their 22-character text form and the reserved values.

Source: Uuid.java and DirectoryId.java, Kafka 4.3.1.
"""

import binascii
from base64 import b64decode, urlsafe_b64encode
from random import Random, SystemRandom
from typing import Final
from uuid import UUID

ZERO_UUID: Final = UUID(int=0)
ONE_UUID: Final = UUID(int=1)
METADATA_TOPIC_ID: Final = ONE_UUID

DIRECTORY_MIGRATING: Final = UUID(int=0)
"""Directory of a replica whose broker has not said yet, on a cluster that came from an older version."""
DIRECTORY_UNASSIGNED: Final = UUID(int=1)
"""The broker may place the replica in any directory, and tells the controller which it took."""
DIRECTORY_LOST: Final = UUID(int=2)
"""The directory of the replica is offline."""

RESERVED_BELOW: Final = 100
"""Uuids of a smaller number are reserved: never drawn, never a directory of a broker."""

_TEXT_LENGTH_MAX: Final = 24
_SYSTEM_RANDOM: Final = SystemRandom()


def uuid_to_text(value: UUID) -> str:
    """Write a uuid as Kafka does: url-safe base64 of its 16 bytes without padding, 22 characters."""
    return urlsafe_b64encode(value.bytes)[:22].decode("ascii")


def uuid_from_text(text: str) -> UUID:
    """Read the 22-character form (padding allowed).

    Raises ValueError, naming the text, when it is not base64 of exactly 16 bytes.
    """
    if len(text) <= _TEXT_LENGTH_MAX and "+" not in text and "/" not in text:
        standard = text.rstrip("=").replace("-", "+").replace("_", "/")
        try:
            raw = b64decode(standard + "==", validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        if len(raw) == 16:
            return UUID(bytes=raw)
    raise ValueError(f"{text[:40]!r} is not a Kafka uuid: 22 characters of url-safe base64 are expected")


def is_reserved(value: UUID) -> bool:
    """Whether the uuid is one of the hundred that Kafka keeps for itself."""
    return value.int < RESERVED_BELOW


def random_uuid(random: Random | None = None) -> UUID:
    """Draw a version 4 uuid that is not reserved and whose text does not begin with '-'.

    `random` is the node's own generator, so that a simulation can replay the draw; without it the
    system's generator is used.
    """
    generator = _SYSTEM_RANDOM if random is None else random
    while True:
        drawn = UUID(int=generator.getrandbits(128), version=4)
        if not is_reserved(drawn) and not uuid_to_text(drawn).startswith("-"):
            return drawn
