"""`conclave acls`: the ACLs of the cluster, by REST."""

import csv
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import typer

from app.cli.client_options import confirm, print_json, print_table
from app.cli.web_process import WebProcess
from app.cluster.acl_files import SHOWN, read_acls, shown_acl
from app.cluster.acls import words_of
from app.reports.violations import safe_cell

COLUMNS: Final = ("principal", "permission", "operation", "resource_type", "resource_name", "pattern_type", "host")
HEADER: Final = tuple(column.replace("_", " ").upper() for column in COLUMNS)
PAGE: Final = 1_000
BATCH: Final = 100
RESOURCES: Final = "give one of --topic, --group, --transactional-id, --cluster"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The ACLs that the options of a command describe. None: any."""

    resource_type: str | None
    resource_name: str | None
    principal: str | None
    host: str | None
    pattern_type: str
    permission: str
    operations: Collection[str]

    @classmethod
    def of(
        cls,
        topic: str | None,
        group: str | None,
        transactional_id: str | None,
        *,
        cluster: bool,
        principal: str | None,
        host: str | None,
        operations: Collection[str] | None,
        prefixed: bool = False,
        deny: bool = False,
    ) -> "Wanted":
        """Return the description. Raises typer.BadParameter for more than one resource."""
        given = [
            (kind, name)
            for kind, name in (
                ("TOPIC", topic),
                ("GROUP", group),
                ("TRANSACTIONAL_ID", transactional_id),
                ("CLUSTER", "kafka-cluster" if cluster else None),
            )
            if name is not None
        ]
        if len(given) > 1:
            raise typer.BadParameter(RESOURCES, param_hint="resource")
        kind, name = given[0] if given else (None, None)
        pattern, permission = "PREFIXED" if prefixed else "LITERAL", "DENY" if deny else "ALLOW"
        return cls(kind, name, principal, host, pattern, permission, operations or ())

    @property
    def is_any(self) -> bool:
        """Whether every ACL matches."""
        return not self.operations and {self.resource_name, self.principal, self.host} == {None}

    def filters(self) -> list[dict[str, str]]:
        """Return the filter of each operation, one for any if none is named."""
        chosen = {"resource_name": self.resource_name, "principal": self.principal, "host": self.host}
        common = {"resource_type": self.resource_type or "ANY", "pattern_type": "ANY", "permission": "ANY"}
        common |= {name: value for name, value in chosen.items() if value is not None}
        return [{**common, "operation": operation} for operation in self.operations or ("ANY",)]

    def entries(self) -> list[dict[str, str]]:
        """Return the ACL of each operation. Raises typer.BadParameter without a resource."""
        if self.resource_type is None or self.resource_name is None:
            raise typer.BadParameter(RESOURCES, param_hint="resource")
        return [
            {
                "resource_type": self.resource_type,
                "resource_name": self.resource_name,
                "pattern_type": self.pattern_type,
                "principal": self.principal or "",
                "host": self.host or "*",
                "operation": operation,
                "permission": self.permission,
            }
            for operation in self.operations
        ]


def found_acls(web: WebProcess, wanted: Wanted) -> list[dict[str, Any]]:
    """Return the ACLs that match, each once. Raises WebError."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for each in wanted.filters():
        for acl in web.pages("/acls", each, PAGE):
            found[tuple(acl[column] for column in COLUMNS)] = {column: acl[column] for column in COLUMNS}
    return [found[key] for key in sorted(found)]


def _print(acls: Collection[dict[str, Any]]) -> None:
    print_table(HEADER, [tuple(acl[column] for column in COLUMNS) for acl in acls])


def list_acls(web: WebProcess, wanted: Wanted, *, as_json: bool) -> None:
    """Print the ACLs that match. Raises WebError."""
    found = found_acls(web, wanted)
    if as_json:
        print_json(found)
    else:
        _print(found)


def create_acls(web: WebProcess, wanted: Wanted, *, dry_run: bool) -> None:
    """Create an ACL for each operation: all or none. Raises WebError."""
    entries = wanted.entries()
    web.call("POST", "/acls:batch", {"data": entries, "validate_only": dry_run})
    _print([{**entry, "operation": entry["operation"].upper()} for entry in entries])
    print("Dry run: nothing was changed." if dry_run else "Created.")


