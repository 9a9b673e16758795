"""`python -m sdk`: make the models and methods of `conclave.client` again from the routes of the web process."""

from pathlib import Path

from fastapi import FastAPI

from app.rest.api import ROUTERS
from app.rest.openapi import describe
from sdk.modules import sources

FOLDER = Path(__file__).resolve().parents[1] / "conclave" / "client"


def main() -> None:
    """Write the modules, and remove those that are no longer made."""
    document = describe(FastAPI(title="Conclave"), [route for router in ROUTERS for route in router.routes])
    made = sources(document)
    for folder in {Path(name).parent for name in made}:
        (FOLDER / folder).mkdir(parents=True, exist_ok=True)
        for path in (FOLDER / folder).glob("*.py"):
            if str(path.relative_to(FOLDER)) not in made:
                path.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
