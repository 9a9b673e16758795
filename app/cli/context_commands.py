"""`conclave context add|list|use|delete`: which installations the commands over REST talk to."""

import sys
from dataclasses import replace
from typing import Annotated

import typer

from app.cli import completion
from app.cli.options import JsonOption

context = typer.Typer(
    help="Keep the addresses and tokens of installations, for commands that use their REST API.", no_args_is_help=True
)
ContextName = Annotated[str, typer.Argument(metavar="NAME")]
KnownContext = Annotated[str, typer.Argument(metavar="NAME", autocompletion=completion.contexts)]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.add_typer(context, name="context")


@context.command("add")
def context_add(
    name: ContextName, url: Annotated[str, typer.Option(help="Address of the web process, http:// or https://.")]
) -> None:
    """Keep an installation and make it the current one. Its API token is asked for, or read from standard input.

    The address and the token are tried first. A context of this name is replaced.
    """
    from app.cli.web_process import WebProcess
    from conclave.contexts import NAME, Context, load_contexts, save_contexts

    if NAME.fullmatch(name) is None:
        raise typer.BadParameter(f"'{name}': 1 to 64 letters, digits, '.', '_' and '-'", param_hint="NAME")
    if not url.startswith(("http://", "https://")):
        raise typer.BadParameter(f"'{url}' must begin with http:// or https://", param_hint="--url")
    contexts = load_contexts()
    token = typer.prompt("API token", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.readline().strip()
    if not token:
        raise typer.BadParameter("standard input has no token", param_hint="token")
    ids = WebProcess(url, token).cluster_ids()
    kept = Context(name, url.rstrip("/"), token)
    save_contexts(replace(contexts, current=name, by_name={**contexts.by_name, name: kept}))
    cluster = f"cluster {ids[0]}" if ids else "it has not reached its quorum yet"
    print(f"Context {name} is now the current one: {kept.url}, {cluster}.")


@context.command("list")
def context_list(*, as_json: JsonOption = False) -> None:
    """List the contexts, without their tokens."""
    from app.cli.client_options import print_json, print_table
    from conclave.contexts import load_contexts

    contexts = load_contexts()
    kept = sorted(contexts.by_name.values(), key=lambda each: each.name)
    if as_json:
        print_json([{"name": each.name, "url": each.url, "current": each.name == contexts.current} for each in kept])
    else:
        rows = [("*" if each.name == contexts.current else "", each.name, each.url) for each in kept]
        print_table(("CURRENT", "NAME", "URL"), rows)


@context.command("use")
def context_use(name: KnownContext) -> None:
    """Make a context the current one."""
    from conclave.contexts import load_contexts, save_contexts

    contexts = load_contexts()
    chosen = contexts.get(name)
    save_contexts(replace(contexts, current=name))
    print(f"Context {name} is now the current one: {chosen.url}.")


@context.command("delete")
def context_delete(name: KnownContext) -> None:
    """Delete a context with its token. The token itself stays valid until it expires or is revoked."""
    from conclave.contexts import load_contexts, save_contexts

    contexts = load_contexts()
    contexts.get(name)
    left = {each: kept for each, kept in contexts.by_name.items() if each != name}
    save_contexts(replace(contexts, current="" if contexts.current == name else contexts.current, by_name=left))
    print(f"Context {name} deleted; its token stays valid until it expires or is revoked.")
