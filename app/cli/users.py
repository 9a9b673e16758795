"""`conclave users`: the users of the web process, by REST."""

from typing import Any
from urllib.parse import quote

import typer

from app.cli.client_options import confirm, print_json, print_table
from app.cli.web_process import WebProcess


def list_users(web: WebProcess, *, as_json: bool) -> None:
    """Print the users. Raises WebError."""
    found = web.call_own("GET", "/users")["data"]
    if as_json:
        names = ("name", "role", "disabled", "has_password", "created_at", "last_login_at")
        print_json([{name: each[name] for name in names} for each in found])
        return
    print_table(
        ("NAME", "ROLE", "STATE", "PASSWORD", "LAST LOGIN"),
        [
            (
                each["name"],
                each["role"],
                "disabled" if each["disabled"] else "active",
                "yes" if each["has_password"] else "no",
                each["last_login_at"],
            )
            for each in found
        ],
    )


def add_user(web: WebProcess, name: str, role: str, *, dry_run: bool) -> None:
    """Add a user, and print a link that logs them in once. Raises WebError."""
    web.call_own("POST", "/users", {"name": name, "role": role, "validate_only": dry_run})
    if dry_run:
        print(f"Would add user {name}, {role}.")
        return
    print(f"Added user {name}, {role}. This link logs them in once:")
    print_login_link(web, name)


def print_login_link(web: WebProcess, name: str) -> None:
    """Print a link that logs a user in once. Raises WebError."""
    print(web.call_own("POST", f"{_path(name)}/login-link", {})["url"])


def alter_user(web: WebProcess, name: str, role: str | None, *, disabled: bool | None, dry_run: bool) -> None:
    """Change a user. Raises WebError, and typer.BadParameter without a change."""
    changes: dict[str, Any] = {
        key: value for key, value in (("role", role), ("disabled", disabled)) if value is not None
    }
    if not changes:
        raise typer.BadParameter("give --role, --disable or --enable", param_hint="change")
    after = web.call_own("PATCH", _path(name), {**changes, "validate_only": dry_run})
    state = "disabled" if after["disabled"] else "active"
    print(f"{'Would be' if dry_run else 'Changed'}: user {name}, {after['role']}, {state}.")


def delete_user(web: WebProcess, name: str, *, yes: bool, dry_run: bool) -> None:
    """Remove a user after a confirmation. Raises WebError."""
    web.call_own("DELETE", f"{_path(name)}?validate_only=true")
    if dry_run:
        print(f"Would remove user {name}.")
        return
    confirm(f"Remove user {name}?", yes=yes)
    web.call_own("DELETE", _path(name))
    print(f"Removed user {name}.")


def _path(name: str) -> str:
    return f"/users/{quote(name, safe='')}"
