"""`python -m app.db MESSAGE`: writes the next migration from the models and a fresh database, for developers."""

import sys
import tempfile

from alembic import command

from app.db.database import make_engine
from app.db.migrate import alembic_config, newest_revision, upgrade

if len(sys.argv) != 2:
    raise SystemExit(__doc__)
with tempfile.TemporaryDirectory() as folder:
    engine = make_engine(f"sqlite:///{folder}/fresh.db")
    if newest_revision() is not None:
        upgrade(engine)
    config = alembic_config()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.revision(config, sys.argv[1], autogenerate=True, rev_id=f"{int(newest_revision() or 0) + 1:04d}")
    engine.dispose()
