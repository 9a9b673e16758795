"""The diagram of raft states in docs/architecture.md, drawn from the table of transitions.

`python -m tests.docs.diagram` prints it; a test compares the page with it.
"""

from kraft_core.raft.quorum_state import NEXT, Epoch

ARROWS = {
    Epoch.SAME: "same epoch",
    Epoch.HIGHER: "higher epoch",
    Epoch.ANY: "same or higher epoch",
    Epoch.NEXT: "epoch + 1",
}


def diagram() -> str:
    """The table of transitions as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", "    [*] --> Unattached"]
    for before, following in NEXT.items():
        for after, move in following.items():
            lines.append(f"    {before.__name__} --> {after.__name__}: {ARROWS[move]}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(diagram(), end="")
