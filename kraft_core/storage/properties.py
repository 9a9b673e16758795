r"""Java properties text: the format of server.properties, meta.properties and partition.metadata.

Comments begin with ``#`` or ``!``; a key ends at the first unescaped ``=``, ``:`` or blank; a trailing backslash joins
the next line; ``\t``, ``\n``, ``\r``, ``\f`` and ``\uXXXX`` are escapes. Source: java.util.Properties.load.
"""

from typing import Final

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Read properties text; a duplicate key keeps its last value, as in Java.

    Raises ValueError with the line number for a malformed escape.
    """
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        try:
            key, value = _split(line)
            properties[_unescape(key)] = _unescape(value)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
    return properties


def format_properties(properties: dict[str, str], comment: str = "") -> str:
    """Return properties text, keys in the given order. Every value can be read back unchanged."""
    lines = [f"#{part}" for part in comment.splitlines()]
    lines += [f"{_escape(key, is_key=True)}={_escape(value, is_key=False)}" for key, value in properties.items()]
    return "\n".join(lines) + "\n"


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Join continued lines, remove blank lines and comments; return (number of the first line, text)."""
    lines: list[tuple[int, str]] = []
    pending: str | None = None  # the first part of a continued line
    first = 0
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1):
        part = raw.lstrip(" \t\f")
        if pending is None:
            if not part or part[0] in "#!":
                continue
            first = number
        backslashes = len(part) - len(part.rstrip("\\"))
        if backslashes % 2:
            pending = (pending or "") + part[:-1]
            continue
        lines.append((first, (pending or "") + part))
        pending = None
    if pending is not None:
        lines.append((first, pending))
    return lines


def _split(line: str) -> tuple[str, str]:
    """Split a logical line into key and value, with their escapes."""
    end = 0
    while end < len(line) and line[end] not in "=: \t\f":
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return line[:end], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    index = 0
    while index < len(text):
        char = text[index]
        index += 1
        if char != "\\":
            out.append(char)
            continue
        code = text[index : index + 1]
        index += 1
        if code == "u":
            digits = text[index : index + 4]
            if len(digits) < 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                raise ValueError(f"malformed \\uxxxx escape '\\u{digits}'")
            out.append(chr(int(digits, 16)))
            index += 4
        else:
            out.append(_ESCAPES.get(code, code))
    return "".join(out)


def _escape(text: str, *, is_key: bool) -> str:
    out: list[str] = []
    for index, char in enumerate(text):
        if char == "\\":
            out.append("\\\\")
        elif char in "\t\n\r\f":
            out.append({"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}[char])
        elif (is_key and char in "=: #!") or (char == " " and index == 0) or (index == 0 and char in "#!"):
            out.append("\\" + char)
        else:
            out.append(char)
    return "".join(out)
