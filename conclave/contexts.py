"""Contexts: the installations that this user's commands talk to, each with its address and token.

They are kept in `conclave/contexts.json` in the user's folder for configuration, which only the user can read.
"""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kraft_core.storage.files import replace_file

NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


class ContextError(OSError):
    """The contexts cannot be used, or none has this name. The message is one line."""


@dataclass(frozen=True, slots=True)
class Context:
    """A web process and the token of this user for it."""

    name: str
    url: str
    token: str


@dataclass(frozen=True, slots=True)
class Contexts:
    """All contexts by name, and the name of the current one, "" without."""

    current: str
    by_name: dict[str, Context]

    def get(self, name: str) -> Context:
        """Return a context. Raises ContextError for an unknown name."""
        if name not in self.by_name:
            known = ", ".join(sorted(self.by_name)) or "none"
            raise ContextError(f"there is no context {name}; known: {known}")
        return self.by_name[name]

    def chosen(self, name: str | None) -> Context | None:
        """Return the context of this name, without a name the current one, None if there is none.

        Raises ContextError for an unknown name.
        """
        wanted = self.current if name is None else name
        return self.get(wanted) if wanted or name is not None else None


def current_context(name: str | None) -> Context:
    """Return the context of this name, without a name the current one. Raises ContextError."""
    chosen = load_contexts().chosen(name)
    if chosen is None:
        raise ContextError("no context is the current one: conclave context add, or conclave context use")
    return chosen


def contexts_file() -> Path:
    """Return the path of the file, in XDG_CONFIG_HOME or ~/.config."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "conclave" / "contexts.json"


def load_contexts() -> Contexts:
    """Return the kept contexts. Raises ContextError for a file that is damaged or that others can read."""
    path = contexts_file()
    try:
        if path.stat().st_mode & 0o077:
            raise ContextError(f"{path} can be read by others, so its tokens are not secret: chmod 600 it")
        kept = json.loads(path.read_text())
        by_name = {name: Context(name, each["url"], each["token"]) for name, each in kept["contexts"].items()}
        return Contexts(kept["current"], by_name)
    except FileNotFoundError:
        return Contexts("", {})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ContextError(f"{path} has no contexts: {error!r}") from error


def save_contexts(contexts: Contexts) -> None:
    """Replace the file. Raises OSError."""
    path = contexts_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    kept = {name: {"url": each.url, "token": each.token} for name, each in sorted(contexts.by_name.items())}
    text = json.dumps({"current": contexts.current, "contexts": kept}, indent=2)
    replace_file(path, text.encode() + b"\n", mode=0o600)
