"""The compiler of encoders: generates an encoding function for a message class and a version.

The generated function is `codec(m, p)`: it appends the message's parts to the list `p`, which the caller joins.
Consecutive fixed-size fields are one struct call; a string costs its encoding and a table look-up.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from kraft_core.protocol import primitives
from kraft_core.protocol.codegen import FIXED_FORMATS, Source, fixed_size, is_fixed, plain_fields, tagged_fields
from kraft_core.protocol.wire import FieldSpec, Message, fields_of

Encoder = Callable[[Any, list[bytes]], None]

_ARRAY_CODES: Final = {"bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q"}
_ARRAY_WRITERS: Final = {
    (kind, compact): primitives.ArrayWriters(code, compact=compact)
    for kind, code in _ARRAY_CODES.items()
    for compact in (False, True)
}


class UnsupportedField(Exception):  # noqa: N818  caught in codec and turned into EncodeError
    """A field is set that the version does not have."""


def compile_encoder(message_class: type[Message], version: int, *, flexible: bool) -> Encoder:
    """Compile the encoder of one version; `flexible`: the version has compact lengths and tags."""
    name = f"{message_class.__name__} v{version} encode"
    return _EncoderCompiler(name, version, flexible=flexible).compile(message_class)


class _EncoderCompiler:
    def __init__(self, name: str, version: int, *, flexible: bool) -> None:
        self._source = Source(name, "m, p")
        self._version = version
        self._flexible = flexible
        self._run: list[tuple[str, str, str]] = []
        """Format, expression and path of fixed-size fields without code yet."""
        self._pending: list[tuple[str, str]] = []
        """Part expressions with their fields, not yet added to the list."""
        self._null = b"\x00" if flexible else b"\xff\xff\xff\xff"
        strings = primitives.COMPACT_STRING_LENGTH if flexible else primitives.STRING_LENGTH
        lengths = primitives.COMPACT_LENGTH if flexible else primitives.INT32_LENGTH
        self._source.names.update(STRINGS=strings, LENGTHS=lengths, UVARINT=primitives.UVARINT)
        self._source.names.update(join=b"".join, Unsupported=UnsupportedField, uuids=primitives.encode_uuids)

    def compile(self, message_class: type[Message]) -> Encoder:
        self._struct(message_class, "m")
        self._flush()
        self._source.line("return None")
        return self._source.compile()

    def _part(self, expression: str) -> None:
        """Add an expression of type bytes."""
        self._flush_run()
        self._pending.append((expression, self._source.path))

    def _flush_run(self) -> None:
        if not self._run:
            return
        formats = "".join(code for code, _, _ in self._run)
        values = [expression for _, expression, _ in self._run if expression]
        label = self._run[0][2]
        self._run = []
        if values:
            pack = self._source.constant("PACK", formats, struct.Struct(">" + formats).pack)
            expression = f"{pack}({', '.join(values)})"
        else:
            expression = repr(bytes(len(formats)))
        self._pending.append((expression, label))

    def _flush(self) -> None:
        """Generate the statement that appends all pending parts, one expression per line."""
        self._flush_run()
        if len(self._pending) == 1:
            expression, label = self._pending[0]
            self._source.line(f"p.append({expression})", label)
        elif self._pending:
            self._source.line("p += (")
            for expression, label in self._pending:
                self._source.line(f"    {expression},", label)
            self._source.line(")")
        self._pending = []

    def _struct(self, message_class: type[Message], variable: str) -> None:
        for spec in fields_of(message_class):
            if not spec.is_present(self._version) and not spec.wire.ignorable:
                self._refuse(spec, variable)
        for spec in plain_fields(message_class, self._version):
            with self._source.inside(spec.name):
                self._field(spec, f"{variable}.{spec.name}")
        if self._flexible:
            self._tags(tagged_fields(message_class, self._version), variable)

    def _refuse(self, spec: FieldSpec, variable: str) -> None:
        self._flush()
        with self._source.inside(spec.name):
            self._source.line(f"if {variable}.{spec.name} != {self._source.default(spec)}: raise Unsupported")

    def _field(self, spec: FieldSpec, expression: str) -> None:
        if spec.is_array:
            self._array(spec, expression)
        elif spec.kind == "struct":
            self._nested(spec, expression)
        elif is_fixed(spec):
            value = f"{expression}.int.to_bytes(16)" if spec.kind == "uuid" else expression
            self._run.append((FIXED_FORMATS[spec.kind], value, self._source.path))
        elif spec.kind == "string":
            self._string(spec, expression)
        else:
            self._bytes(spec, expression)

    def _string(self, spec: FieldSpec, expression: str) -> None:
        x = self._source.fresh("x")
        if spec.is_nullable(self._version):
            null = self._null[:2]
            self._part(f"{null!r} if ({x} := {expression}) is None else STRINGS[len({x} := {x}.encode())]")
            self._part(f"{x} or b''")
        else:
            self._part(f"STRINGS[len({x} := {expression}.encode())]")
            self._part(x)

    def _bytes(self, spec: FieldSpec, expression: str) -> None:
        x = self._source.fresh("x")
        if spec.is_nullable(self._version):
            self._part(f"{self._null!r} if ({x} := {expression}) is None else LENGTHS[len({x})]")
            self._part(f"{x} or b''")
        else:
            self._part(f"LENGTHS[len({x} := {expression})]")
            self._part(x)

    def _nested(self, spec: FieldSpec, expression: str) -> None:
        assert spec.struct is not None
        x = self._source.fresh("x")
        self._flush()
        self._source.line(f"{x} = {expression}")
        if not spec.is_nullable(self._version):
            self._struct(spec.struct, x)
            return
        self._source.line(f"p.append(b'\\xff' if {x} is None else b'\\x01')")
        with self._source.block(f"if {x} is not None:"):
            self._struct(spec.struct, x)
            self._flush()
            self._source.line("pass")

    def _array(self, spec: FieldSpec, expression: str) -> None:
        x = self._source.fresh("x")
        nullable = spec.is_nullable(self._version)
        if spec.kind in _ARRAY_CODES:
            writers = _ARRAY_WRITERS[spec.kind, self._flexible]
            table = self._source.constant("WRITERS", spec.kind, writers)
            prefix = f"len({x}) + 1" if self._flexible else f"len({x})"
            empty = repr(b"\x01" if self._flexible else bytes(4))
            if nullable:
                empty = f"({self._null!r} if {x} is None else {empty})"
            self._part(f"{table}[len({x})]({prefix}, *{x}) if ({x} := {expression}) else {empty}")
            return
        if nullable:
            self._part(f"{self._null!r} if ({x} := {expression}) is None else LENGTHS[len({x})]")
        else:
            self._part(f"LENGTHS[len({x} := {expression})]")
        if spec.kind == "uuid":
            self._part(f"uuids({x} or ())" if nullable else f"uuids({x})")
        else:
            self._elements(spec, f"{x} or ()" if nullable else x)

    def _elements(self, spec: FieldSpec, iterable: str) -> None:
        self._flush()
        if spec.wire.shared:
            self._shared_elements(spec, iterable)
        else:
            self._loop(spec, iterable)

    def _loop(self, spec: FieldSpec, iterable: str) -> None:
        element = self._source.fresh("e")
        with self._source.block(f"for {element} in {iterable}:"):
            if spec.struct is not None:
                self._struct(spec.struct, element)
            elif spec.kind == "string":
                self._part(f"STRINGS[len({element} := {element}.encode())]")
                self._part(element)
            else:
                self._part(f"LENGTHS[len({element})]")
                self._part(element)
            self._flush()

    def _shared_elements(self, spec: FieldSpec, iterable: str) -> None:
        """Generate the code that encodes an array once as long as the field refers to the same object."""
        source = self._source
        owner, last, parts, kept = (source.fresh(stem) for stem in ("x", "last", "q", "kept"))
        source.prologue(f"{last} = None")
        source.line(f"{owner} = {iterable}")
        with source.block(f"if {owner} is not {last}:"):
            source.line(f"{parts} = p")
            source.line("p = []")
            self._loop(spec, owner)
            source.line(f"{kept} = join(p)")
            source.line(f"p = {parts}")
            source.line(f"{last} = {owner}")
        source.line(f"p.append({kept})")

    def _tags(self, specs: list[FieldSpec], variable: str) -> None:
        if not specs:
            self._run.append(("x", "", self._source.path))
            return
        source = self._source
        self._flush()
        count, tags = source.fresh("n"), source.fresh("t")
        source.line(f"{count} = 0")
        for spec in specs:
            with source.inside(spec.name):
                x = source.fresh("x")
                source.line(f"{x} = {variable}.{spec.name}")
                with source.block(self._differs(spec, x)):
                    source.line(f"if not {count}: {tags} = []")
                    self._tag(spec, x, tags)
                    source.line(f"{count} += 1")
        with source.block(f"if {count}:"):
            source.line(f"p.append(UVARINT[{count}])")
            source.line(f"p += {tags}")
        source.line("else: p.append(b'\\x00')")

    def _differs(self, spec: FieldSpec, x: str) -> str:
        default = self._source.default(spec)
        if default == "None":
            return f"if {x} is not None:"
        if default == "()" and not spec.is_nullable(self._version):
            return f"if {x}:"
        return f"if {x} != {default}:"

    def _tag(self, spec: FieldSpec, x: str, tags: str) -> None:
        source = self._source
        if is_fixed(spec):  # pack tag, size and value in one struct call
            value = f"{x}.int.to_bytes(16)" if spec.kind == "uuid" else x
            formats = "BB" + FIXED_FORMATS[spec.kind]
            assert spec.wire.tag < 0x80, "the tag needs more than one byte"
            pack = source.constant("PACK", formats, struct.Struct(">" + formats).pack)
            source.line(f"{tags}.append({pack}({spec.wire.tag}, {fixed_size(spec.kind)}, {value}))")
            return
        outer, value = source.fresh("q"), source.fresh("v")
        source.line(f"{outer} = p")
        source.line("p = []")
        self._field(spec, x)
        self._flush()
        source.line(f"{value} = join(p)")
        source.line(f"p = {outer}")
        source.line(f"{tags} += (UVARINT[{spec.wire.tag}], UVARINT[len({value})], {value})")