def delete_acls(web: WebProcess, wanted: Wanted, *, yes: bool, dry_run: bool) -> int:
    """Show the ACLs that match, delete exactly these after a confirmation, and return the exit code.

    Raises WebError, and typer.BadParameter for a description of all ACLs.
    """
    if wanted.is_any:
        raise typer.BadParameter("choose by --principal, --host, --operation or a resource", param_hint="ACLs")
    found = found_acls(web, wanted)
    _print(found)
    if dry_run or not found:
        print("Dry run: nothing was changed." if found else "No ACL matches; nothing was changed.")
        return 0
    confirm(f"Delete {len(found)} ACL(s)?", yes=yes)
    results: list[dict[str, Any]] = []
    for start in range(0, len(found), BATCH):
        results += web.call("POST", "/acls:delete", {"data": found[start : start + BATCH]})["data"]
    print(f"Deleted {sum(each['error_code'] is None for each in results)}.")
    return _report_refused(results)


def create_application(web: WebProcess, application: dict[str, Any], *, dry_run: bool) -> None:
    """Create the ACLs of an application and print them. Raises WebError."""
    planned = web.call("POST", "/acls:application", {**application, "validate_only": True})["changes"]
    if not dry_run:
        web.call("POST", "/acls:application", application)
    _print([each["after"] for each in planned])
    new = sum(each["before"] is None for each in planned)
    print("Dry run: nothing was changed." if dry_run else f"Created {new}; {len(planned) - new} existed.")


def export_acls(web: WebProcess, *, as_json: bool) -> None:
    """Print all ACLs as the page of ACLs downloads them. Raises WebError."""
    rows = [shown_acl(acl) for acl in web.pages("/acls", {}, PAGE)]
    if as_json:
        about = {"cluster_id": web.cluster_id, "metadata_offset": web.offset, "table": "acls"}
        print_json({**about, "rows": rows})
        return
    writer = csv.writer(sys.stdout, lineterminator="\r\n")
    writer.writerow([name.capitalize().replace("_", " ") for name in SHOWN])
    writer.writerows([safe_cell(row[name]) for name in SHOWN] for row in rows)


def import_acls(web: WebProcess, file: Path, *, remove_others: bool, yes: bool, dry_run: bool) -> int:
    """Show what the ACLs of a file change, change it after a confirmation if any are deleted, and return the exit code.

    Nothing is changed if a line of the file is wrong. Raises WebError, OSError.
    """
    text, name = _text_of(file)
    found = read_acls(text)
    if found.wrong:
        for each in found.wrong:
            print(f"conclave: {name}: line {each.line}: {each.text}", file=sys.stderr)
        print("Nothing was changed.")
        return 1
    body = {"data": [words_of(acl) for acl in found.acls], "remove_others": remove_others}
    planned = web.call("POST", "/acls:import", {**body, "validate_only": True})
    changes = [each for each in planned["data"] if each["change"] != "NONE"]
    if changes:
        header = ("CHANGE", *HEADER)
        print_table(header, [(each["change"].lower(), *(each[column] for column in COLUMNS)) for each in changes])
    if dry_run:
        print(f"Dry run: {_counts(planned)}; nothing was changed.")
        return 0
    if planned["deleted_count"]:
        confirm(f"Delete {planned['deleted_count']} ACL(s) that {name} does not list?", yes=yes)
    done = web.call("POST", "/acls:import", body)
    print(f"Done: {_counts(done)}.")
    return _report_refused(done["data"])


def _text_of(file: Path) -> tuple[str, str]:
    """Return the text of a file and its name; - is standard input. Raises OSError, typer.BadParameter if not UTF-8."""
    is_input = str(file) == "-"
    name = "standard input" if is_input else str(file)
    try:
        return (sys.stdin.buffer.read() if is_input else file.read_bytes()).decode(), name
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{name} is not UTF-8: {error}", param_hint="FILE") from None


def _counts(imported: Mapping[str, Any]) -> str:
    return ", ".join(f"{imported[f'{word}_count']} {word}" for word in ("created", "unchanged", "deleted", "refused"))


def _report_refused(results: Iterable[Mapping[str, Any]]) -> int:
    """Print a line on standard error for each refused ACL, and return the exit code."""
    refused = [each for each in results if each["error_code"] is not None]
    for each in refused:
        print(f"conclave: ACL of {each['principal']}: {each['message']}", file=sys.stderr)
    return 1 if refused else 0
