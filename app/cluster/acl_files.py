"""ACLs as text: JSON or CSV with the members that REST gives, or as the page of ACLs downloads them."""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.cluster.acls import acl_of, wrong_principal
from app.texts import phrase, sentence_of
from kraft_core.image.acls_image import StandardAcl
from kraft_core.protocol.acl import WILDCARD
from kraft_core.protocol.errors import KafkaError

ACLS_MAX: Final = 1_000
ERRORS_MAX: Final = 20
MEMBERS: Final = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission")
FORMULA: Final = re.compile("^'(?=[-=+@])")
"""The apostrophe before what a spreadsheet would take for a formula, as downloads have it."""
SHOWN: Final = ("principal", "permission", "operation", "resource", "pattern_type", "host")
"""The columns of the page in their order; their names depend on the language."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """What is wrong with a line, or with an entry of JSON, both counted from 1."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Read:
    """The ACLs of a text, each once, and what is wrong with it, at most ERRORS_MAX."""

    acls: Sequence[StandardAcl]
    wrong: Sequence[Wrong]


def read_acls(text: str) -> Read:
    """Read ACLs from a text."""
    rows = _json_rows(text) if text.lstrip().startswith(("[", "{")) else _csv_rows(text)
    found: dict[StandardAcl, None] = {}
    wrong: list[Wrong] = []
    try:
        for line, row in rows:
            if len(wrong) >= ERRORS_MAX:
                break
            try:
                found[checked_acl(_as_members(row))] = None
            except WrongAclError as error:
                wrong.append(Wrong(line, sentence_of(error)))
    except _UnreadableError as error:
        wrong.append(Wrong(error.line, sentence_of(error)))
    if not wrong and not found:
        wrong.append(Wrong(1, phrase("There is no ACL in it.")))
    if not wrong and len(found) > ACLS_MAX:
        wrong.append(Wrong(1, phrase("There are more than %(most)s ACLs.", most=ACLS_MAX)))
    return Read(list(found), wrong)


class _UnreadableError(ValueError):
    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


class WrongAclError(ValueError):
    """An ACL is not valid. The message is a sentence."""


def checked_acl(given: Mapping[str, str]) -> StandardAcl:
    """Return the ACL with these members, an absent host being every one. Raises WrongAclError."""
    missing = [name for name in MEMBERS if name != "host" and not given.get(name)]
    if missing:
        raise WrongAclError(phrase("%(names)s must be given.", names=", ".join(missing)))
    if text := wrong_principal(given["principal"]):
        raise WrongAclError(text)
    try:
        return acl_of({**given, "host": given.get("host") or WILDCARD})
    except KafkaError as error:
        raise WrongAclError(error.message) from None


def shown_acl(acl: Mapping[str, str]) -> dict[str, str]:
    """Return an ACL in REST's words as the page shows and downloads it: topic orders, describe configs."""
    return {
        "principal": acl["principal"],
        "permission": acl["permission"].lower(),
        "operation": acl["operation"].lower().replace("_", " "),
        "resource": f"{acl['resource_type'].lower()} {acl['resource_name']}",
        "pattern_type": acl["pattern_type"].lower(),
        "host": acl["host"],
    }


def _as_members(row: Mapping[str, str]) -> Mapping[str, str]:
    """Return a row in REST's words; the inverse of `shown_acl`."""
    if "resource" not in row:
        return row
    kind, _, name = row["resource"].partition(" ")
    operation = row.get("operation", "").replace(" ", "_")
    return {**row, "resource_type": kind, "resource_name": name, "operation": operation}


def _json_rows(text: str) -> Iterable[tuple[int, Mapping[str, str]]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _UnreadableError(getattr(error, "lineno", 1), phrase("This is not valid JSON.")) from None
    entries = document.get("data", document.get("rows")) if isinstance(document, dict) else document
    if not isinstance(entries, list):
        raise _UnreadableError(1, phrase("JSON must be a list of ACLs, or have one as data or rows."))
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            raise _UnreadableError(number, phrase("This is no JSON object."))
        row = {str(name): value if isinstance(value, str) else "" for name, value in entry.items()}
        try:
            "".join(row.values()).encode()
        except UnicodeEncodeError:  # half of a surrogate pair
            raise _UnreadableError(number, phrase("This is not valid JSON.")) from None
        yield number, row


def _csv_rows(text: str) -> Iterable[tuple[int, Mapping[str, str]]]:
    reader = csv.reader(io.StringIO(text.lstrip("\ufeff"), newline=""))
    header: Sequence[str] | None = None
    try:
        for row in reader:
            if not any(each.strip() for each in row):
                continue
            if header is None:
                header = [each.strip().lower().replace(" ", "_") for each in row]
                if not set(MEMBERS) - {"host"} <= set(header):
                    if len(header) != len(SHOWN):
                        names = ", ".join(MEMBERS)
                        raise _UnreadableError(
                            1, phrase("The first line must name the columns: %(names)s.", names=names)
                        )
                    header = SHOWN
            else:
                cells = (FORMULA.sub("", each.strip()) for each in row)
                yield reader.line_num, dict(zip(header, cells, strict=False))
    except csv.Error:
        raise _UnreadableError(reader.line_num, phrase("This is not valid CSV.")) from None
