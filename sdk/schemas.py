"""JSON schemas as Python types, and the structs of the models."""

import keyword
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

Schema = Mapping[str, Any]

REF: Final = "#/components/schemas/"
_PLAIN: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


class Schemas:
    """The schemas of a document by name."""

    def __init__(self, document: Schema) -> None:
        self.by_name: Mapping[str, Schema] = dict(document["components"]["schemas"])

    def resolved(self, schema: Schema) -> Schema:
        """Return the object that a schema is or refers to; of an optional one, the object."""
        if "$ref" in schema:
            return self.by_name[schema["$ref"].removeprefix(REF)]
        choices = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
        return self.resolved(choices[0]) if choices else schema

    def named_in(self, schema: Any) -> Iterator[str]:
        """Yield the names that a schema refers to."""
        if isinstance(schema, Mapping):
            if "$ref" in schema:
                yield schema["$ref"].removeprefix(REF)
            else:
                for each in schema.values():
                    yield from self.named_in(each)
        elif isinstance(schema, list):
            for each in schema:
                yield from self.named_in(each)

    def members_refer_to(self, name: str) -> list[str]:
        """Return the names that the members of a schema refer to."""
        return list(dict.fromkeys(self.named_in(self.by_name[name].get("properties", {}))))

    def reachable(self, names: Iterator[str]) -> set[str]:
        """Return the names and all that they refer to."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self.members_refer_to(name)
        return found

    def type_of(self, schema: Schema, *, sent: bool) -> str:
        """Return the type of a value. Answers may have words that this version does not know, so they are `str`."""
        if "anyOf" in schema:
            return " | ".join(dict.fromkeys(self.type_of(each, sent=sent) for each in schema["anyOf"]))
        if "$ref" in schema:
            return str(schema["$ref"].removeprefix(REF))
        words = [schema["const"]] if "const" in schema else schema.get("enum")
        if words and sent and schema["type"] == "string":
            return f"Literal[{', '.join(map(_text, words))}]"
        kind = schema.get("type")
        if kind == "array":
            inner = self.type_of(schema["items"], sent=sent)
            return f"Sequence[{inner}]" if sent else f"list[{inner}]"
        if kind == "object":
            values = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties")]
            inner = self.type_of(values[0], sent=sent) if isinstance(values[0], Mapping) else "object"
            return f"Mapping[str, {inner}]" if sent else f"dict[str, {inner}]"
        return _PLAIN.get(str(kind), "object")

    def struct(self, name: str, *, sent: bool) -> str:
        """Return the class of a schema with members."""
        schema = self.by_name[name]
        base = "Body" if sent else "Answer"
        lines = [f"class {name}({base}, frozen=True, kw_only=True):", doc(schema.get("description", name), 4), ""]
        required = schema.get("required", ())
        for member, each in schema["properties"].items():
            type_ = self.type_of(each, sent=sent)
            if member in required:
                lines.append(f"    {attribute(member)}: {type_}{_renamed(member)}")
            elif sent:
                lines.append(f"    {attribute(member)}: {or_unset(type_)} = UNSET")
            else:
                lines.append(f"    {attribute(member)}: {type_ if 'None' in type_ else f'{type_} | None'} = None")
        return "\n".join(lines)


def or_unset(type_: str) -> str:
    """Return the type of a value that may also be left out."""
    plain = type_.removesuffix(" | None")
    return f"{plain} | UnsetType" + type_.removeprefix(plain)


def _text(word: object) -> str:
    return f'"{word}"'


def attribute(name: str) -> str:
    """Return a member's or parameter's name in Python."""
    plain = re.sub(r"\W", "_", name).lower()
    return f"{plain}_" if keyword.iskeyword(plain) else plain


def _renamed(name: str) -> str:
    return "" if attribute(name) == name else f' = field(name="{name}")'


def doc(text: str, indent: int) -> str:
    """Return a docstring."""
    margin = " " * indent
    paragraphs = [line.rstrip() for line in text.replace("\\", "\\\\").strip().splitlines()]
    if len(paragraphs) == 1:
        return f'{margin}"""{paragraphs[0]}"""'
    inner = "\n".join(f"{margin}{line}" if line else "" for line in paragraphs)
    return f'{margin}"""{inner.lstrip()}\n{margin}"""'
