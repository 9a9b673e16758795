"""Validation of topic names, and collisions between them.

Metric names replace "." by "_", so topics that differ only in these characters collide.
Source: Topic, Kafka 4.3.1.
"""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING, Final

from kraft_core.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

TOPIC_NAME_LENGTH_MAX: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")
_COLLIDING: Final = re.compile(r"[._]")
_VARIANT_CHARACTERS_MAX: Final = 8  # up to 256 look-ups; beyond that comparing with all names is cheaper


def validate_topic_name(name: str) -> None:
    """Raise KafkaError INVALID_TOPIC_EXCEPTION, with the reason, unless the name is allowed."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in {".", ".."}:
        reason = f"'{name}' is not allowed"
    elif len(name) > TOPIC_NAME_LENGTH_MAX:
        reason = f"the length of '{name}' is longer than the max allowed length {TOPIC_NAME_LENGTH_MAX}"
    elif not _LEGAL.fullmatch(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def find_collision(name: str, topics: Mapping[str, UUID]) -> str | None:
    """Return an existing topic that equals `name`, or differs only in "." and "_"; None if there is none."""
    parts = _COLLIDING.split(name)
    if len(parts) == 1:
        return None
    if len(parts) - 1 > _VARIANT_CHARACTERS_MAX:
        unified = name.replace(".", "_")
        return next((other for other in sorted(topics) if other.replace(".", "_") == unified), None)
    for marks in product("._", repeat=len(parts) - 1):
        variant = parts[0] + "".join(mark + part for mark, part in zip(marks, parts[1:], strict=True))
        if variant in topics:
            return variant
    return None
