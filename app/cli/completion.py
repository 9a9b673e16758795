"""Names that the shell completes: contexts as they are kept, topics and groups of the web process.

A person waits for them, so what cannot be asked within some seconds completes nothing.
"""

from typing import Final

import typer

TIMEOUT_SECONDS: Final = 3
PAGE_SIZE: Final = 1_000


def contexts(incomplete: str) -> list[str]:
    """Return the names of contexts that begin so."""
    from conclave.contexts import load_contexts

    try:
        return [name for name in sorted(load_contexts().by_name) if name.startswith(incomplete)]
    except OSError:
        return []


def topics(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of topics that begin so, without those that the command has already."""
    return _listed(context, "/topics", "topic_name", incomplete)


def groups(context: typer.Context, incomplete: str) -> list[str]:
    """Return the ids of groups that begin so, without those that the command has already."""
    return _listed(context, "/consumer-groups", "consumer_group_id", incomplete)


def _listed(context: typer.Context, path: str, member: str, incomplete: str) -> list[str]:
    """Return members of a list of the web process that the command's options choose, none for brokers."""
    from app.cli.web_process import WebProcess

    given = context.params
    if given.get("bootstrap") is not None:
        return []
    try:
        web = WebProcess.chosen(given.get("url"), given.get("token"), given.get("context"), TIMEOUT_SECONDS)
        found = [each[member] for each in web.pages(path, {"fields": member}, PAGE_SIZE)]
    except (OSError, typer.BadParameter):
        return []
    taken = {name for values in given.values() if isinstance(values, (list, tuple)) for name in values}
    return [name for name in found if name.startswith(incomplete) and name not in taken]
