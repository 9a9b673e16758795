"""`conclave acls|users`: who may do what, on the cluster and in the web process, through its REST API.

Each command imports its work when it runs, so that help is fast.
"""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.options import ContextOption, DryRunOption, JsonOption, TokenOption, UrlOption, YesOption
from app.security.roles import RoleName

acls = typer.Typer(help="List, create, delete, export and import the ACLs of the cluster.", no_args_is_help=True)
users = typer.Typer(help="List, add, change and remove the users of the web process.", no_args_is_help=True)

Principal = Annotated[str | None, typer.Option("--principal", metavar="TYPE:NAME", help="As in User:alice.")]
Host = Annotated[str | None, typer.Option("--host", help="Address of the clients; * stands for all.")]
Operations = Annotated[
    list[str] | None, typer.Option("--operation", metavar="WORD", help="READ, WRITE, … May be repeated.")
]
Topic = Annotated[str | None, typer.Option("--topic", help="A topic; * stands for all.")]
Group = Annotated[str | None, typer.Option("--group", help="A group; * stands for all.")]
TransactionalId = Annotated[str | None, typer.Option("--transactional-id", help="A transactional id.")]
OfCluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
Prefixed = Annotated[bool, typer.Option("--prefixed", help="The name is the beginning of names.")]
Deny = Annotated[bool, typer.Option("--deny", help="Deny; default: allow.")]
UserName = Annotated[str, typer.Argument(metavar="USER")]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.add_typer(acls, name="acls")
    app.add_typer(users, name="users")


@acls.command("list")
def acls_list(
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    principal: Principal = None,
    host: Host = None,
    operation: Operations = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    *,
    cluster: OfCluster = False,
    as_json: JsonOption = False,
) -> None:
    """List ACLs, all of them unless the options choose some."""
    from app.cli.acls import Wanted, list_acls
    from app.cli.web_process import WebProcess

    wanted = Wanted.of(
        topic, group, transactional_id, cluster=cluster, principal=principal, host=host, operations=operation
    )
    list_acls(WebProcess.chosen(url, token, context), wanted, as_json=as_json)


@acls.command("create")
def acls_create(
    principal: Annotated[str, typer.Option("--principal", metavar="TYPE:NAME", help="As in User:alice.")],
    operation: Annotated[
        list[str], typer.Option("--operation", metavar="WORD", help="READ, WRITE, … May be repeated: an ACL for each.")
    ],
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    host: Annotated[str, typer.Option("--host", help="Address of the clients; * stands for all.")] = "*",
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    *,
    cluster: OfCluster = False,
    prefixed: Prefixed = False,
    deny: Deny = False,
    dry_run: DryRunOption = False,
) -> None:
    """Create an ACL for each operation."""
    from app.cli.acls import Wanted, create_acls
    from app.cli.web_process import WebProcess

    wanted = Wanted.of(
        topic,
        group,
        transactional_id,
        cluster=cluster,
        principal=principal,
        host=host,
        operations=operation,
        prefixed=prefixed,
        deny=deny,
    )
    create_acls(WebProcess.chosen(url, token, context), wanted, dry_run=dry_run)


