"""Kafka's uuids: the 22-character text form and the reserved values.

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
"""Directory of a replica whose broker has not reported it yet, in a cluster upgraded from an older version."""
DIRECTORY_UNASSIGNED: Final = UUID(int=1)
"""The broker may place the replica in any directory, and reports its choice to the controller."""
DIRECTORY_LOST: Final = UUID(int=2)
"""The replica's directory is offline."""

RESERVED_BELOW: Final = 100
"""Uuids with a smaller number are reserved: they are never generated, and never a broker's directory."""

_TEXT_LENGTH_MAX: Final = 24
_SYSTEM_RANDOM: Final = SystemRandom()


def uuid_to_text(value: UUID) -> str:
    """Return Kafka's text form: url-safe base64 of the 16 bytes without padding, 22 characters."""
    return urlsafe_b64encode(value.bytes)[:22].decode("ascii")


def uuid_from_text(text: str) -> UUID:
    """Parse the 22-character form; padding is allowed.

    Raises ValueError with the text when it is not base64 of exactly 16 bytes.
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
    """Return whether the uuid is one of the hundred that Kafka reserves."""
    return value.int < RESERVED_BELOW


def random_uuid(random: Random | None = None) -> UUID:
    """Return a random version 4 uuid that is not reserved and whose text does not begin with '-'.

    `random` is the node's generator, so that a simulation is reproducible; without it the system's generator is used.
    """
    generator = _SYSTEM_RANDOM if random is None else random
    while True:
        drawn = UUID(int=generator.getrandbits(128), version=4)
        if not is_reserved(drawn) and not uuid_to_text(drawn).startswith("-"):
            return drawn
