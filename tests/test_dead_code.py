"""No code that nothing in the product uses: vulture looks for it, and tests do not count as use.

Names that templates read count as used, and so does the public API of the clients (docs/clients.md and
docs/rest-client.md). What libraries call, and what mirrors Kafka's tables, is listed here.
"""

import re
from pathlib import Path
from typing import Final

from vulture import Vulture

ROOT = Path(__file__).resolve().parents[1]
ROOTS: Final = ("app", "benchmarks", "conclave", "kraft_core", "migrations", "sdk")
TABLES: Final = (
    "app/db/models.py",  # columns
    "app/rest/schemas/*",  # fields of bodies and answers
    "conclave/client/asynchronous/*",
    "conclave/client/blocking/*",
    "conclave/client/models/*",  # the whole API
    "kraft_core/protocol/api_keys.py",
    "kraft_core/protocol/errors.py",
    "kraft_core/protocol/messages/*",
    "kraft_core/protocol/metadata_records/*",
    "kraft_core/protocol/metadata_version.py",
    "migrations/versions/*",
)
"""Tables of Kafka's, of the database or of the API, whole whether all of it is used or not."""
DECORATORS: Final = (
    "@*.callback", "@*.command", "@*.exception_handler", "@*.listens_for", "@*.middleware", "@*_validator*",
    "@pytest.*", "@router.*",
)  # fmt: skip
"""What registers a function with a library."""
CALLED: Final = (
    "AsyncMethods", "Body", "Methods",  # bases of what `make client` makes
    "ABORT", "COMMIT", "EndTxnMarker",  # kinds of Kafka's control records
    "CLASS", "DENY", "DIRECTORY_LOST", "FREE",  # members of Kafka's enumerations
    "Digest", "password_changed_at", "process_id",  # columns
    "RACK_*",  # members of an enumeration that Spark writes as numbers
    "__getattr__",  # of a module
    "_missing_",  # enum
    "cache_ok", "impl", "process_bind_param", "process_result_value",  # SQLAlchemy
    "capture_signals", "force_exit",  # uvicorn
    "dotenv_settings", "file_secret_settings", "model_config", "settings_customise_sources",  # pydantic-settings
    "handle_data", "handle_endtag", "handle_starttag",  # html.parser
    "log_errors",  # RE2
    "max_length",  # zlib
    "check_hostname", "maximum_version", "minimum_version", "num_tickets", "verify_mode",  # ssl
    "newstyle_gettext",  # Jinja
    "state_name",  # the simulator's traces
    "connections_closed", "connections_opened", "incoming_bytes", "outgoing_bytes",  # named by node_metrics
    "x_labels", "y_labels",  # pygal
)  # fmt: skip
"""Names that a library uses, or that complete an enumeration."""


def template_words() -> set[str]:
    """Every name within the tags of the templates."""
    tags = re.compile(r"\{[{%].*?[}%]\}", re.DOTALL)
    texts = [path.read_text() for path in (ROOT / "templates").rglob("*.*")]
    return {word for text in texts for tag in tags.findall(text) for word in re.findall(r"[a-z_]\w*", tag)}


def documented_words() -> set[str]:
    """Every name within the code of these pages: what users of the clients call."""
    text = "".join((ROOT / "docs" / page).read_text() for page in ("clients.md", "rest-client.md"))
    blocks = re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL)
    return {word for block in blocks for word in re.findall(r"[A-Za-z_]\w*", block)}


def dead_code(*roots: Path) -> list[str]:
    """What vulture finds unused, one line each."""
    vulture = Vulture(ignore_names=[each for each in CALLED if "*" in each], ignore_decorators=list(DECORATORS))
    vulture.scavenge([str(root) for root in roots], exclude=[f"*/{table}" for table in TABLES])
    used = {*CALLED, *template_words(), *documented_words()}  # not for vulture, which compares one after the other
    return [
        f"{item.filename}:{item.first_lineno} unused {item.typ} '{item.name}'"
        for item in vulture.get_unused_code(min_confidence=60)
        if item.name not in used
    ]


def test_no_code_is_dead() -> None:
    assert dead_code(*(ROOT / root for root in ROOTS)) == []


def test_dead_code_is_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("def used():\n    pass\n\n\ndef forgotten():\n    used()\n")
    assert dead_code(module) == [f"{module}:5 unused function 'forgotten'"]
