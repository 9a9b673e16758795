"""Requests that decode and have random values: they reach code that random bytes do not."""

import random
from typing import Any
from uuid import UUID

from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.protocol.wire import FieldSpec, Message, fields_of

INTEGERS = {
    "int8": (-128, -1, 0, 1, 2, 3, 4, 16, 127),
    "int16": (-32768, -1, 0, 1, 2, 3, 32767),
    "uint16": (0, 1, 65535),
    "int32": (-(2**31), -2, -1, 0, 1, 2, 3, 50, 2**31 - 1),
    "int64": (-(2**63), -2, -1, 0, 1, 1000, 2**63 - 1),
}
NAMES = ("", ".", "..", "known", "known2", "x" * 250, "a b", "<script>", "\ufffd\n", "__consumer_offsets", "1", "101",
         "__cluster_metadata", "range", "retention.ms", "-5", "metadata.version", "User:x")  # fmt: skip


class Draw:
    """Draws messages from a seed. `names` and `uuids` are those that exist on the node under test."""

    def __init__(self, dice: random.Random, uuids: tuple[UUID, ...]) -> None:
        self._dice = dice
        self._uuids = (ZERO_UUID, *uuids)

    def message(self, message_class: type[Message], version: int, depth: int = 0) -> Message:
        """Return a message of the class that can be encoded in the version."""
        values = {
            spec.name: self._value(spec, version, depth)
            for spec in fields_of(message_class)
            if spec.is_present(version) and (spec.wire.tag < 0 or self._dice.random() < 0.3)
        }
        return message_class(**values)

    def _value(self, spec: FieldSpec, version: int, depth: int) -> Any:
        if spec.is_nullable(version) and self._dice.random() < 0.2:
            return None
        if spec.is_array:
            size = self._dice.choice((0, 1, 1, 2, 3)) if depth < 4 else 0
            return tuple(self._one(spec, version, depth + 1) for _ in range(size))
        return self._one(spec, version, depth)

    def _one(self, spec: FieldSpec, version: int, depth: int) -> Any:
        dice = self._dice
        if spec.struct is not None:
            return self.message(spec.struct, version, depth + 1)
        if spec.kind in INTEGERS:
            if spec.name.endswith(("timeout_ms", "wait_ms")):  # the longest time that a request may delay its answer
                return dice.choice((-1, 0, 1, 200))
            return dice.choice(INTEGERS[spec.kind])
        match spec.kind:
            case "bool":
                return dice.random() < 0.5
            case "string":
                return dice.choice(NAMES)
            case "uuid":
                return dice.choice(self._uuids)
            case "float64":
                return dice.choice((0.0, -1.0, float("nan"), float("inf"), 1e308))
        return dice.randbytes(dice.choice((0, 1, 20, 80)))
