"""What docs/architecture.md draws: the raft states from the table of transitions, the layers from pyproject.toml.

`python -m tests.docs.diagram` prints both; tests compare the page with them.
"""

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from kraft_core.raft.quorum_state import NEXT, Epoch
from tests.docs.markdown import ROOT

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


if __name__ == "__main__":
    print(diagram())
    print(layers(), end="")
