"""The files of the project, as git knows them."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def tracked(*patterns: str) -> list[Path]:
    """The files git knows or would add, so that a build folder does not count; without git, every file."""
    if (ROOT / ".git").exists():
        listing = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        return [ROOT / name for name in listing if (ROOT / name).is_file()]
    skipped = {".venv", "build", "dist"}
    return [
        path
        for pattern in patterns
        for path in ROOT.rglob(pattern)
        if path.is_file() and not skipped.intersection(path.relative_to(ROOT).parts)
    ]
