"""Seeded random messages: every field a version has gets a value, often an edge of its range."""

from collections.abc import Callable
from random import Random
from typing import Any
from uuid import UUID

from kraft_core.protocol.wire import FieldSpec, Message, fields_of

INT_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
TEXTS = ("", "a", "topic-1", "größe", "日本", "x" * 200, "\N{SNAKE}")


Element = Callable[[FieldSpec, int, Random, int], Any]


def random_message(
    message_class: type[Message], version: int, random: Random, depth: int = 0, element: Element | None = None
) -> Any:
    """Build a message whose fields of this version are random and whose other fields keep their default.

    `element` draws single values in place of `random_element`.
    """
    values = {
        spec.name: random_value(spec, version, random, depth, element)
        for spec in fields_of(message_class)
        if spec.is_present(version)
    }
    return message_class(**values)


def random_value(spec: FieldSpec, version: int, random: Random, depth: int, element: Element | None) -> Any:
    """Draw a value of a field; tagged fields keep their default half of the time."""
    draw = random_element if element is None else element
    if spec.wire.tag >= 0 and random.random() < 0.5:
        return spec.default
    if spec.is_nullable(version) and random.random() < 0.3:
        return None
    if spec.is_array:
        count = random.choice((0, 1, 2, 3) if depth < 2 else (0, 1, 2))
        return tuple(draw(spec, version, random, depth + 1) for _ in range(count))
    return draw(spec, version, random, depth)


def random_element(spec: FieldSpec, version: int, random: Random, depth: int, element: Element | None = None) -> Any:
    """Draw a value of the field's kind."""
    match spec.kind:
        case "struct":
            assert spec.struct is not None
            return random_message(spec.struct, version, random, depth, element)
        case "bool":
            return random.random() < 0.5
        case "uint16":
            return random.choice((0, 1, 9092, 65535))
        case "float64":
            return random.choice((0.0, -1.5, 1e300, random.random()))
        case "string":
            return random.choice(TEXTS)
        case "bytes" | "records":
            return random.randbytes(random.choice((0, 1, 20, 130)))
        case "uuid":
            return UUID(int=random.choice((0, 1, random.getrandbits(128))))
        case kind:
            limit = 1 << INT_BITS[kind] - 1
            return random.choice((0, 1, -1, limit - 1, -limit, random.randrange(-limit, limit)))
