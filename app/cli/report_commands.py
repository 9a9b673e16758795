"""`conclave reports …`: placement reports of a running web process, and of a snapshot file.

Each command imports its work when it runs, so that help is fast.
"""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.options import ContextOption, JsonOption, TokenOption, UrlOption

reports = typer.Typer(help="Run placement reports.", no_args_is_help=True)

ReportId = Annotated[int, typer.Argument(metavar="REPORT", min=1, help="Id of the report, as `list` shows it.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.add_typer(reports, name="reports")


@reports.command("run")
def reports_run(
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    topics: Annotated[str, typer.Option(metavar="PREFIX", help="Only topics whose names start so.")] = "",
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Report on this .checkpoint file of a __cluster_metadata folder instead, without a web process.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(file_okay=False, help="With --checkpoint: folder for the report, new or empty.")
    ] = None,
    *,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the end, with its progress. The exit code is 1 unless it succeeds.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Start a placement report, or report on a snapshot of the metadata here."""
    if checkpoint is None and out is not None:
        raise typer.BadParameter("it needs --checkpoint: a web process keeps its reports itself", param_hint="--out")
    if checkpoint is not None:
        from app.cli.reports_offline import report_checkpoint

        report_checkpoint(checkpoint, out, as_json=as_json)
        return
    from app.cli.reports_run import run_report
    from app.cli.web_process import WebProcess

    raise typer.Exit(run_report(WebProcess.chosen(url, token, context), topics, wait=wait, as_json=as_json))


@reports.command("list")
def reports_list(
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Number of newest reports to show.")] = 20,
    *,
    as_json: JsonOption = False,
) -> None:
    """List the reports, newest first."""
    from app.cli.reports_run import list_reports
    from app.cli.web_process import WebProcess

    list_reports(WebProcess.chosen(url, token, context), limit, as_json=as_json)


@reports.command("show")
def reports_show(
    report: ReportId,
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show a report's verdict; with --json, all of it. The exit code is 1 if it has failed."""
    from app.cli.reports_run import show_report
    from app.cli.web_process import WebProcess

    raise typer.Exit(show_report(WebProcess.chosen(url, token, context), report, as_json=as_json))


@reports.command("cancel")
def reports_cancel(
    report: ReportId,
    url: UrlOption = None,
    token: TokenOption = None,
    context: ContextOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Cancel a running report, whichever web process runs it."""
    from app.cli.reports_run import cancel_report
    from app.cli.web_process import WebProcess

    cancel_report(WebProcess.chosen(url, token, context), report, as_json=as_json)
