"""Declaring messages: `Message` classes whose fields have Kafka's wire types.

A class represents all versions of a Kafka message. Every field has the range of versions in which it is on the wire; in
other versions it gets its default when decoded, and must have its default when encoded, unless it is ignorable.
`encoder` and `decoder` compile a declaration to straight-line code for one version; `codec` caches the functions.

Source: the README of Kafka's message schemas, KIP-482 (tagged fields), KIP-893 (nullable structs).
"""

import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Union, dataclass_transform, get_args, get_origin

import msgspec

NEVER: Final = 32767
"""The version number for "no version", for example of a message without flexible versions."""

PRIMITIVES: Final = frozenset(
    {"bool", "int8", "int16", "int32", "int64", "uint16", "float64", "string", "bytes", "records", "uuid"}
)


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Message(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """Base of all messages, records and the structs within them.

    Immutable, compared by value, created with keywords; every field has Kafka's default. The garbage collector does not
    track instances, since immutable values cannot form cycles.
    """

    API_KEY: ClassVar[int] = -1
    VERSIONS: ClassVar[tuple[int, int]] = (0, NEVER)
    FLEXIBLE: ClassVar[int] = NEVER


@dataclass(frozen=True, slots=True)
class Wire:
    """The wire format of one field, from Kafka's schema. Versions are inclusive."""

    type: str
    since: int = 0
    until: int = NEVER
    nullable_since: int = NEVER
    nullable_until: int = NEVER
    tag: int = -1
    ignorable: bool = False
    """A version without the field may drop its value. In responses every field is ignorable, so that one response works
    for all versions. In requests and records it is as in Kafka's schema."""
    shared: bool = False
    """Elements of an array often share one object: it is encoded once as long as it is the same object."""


def wire(
    type: str,  # noqa: A002  the word Kafka's schemas use
    *,
    since: int = 0,
    until: int = NEVER,
    nullable_since: int = NEVER,
    nullable_until: int = NEVER,
    tag: int = -1,
    ignorable: bool = False,
    shared: bool = False,
) -> Wire:
    """Return the wire format of a field.

    Used as `voter_id: Annotated[int, wire("int32", since=1)] = -1`. `type` is Kafka's: a primitive, a struct's name, or
    `[]` before either. The struct's class comes from the annotation; its name is for the reader only.
    """
    return Wire(type, since, until, nullable_since, nullable_until, tag, ignorable, shared)


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field of a message class, as the compilers need it."""

    name: str
    kind: str
    """A name of PRIMITIVES, or "struct"."""
    is_array: bool
    struct: type[Message] | None
    default: Any
    wire: Wire = field(repr=False)

    def is_present(self, version: int) -> bool:
        """Return whether the field is on the wire in this version."""
        return self.wire.since <= version <= self.wire.until

    def is_nullable(self, version: int) -> bool:
        """Return whether the field is nullable in this version."""
        return self.wire.nullable_since <= version <= self.wire.nullable_until


def fields_of(message_class: type[Message]) -> Iterator[FieldSpec]:
    """Yield the fields of a message class in wire order.

    Raises TypeError when a field has no wire format, or one that contradicts its annotation.
    """
    annotations = message_class.__annotations__
    names = message_class.__struct_fields__
    defaults = message_class.__struct_defaults__
    if len(defaults) != len(names):
        raise TypeError(f"{message_class.__name__}: every field needs a default")
    for name, default in zip(names, defaults, strict=True):
        base, wire_facts = _split(message_class, name, annotations[name])
        is_array = wire_facts.type.startswith("[]")
        element = wire_facts.type.removeprefix("[]")
        kind = element if element in PRIMITIVES else "struct"
        struct = _struct_class(base) if kind == "struct" else None
        if kind == "struct" and struct is None:
            raise TypeError(f"{message_class.__name__}.{name}: {element!r} is neither a primitive nor a Message")
        yield FieldSpec(name, kind, is_array, struct, default, wire_facts)


def _split(message_class: type[Message], name: str, annotation: Any) -> tuple[Any, Wire]:
    if get_origin(annotation) is Annotated:
        base, *metadata = get_args(annotation)
        for item in metadata:
            if isinstance(item, Wire):
                return base, item
    raise TypeError(f"{message_class.__name__}.{name}: no wire(...) in its annotation")


def _struct_class(annotation: Any) -> type[Message] | None:
    """Return the Message class in `X`, `X | None`, `tuple[X, ...]` or `tuple[X, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Message):
        return annotation
    if get_origin(annotation) in (tuple, Union, types.UnionType):
        for argument in get_args(annotation):
            found = _struct_class(argument) if argument not in (None, Ellipsis) else None
            if found is not None:
                return found
    return None
