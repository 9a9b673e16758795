"""The compiler of decoders: generates a decoding function for a message class and a version.

The generated function is `codec(data, pos, size)`, with `size` = len(data); it returns the message and the position
after it. No memory is allocated for an announced length: a length is first compared with the remaining bytes, a count
with the minimum bytes of its elements. Unknown tags are skipped; invalid UTF-8 in a string becomes U+FFFD, as in Kafka.

Limits
------
The decoder of a request also limits the array elements and tagged fields of the whole request to `room`, so that its
cost is bounded before they are decoded (`request_limits`).
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from kraft_core.protocol import primitives
from kraft_core.protocol.codegen import FIXED_FORMATS, Source, fixed_size, is_fixed, plain_fields, tagged_fields
from kraft_core.protocol.wire import FieldSpec, Message, fields_of

Decoder = Callable[..., tuple[Any, int]]
"""Called with (data, position, size), for requests also with the keyword `room`."""

UNLIMITED_ROOM: Final = 1 << 62

VIEWED: Final = frozenset({"FetchResponse"})
"""Messages that are large: their decoders also take a memoryview as data, and copy what they return."""

_INT_ARRAYS: Final = {
    kind: primitives.IntArrays(code, fixed_size(kind))
    for kind, code in {"int8": "b", "int16": "h", "int32": "i", "int64": "q"}.items()
}


def compile_decoder(message_class: type[Message], version: int, *, flexible: bool) -> Decoder:
    """Compile the decoder of one version; `flexible`: the version has compact lengths and tags."""
    name = f"{message_class.__name__} v{version} decode"
    counted = message_class.__name__.endswith("Request")
    viewed = message_class.__name__ in VIEWED
    return _DecoderCompiler(name, version, flexible=flexible, counted=counted, viewed=viewed).compile(message_class)


def least_size(spec: FieldSpec, version: int, *, flexible: bool) -> int:
    """Return the minimum number of bytes of a field."""
    if spec.is_array:
        return 1 if flexible else 4
    if spec.kind == "struct":
        assert spec.struct is not None
        return 1 if spec.is_nullable(version) else least_struct_size(spec.struct, version, flexible=flexible)
    if is_fixed(spec):
        return fixed_size(spec.kind)
    if flexible:
        return 1
    return 2 if spec.kind == "string" else 4


def least_struct_size(message_class: type[Message], version: int, *, flexible: bool) -> int:
    """Return the minimum number of bytes of a struct: its fields and the byte of an empty tag section."""
    fields = plain_fields(message_class, version)
    return sum(least_size(spec, version, flexible=flexible) for spec in fields) + int(flexible)


def _bad_length(length: int, left: int) -> primitives.Malformed:
    """Return the error for an invalid length; -1 is a null that the field does not allow."""
    if length == -1:
        return primitives.Malformed("null, which the field does not allow")
    return primitives.Malformed(f"a length of {length} with {left} bytes left")


class _DecoderCompiler:
    def __init__(self, name: str, version: int, *, flexible: bool, counted: bool, viewed: bool) -> None:
        self._source = Source(name, f"data, pos, size, room={UNLIMITED_ROOM}" if counted else "data, pos, size")
        self._version = version
        self._flexible = flexible
        self._counted = counted
        self._viewed = viewed
        self._run: list[tuple[str, str, str]] = []
        """Format, local name and path of fixed-size values without code yet."""
        self._source.names.update(
            Malformed=primitives.Malformed,
            bad_length=_bad_length,
            uvarint=primitives.decode_uvarint,
            string_length=primitives.decode_string_length,
            skip_counted_tags=primitives.skip_counted_tags,
            UUIDS=primitives.UUIDS,
            UUID_ARRAYS=primitives.UUID_ARRAYS,
        )

    def compile(self, message_class: type[Message]) -> Decoder:
        expression = self._struct(message_class)
        self._source.line(f"return {expression}, pos")
        return self._source.compile()

    def _flush(self) -> None:
        """Generate the statement that reads all fixed-size values of the run in one call."""
        if not self._run:
            return
        formats = "".join(code for code, _, _ in self._run)
        names = [name for _, name, _ in self._run]
        label = self._run[0][2]
        self._run = []
        if formats == "B":
            self._source.line(f"{names[0]} = data[pos]", label)
            self._source.line("pos += 1")
            return
        unpack = self._source.constant("UNPACK", formats, struct.Struct(">" + formats).unpack_from)
        self._source.line(f"{', '.join(names)}, = {unpack}(data, pos)", label)
        self._source.line(f"pos += {struct.calcsize('>' + formats)}")

    def _struct(self, message_class: type[Message]) -> str:
        """Generate the code for a struct; return the expression that creates the object."""
        values: dict[str, str] = {}
        for spec in plain_fields(message_class, self._version):
            with self._source.inside(spec.name):
                values[spec.name] = self._field(spec)
        if self._flexible:
            values.update(self._tags(tagged_fields(message_class, self._version)))
        self._flush()
        specs = list(fields_of(message_class))
        while specs and specs[-1].name not in values:
            specs.pop()
        arguments = [values.get(spec.name) or self._source.default(spec) for spec in specs]
        make = self._source.constant("CLASS", message_class, message_class)
        return f"{make}({', '.join(arguments)})"

    def _field(self, spec: FieldSpec) -> str:
        """Generate the code for a field; return the expression of its value."""
        if spec.is_array:
            return self._array(spec)
        if spec.kind == "struct":
            return self._nested(spec)
        x = self._source.fresh("x")
        if is_fixed(spec):
            self._run.append((FIXED_FORMATS[spec.kind], x, self._source.path))
            return f"UUIDS[{x}]" if spec.kind == "uuid" else x
        length = self._length("h" if spec.kind == "string" else "i", is_string=spec.kind == "string")
        self._bytes(spec, length, x, is_nullable=spec.is_nullable(self._version))
        return x

    def _length(self, code: str, *, is_string: bool = False) -> str:
        """Generate the code that reads a length prefix into a local, -1 for null. Flushes the run."""
        n = self._source.fresh("n")
        if not self._flexible:
            self._run.append((code, n, self._source.path))
            self._flush()
            return n
        self._run.append(("B", n, self._source.path))
        self._flush()
        long = "string_length" if is_string else "uvarint"
        self._source.line(f"if {n} > 127: {n}, pos = {long}(data, pos - 1)")
        return n

    def _end(self, length: str, scale: int = 1) -> str:
        """Generate the check that `length` items of `scale` bytes remain; return the local of their end."""
        end = self._source.fresh("e")
        null_shift = " - 1" if self._flexible else ""
        if scale == 1:
            self._source.line(f"{end} = pos + {length}{null_shift}")
        else:
            self._source.line(f"{end} = pos + ({length}{null_shift}) * {scale}")
        self._source.line(f"if not pos <= {end} <= size: raise bad_length({length}{null_shift}, size - pos)")
        return end

    def _null(self) -> int:
        return 0 if self._flexible else -1

    def _bytes(self, spec: FieldSpec, length: str, x: str, *, is_nullable: bool) -> None:
        if not is_nullable:
            self._slice(spec, length, x)
            return
        self._source.line(f"if {length} == {self._null()}: {x} = None")
        with self._source.block("else:"):
            self._slice(spec, length, x)

    def _slice(self, spec: FieldSpec, length: str, x: str) -> None:
        end = self._end(length)
        if spec.kind == "string":
            self._source.line(f"{x} = {self._cut(end)}.decode('utf-8', 'replace')")
        else:
            self._source.line(f"{x} = {self._cut(end)}")
        self._source.line(f"pos = {end}")

    def _cut(self, end: str) -> str:
        """Return the expression of the bytes up to `end`."""
        return f"bytes(data[pos:{end}])" if self._viewed else f"data[pos:{end}]"

    def _nested(self, spec: FieldSpec) -> str:
        assert spec.struct is not None
        if not spec.is_nullable(self._version):
            return self._struct(spec.struct)
        x, present = self._source.fresh("x"), self._source.fresh("n")
        self._run.append(("b", present, self._source.path))
        self._flush()
        self._source.line(f"{x} = None")
        with self._source.block(f"if {present} >= 0:"):
            self._source.line(f"{x} = {self._struct(spec.struct)}")
        return x

    def _array(self, spec: FieldSpec) -> str:
        x = self._source.fresh("x")
        n = self._length("i")
        is_nullable = spec.is_nullable(self._version)
        if spec.kind in _INT_ARRAYS or spec.kind == "uuid":
            if is_nullable:
                self._source.line(f"if {n} == {self._null()}: {x} = None")
                with self._source.block("else:"):
                    self._fixed_elements(spec, n, x)
            else:
                self._fixed_elements(spec, n, x)
            return x
        empty = 1 if self._flexible else 0
        with self._source.block(f"if {n} > {empty}:"):
            self._elements(spec, n, x)
        self._source.line(f"elif {n} == {empty}: {x} = ()")
        if is_nullable:
            self._source.line(f"elif {n} == {self._null()}: {x} = None")
        self._source.line(f"else: raise bad_length({n}{' - 1' if self._flexible else ''}, size - pos)")
        return x

    def _count(self, n: str) -> None:
        """Generate the code that subtracts `n` elements from the request's room."""
        if self._counted:
            self._source.line(f"room -= {n}")
            self._source.line("if room < 0: raise Malformed('more elements than this API may have')")

    def _fixed_elements(self, spec: FieldSpec, n: str, x: str) -> None:
        end = self._end(n, fixed_size(spec.kind))
        self._count(f"{n} - 1" if self._flexible else n)
        if spec.kind == "uuid":
            table = "UUID_ARRAYS"
        else:
            table = self._source.constant("ARRAYS", spec.kind, _INT_ARRAYS[spec.kind])
        self._source.line(f"{x} = {table}[{self._cut(end)}]")
        self._source.line(f"pos = {end}")

    def _elements(self, spec: FieldSpec, n: str, x: str) -> None:
        source = self._source
        if spec.struct is not None:
            least = least_struct_size(spec.struct, self._version, flexible=self._flexible)
        else:
            least = 1 if self._flexible else (2 if spec.kind == "string" else 4)
        if self._flexible:
            source.line(f"{n} -= 1")
        source.line(f"if {n} * {max(least, 1)} > size - pos: raise bad_length({n}, size - pos)")
        self._count(n)
        add = source.fresh("add")
        source.line(f"{x} = []")
        source.line(f"{add} = {x}.append")
        with source.block(f"for _ in range({n}):"):
            if spec.struct is not None:
                expression = self._struct(spec.struct)
            else:
                expression = source.fresh("x")
                length = self._length("h" if spec.kind == "string" else "i", is_string=spec.kind == "string")
                self._bytes(spec, length, expression, is_nullable=False)
            source.line(f"{add}({expression})")
        source.line(f"{x} = tuple({x})")

    def _tags(self, specs: list[FieldSpec]) -> dict[str, str]:
        """Generate the code for the tag section; return the expressions of the known tagged fields."""
        source = self._source
        count = source.fresh("n")
        self._run.append(("B", count, self._source.path))
        self._flush()
        if not specs:
            with source.block(f"if {count}:"):
                source.line(f"if {count} > 127: {count}, pos = uvarint(data, pos - 1)")
                self._count(count)
                source.line(f"pos = skip_counted_tags({count}, data, pos)")
            return {}
        values = {spec.name: source.fresh("x") for spec in specs}
        for spec in specs:
            source.line(f"{values[spec.name]} = {source.default(spec)}")
        tag, length, end = source.fresh("tag"), source.fresh("n"), source.fresh("e")
        with source.block(f"if {count}:"):
            source.line(f"if {count} > 127: {count}, pos = uvarint(data, pos - 1)")
            self._count(count)
            with source.block(f"for _ in range({count}):"):
                source.line(f"{tag} = data[pos]")
                source.line(f"{length} = data[pos + 1]")
                source.line(f"if {tag} < 128 and {length} < 128: pos += 2")
                with source.block("else:"):
                    source.line(f"{tag}, pos = uvarint(data, pos)")
                    source.line(f"{length}, pos = uvarint(data, pos)")
                source.line(f"{end} = pos + {length}")
                source.line(f"if {end} > size: raise bad_length({length}, size - pos)")
                word = "if"
                for spec in specs:
                    with source.block(f"{word} {tag} == {spec.wire.tag}:"), source.inside(spec.name):
                        expression = self._field(spec)
                        self._flush()
                        source.line(f"{values[spec.name]} = {expression}")
                        source.line(f"if pos != {end}: raise Malformed('its tag announces another length')")
                    word = "elif"
                source.line(f"else: pos = {end}")
        return values