@acls.command("application")
def acls_application(
    preset: Annotated[str, typer.Argument(metavar="producer|consumer|streams|connect", help="Kind of application.")],
    principal: Annotated[str, typer.Option("--principal", metavar="TYPE:NAME", help="As in User:alice.")],
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    host: Annotated[str, typer.Option("--host", help="Address of the clients; * stands for all.")] = "*",
    read_topic: Annotated[list[str] | None, typer.Option("--read-topic", help="May be repeated.")] = None,
    write_topic: Annotated[list[str] | None, typer.Option("--write-topic", help="May be repeated.")] = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    application_id: Annotated[
        str | None, typer.Option("--application-id", help="Of Kafka Streams: prefix of its groups and internal topics.")
    ] = None,
    internal_topic: Annotated[
        list[str] | None, typer.Option("--internal-topic", help="Of Connect: config, offset and status topic.")
    ] = None,
    connector: Annotated[list[str] | None, typer.Option("--connector", help="Of Connect. May be repeated.")] = None,
    *,
    prefixed: Prefixed = False,
    idempotent: Annotated[bool, typer.Option("--idempotent", help="Of a producer without a transactional id.")] = False,
    exactly_once: Annotated[bool, typer.Option("--exactly-once", help="Of Kafka Streams and Connect.")] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Create the ACLs of a producer, a consumer, an application of Kafka Streams, or workers of Kafka Connect."""
    from app.cli.acls import create_application
    from app.cli.web_process import WebProcess

    application = {
        "preset": preset,
        "principal": principal,
        "host": host,
        "read_topics": read_topic or [],
        "write_topics": write_topic or [],
        "prefixed": prefixed,
        "group": group or "",
        "transactional_id": transactional_id or "",
        "idempotent": idempotent,
        "application_id": application_id or "",
        "exactly_once": exactly_once,
        "internal_topics": internal_topic or [],
        "connectors": connector or [],
    }
    create_application(WebProcess.chosen(url, token, context), application, dry_run=dry_run)


@acls.command("delete")
def acls_delete(
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    principal: Principal = None,
    host: Host = None,
    operation: Operations = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    *,
    cluster: OfCluster = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Delete the ACLs that the options choose, after showing them."""
    from app.cli.acls import Wanted, delete_acls
    from app.cli.web_process import WebProcess

    wanted = Wanted.of(
        topic, group, transactional_id, cluster=cluster, principal=principal, host=host, operations=operation
    )
    web = WebProcess.chosen(url, token, context)
    raise typer.Exit(delete_acls(web, wanted, yes=yes, dry_run=dry_run))


@acls.command("export")
def acls_export(
    url: UrlOption = None, token: TokenOption = None, context: ContextOption = None, *, as_json: JsonOption = False
) -> None:
    """Print all ACLs as CSV, or as JSON, for `conclave acls import` and the page *Import ACLs*."""
    from app.cli.acls import export_acls
    from app.cli.web_process import WebProcess

    export_acls(WebProcess.chosen(url, token, context), as_json=as_json)


@acls.command("import")
def acls_import(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV or JSON; - is standard input.")],
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    *,
    remove_others: Annotated[
        bool, typer.Option("--remove-others", help="Delete all ACLs that are not listed.")
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Create the ACLs of a file that do not exist, and with --remove-others delete all others."""
    from app.cli.acls import import_acls
    from app.cli.web_process import WebProcess

    web = WebProcess.chosen(url, token, context)
    raise typer.Exit(import_acls(web, file, remove_others=remove_others, yes=yes, dry_run=dry_run))


@users.command("list")
def users_list(
    url: UrlOption = None, token: TokenOption = None, context: ContextOption = None, *, as_json: JsonOption = False
) -> None:
    """List the users."""
    from app.cli.users import list_users
    from app.cli.web_process import WebProcess

    list_users(WebProcess.chosen(url, token, context), as_json=as_json)


@users.command("add")
def users_add(
    name: UserName,
    role: Annotated[RoleName, typer.Option(help="What the user may do.")],
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    *,
    dry_run: DryRunOption = False,
) -> None:
    """Add a user without a password, and print the link that logs them in once."""
    from app.cli.users import add_user
    from app.cli.web_process import WebProcess

    add_user(WebProcess.chosen(url, token, context), name, role, dry_run=dry_run)


@users.command("alter")
def users_alter(
    name: UserName,
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    role: Annotated[RoleName | None, typer.Option(help="What the user may do from now on.")] = None,
    *,
    disable: Annotated[bool | None, typer.Option("--disable/--enable", help="Refuse or accept logins.")] = None,
    dry_run: DryRunOption = False,
) -> None:
    """Change a user's role, or whether they may log in. Their sessions end."""
    from app.cli.users import alter_user
    from app.cli.web_process import WebProcess

    alter_user(WebProcess.chosen(url, token, context), name, role, disabled=disable, dry_run=dry_run)


@users.command("delete")
def users_delete(
    name: UserName,
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Remove a user. Their sessions end."""
    from app.cli.users import delete_user
    from app.cli.web_process import WebProcess

    delete_user(WebProcess.chosen(url, token, context), name, yes=yes, dry_run=dry_run)


@users.command("login-link")
def users_login_link(
    name: UserName, url: UrlOption = None, token: TokenOption = None, context: ContextOption = None
) -> None:
    """Print a link that logs a user in once. An earlier one ends."""
    from app.cli.users import print_login_link
    from app.cli.web_process import WebProcess

    print_login_link(WebProcess.chosen(url, token, context), name)
