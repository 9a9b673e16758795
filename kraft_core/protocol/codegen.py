"""The source text of one generated codec function, with the field of each line.

Both compilers generate straight-line Python for one (class, version). Each line is recorded with its field, so that an
error can name the field from the line number in the traceback, at no cost in normal operation.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final

from kraft_core.protocol.wire import FieldSpec, Message, fields_of

FIXED_FORMATS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "float64": "d",
    "uuid": "16s",
}
"""Types of a fixed size with their struct formats; consecutive ones are packed and unpacked in one call."""

FILENAME_PREFIX: Final = "<kraft_core codec "
_labels_by_filename: dict[str, list[str]] = {}


def is_fixed(spec: FieldSpec) -> bool:
    """Return whether the field always has the same number of bytes."""
    return spec.kind in FIXED_FORMATS and not spec.is_array


def fixed_size(kind: str) -> int:
    """Return the number of bytes of a fixed-size type."""
    return struct.calcsize(">" + FIXED_FORMATS[kind])


def plain_fields(message_class: type[Message], version: int) -> list[FieldSpec]:
    """Return the fields of this version outside the tag section, in wire order."""
    return [spec for spec in fields_of(message_class) if spec.wire.tag < 0 and spec.is_present(version)]


def tagged_fields(message_class: type[Message], version: int) -> list[FieldSpec]:
    """Return the tagged fields of this version, ordered by tag."""
    found = [spec for spec in fields_of(message_class) if spec.wire.tag >= 0 and spec.is_present(version)]
    return sorted(found, key=lambda spec: spec.wire.tag)


class Source:
    """A function being generated: its lines, the field of each line, and the objects that it refers to."""

    def __init__(self, name: str, signature: str) -> None:
        self.filename = f"{FILENAME_PREFIX}{name}>"
        self.names: dict[str, Any] = {}
        self._lines: list[str] = [f"def codec({signature}):"]
        self._labels: list[str] = ["", ""]
        self._depth = 1
        self._path: list[str] = []
        self._count = 0
        self._constants: dict[tuple[str, Any], str] = {}

    def fresh(self, stem: str) -> str:
        """Return a local name that is unique in the function."""
        self._count += 1
        return f"{stem}{self._count}"

    def line(self, text: str, label: str | None = None) -> None:
        """Add a line at the current depth, for the current field or `label`."""
        self._lines.append("    " * self._depth + text)
        self._labels.append(".".join(self._path) if label is None else label)

    def prologue(self, text: str) -> None:
        """Add a line at the top of the function."""
        self._lines.insert(1, "    " + text)
        self._labels.insert(2, "")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add a line that opens a block, and indent the lines that follow."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    @contextmanager
    def inside(self, field: str) -> Iterator[None]:
        """Record the lines that follow for this field."""
        self._path.append(field)
        yield
        self._path.pop()

    @property
    def path(self) -> str:
        """The current field, such as `topics.partitions.leader`."""
        return ".".join(self._path)

    def constant(self, stem: str, key: Any, value: Any) -> str:
        """Return a global name in the function for an object; the same key gives the same name."""
        found = self._constants.get((stem, key))
        if found is None:
            found = f"{stem}_{len(self.names)}"
            self._constants[stem, key] = found
            self.names[found] = value
        return found

    def default(self, spec: FieldSpec) -> str:
        """Return the default of a field as an expression."""
        if spec.default is None or isinstance(spec.default, bool | int | str | bytes) or spec.default == ():
            return repr(spec.default)
        return self.constant("DEFAULT", repr(spec.default), spec.default)

    def compile(self) -> Callable[..., Any]:
        """Compile the lines and return the function."""
        code = compile("\n".join(self._lines), self.filename, "exec")
        exec(code, self.names)  # noqa: S102  the text comes from the declarations in this package, never from input
        _labels_by_filename[self.filename] = self._labels
        function: Callable[..., Any] = self.names["codec"]
        return function


def explain(traceback: TracebackType | None) -> tuple[str, int]:
    """Return the field and the input position of the innermost generated line in a traceback."""
    field, position = "", -1
    while traceback is not None:
        labels = _labels_by_filename.get(traceback.tb_frame.f_code.co_filename)
        if labels is not None:
            field = labels[traceback.tb_lineno]
            position = traceback.tb_frame.f_locals.get("pos", -1)
        traceback = traceback.tb_next
    return field, position
