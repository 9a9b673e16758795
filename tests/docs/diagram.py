"""What docs/architecture.md draws: the raft states from the table of transitions, the layers from pyproject.toml.

`python -m tests.docs.diagram` draws both into the page; tests compare.
"""

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from kraft_core.raft.quorum_state import NEXT, Epoch
from tests.docs.markdown import DOCS, ROOT, fenced

ARROWS = {
    Epoch.SAME: "same epoch",
    Epoch.HIGHER: "higher epoch",
    Epoch.ANY: "same or higher epoch",
    Epoch.NEXT: "epoch + 1",
}


def diagram() -> str:
    """Draw the table of transitions as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", "    [*] --> Unattached"]
    for before, following in NEXT.items():
        for after, move in following.items():
            lines.append(f"    {before.__name__} --> {after.__name__}: {ARROWS[move]}")
    return "\n".join(lines) + "\n"


def layer_contracts() -> Iterator[Mapping[str, Any]]:
    """Find the import-linter contracts that name layers."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for contract in settings["tool"]["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            yield contract


def layers() -> str:
    """List the layers of each root package, the top one first."""
    lines = []
    for contract in layer_contracts():
        lines += [*contract["containers"], *(f"    {layer}" for layer in contract["layers"])]
    return "\n".join(lines) + "\n"


def drawn(page: str) -> str:
    """Return the page with both drawings as they should be."""
    for language, body in (("mermaid", diagram()), ("text", layers())):
        (old,) = fenced(page, language)
        page = page.replace(f"```{language}\n{old}```", f"```{language}\n{body}```")
    return page


if __name__ == "__main__":
    path = DOCS / "architecture.md"
    path.write_text(drawn(path.read_text()))
