"""docs/operations.md names every metric, and quotes messages that the code has."""

import ast
import re
from contextlib import closing
from pathlib import Path

from app.cluster.cluster import Cluster, StoredHistory
from app.cluster.log_store.recorder import Limits
from app.db.base import utc_now
from app.db.database import Database
from app.metrics import Metrics
from app.reports.upkeep import ReportStatus, ReportUpkeep, Retention
from app.reports.webhooks import WebhookSettings
from tests.docs.markdown import DOCS, ROOT, code_words, rows, section

PAGE = (DOCS / "operations.md").read_text()
VARIES = "\N{HORIZONTAL ELLIPSIS}"


def exported() -> set[str]:
    """The names on the page that Prometheus reads, without the suffixes of counters and histograms."""
    with closing(Database("sqlite://")) as database:
        upkeep = ReportUpkeep(database, Path(), Retention(), WebhookSettings())
        upkeep.status = ReportStatus(utc_now(), 1.0, "succeeded")
        stored = StoredHistory(Path("never-started"), Limits(2**20, 1))
        cluster = Cluster([("127.0.0.1", 9)], database, stored=stored)
        metrics = Metrics(lambda: [("", cluster, upkeep)], database.outage)
    metrics.observe("GET", "/", 200, 0.01)
    return set(re.findall(r"^# TYPE (\S+) ", metrics.text().decode(), re.MULTILINE))


def test_every_metric_is_listed() -> None:
    names = [code_words(row[0])[0] for row in rows(section(PAGE, "Health and metrics"))]
    listed = {name for name in names if not name.startswith("/")}
    assert listed == {name for name in exported() if not name.endswith("_created")}


def source_texts() -> list[str]:
    """Every text of the program; what varies in an f-string is an ellipsis."""
    found = []
    for parent in ("app", "kraft_core"):
        for path in (ROOT / parent).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.JoinedStr):
                    parts = [str(part.value) if isinstance(part, ast.Constant) else VARIES for part in node.values]
                    found.append("".join(parts))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value)
    return found


def test_the_troubleshooting_table_quotes_the_code() -> None:
    texts = source_texts()
    table = rows(section(PAGE, "Troubleshooting"))
    assert len(table) > 20
    for message, cause, remedy in table:
        assert cause
        assert remedy
        for part in code_words(message)[0].replace("\\|", "|").split(VARIES):
            assert any(part.strip() in text for text in texts), part
