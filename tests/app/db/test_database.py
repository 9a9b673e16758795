"""The schema as the migrations create it, on SQLite and on a real PostgreSQL, and its match with the models."""

import asyncio
import datetime as dt
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text
from sqlalchemy.exc import IntegrityError, StatementError
from sqlalchemy.orm import Session

from app.db.base import Base, utc_now
from app.db.database import Database, make_engine
from app.db.migrate import alembic_config, newest_revision, upgrade
from app.db.models import ApiToken, User
from app.reports import store
from app.reports.executor import lease, plan_store
from app.reports.executor.plan import Decision, Row, Setting
from app.security import accounts, api_tokens, audit
from app.security.retention import AuditRetention
from tests.app.db.servers import PostgreSql, postgresql_server


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSql]:
    with postgresql_server() as running:
        yield running


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        made = Database(f"sqlite:///{tmp_path / 'deep' / 'test.db'}")
    else:
        made = Database(request.getfixturevalue("postgresql").fresh())
    upgrade(made.engine)
    yield made
    made.close()


def current_revision(database: Database) -> str | None:
    with database.engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def test_migrations_make_exactly_the_tables_of_the_models(database: Database) -> None:
    assert current_revision(database) == newest_revision()
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
        names = {table for table in inspect(connection).get_table_names() if table != "alembic_version"}
    assert names == set(Base.metadata.tables)


def test_tokens_of_an_older_release_get_their_makers_or_are_revoked(database: Database) -> None:
    with database.engine.begin() as connection:
        config = alembic_config()
        config.attributes["connection"] = connection
        command.downgrade(config, "0004")
        user = "INSERT INTO users (name, role, created_at) VALUES ('ann', 'admin', '2026-01-01 00:00:00')"
        connection.execute(text(user))
        for name, maker in {
            "of-ann": "ann",
            "of-a-token": "token:of-ann",
            "of-nobody": "gone",
            "environment": "CONCLAVE_ADMIN_TOKEN",
        }.items():
            connection.execute(
                text(
                    "INSERT INTO api_tokens (name, token_digest, hint, role, scopes, created_by, created_at) "
                    "VALUES (:name, :name, '', 'admin', '[]', :maker, '2026-01-01 00:00:00')"
                ),
                {"name": name, "maker": maker},
            )
    upgrade(database.engine)
    found = {each.name: each for each in database.write_now(api_tokens.tokens)}
    ann = database.write_now(accounts.user_by_name, "ann")
    assert ann is not None
    assert (found["of-ann"].maker_id, found["of-a-token"].parent_id) == (ann.id, found["of-ann"].id)
    assert {name for name, each in found.items() if each.revoked_at is not None} == {"of-nobody"}
    good = [
        name
        for name in found
        if database.write_now(
            lambda session, name=name: api_tokens.rights_of(session, _token(session, name), utc_now())
        )
    ]
    assert sorted(good) == ["environment", "of-a-token", "of-ann"]
    database.write_now(accounts.add_user, "other", "admin", None, utc_now())
    database.write_now(accounts.remove_user, "ann")
    assert {each.name for each in database.write_now(api_tokens.tokens)} == {"of-nobody", "environment"}


def test_an_upgrade_keeps_what_refers_to_a_table_that_is_made_anew(database: Database) -> None:
    with database.engine.begin() as connection:
        config = alembic_config()
        config.attributes["connection"] = connection
        command.downgrade(config, "0014")
        at = "'2026-01-01 00:00:00'"
        for statement in (
            f"INSERT INTO users (id, name, role, created_at) VALUES (7, 'bob', 'viewer', {at})",
            (
                "INSERT INTO sessions (id_digest, user_id, created_at, last_seen_at, expires_at, source) "
                f"VALUES ('x', 7, {at}, {at}, {at}, '')"
            ),
            (
                "INSERT INTO report_schedules (id, name, cron, enabled, changed_by, changed_at) "
                f"VALUES (3, 'weekly', '0 2 * * 1', true, 'bob', {at})"
            ),
            (
                "INSERT INTO report_runs (id, schedule_id, requested_by, state, created_at) "
                f"VALUES (9, 3, 'schedule weekly', 'succeeded', {at})"
            ),
        ):
            connection.execute(text(statement))
    upgrade(database.engine)
    with database.engine.connect() as connection:
        assert connection.execute(text("SELECT schedule_id, cluster FROM report_runs")).all() == [(3, "")]
        assert connection.execute(text("SELECT user_id FROM sessions")).all() == [(7,)]
        assert connection.execute(text("SELECT name, cluster FROM report_schedules")).all() == [("weekly", "")]
    database.write_now(lambda session: session.execute(text("UPDATE users SET role = 'none' WHERE id = 7")))
    with pytest.raises(IntegrityError):
        database.write_now(lambda session: session.execute(text("UPDATE users SET role = 'boss'")))


def _token(session: Session, name: str) -> ApiToken:
    found = api_tokens.token_by_name(session, name)
    assert found is not None
    return found


def test_the_audit_keeps_the_newest_rows_and_days(database: Database) -> None:
    now = utc_now()
    for day in range(30):
        event = audit.Event(
            actor="a", actor_kind="user", source="s", action=f"day{day}", resource="r", result="ok", request_id="r"
        )
        database.write_now(audit.store_event, event, now - dt.timedelta(days=29 - day))
    assert database.write_now(audit.trim, now - dt.timedelta(days=19, hours=1), 1_000, 4) == 4
    retention = AuditRetention(database, 20, 15)
    assert asyncio.run(retention.trim()) == 30 - 4 - 15
    left = database.write_now(audit.events, audit.AuditFilter(), 100)
    assert [each.action for each in left] == [f"day{day}" for day in range(29, 14, -1)]


def test_a_plan_is_claimed_by_one_owner_and_saved_under_its_fence(database: Database) -> None:
    row = Row(topic="orders", topic_id="AAAAAAAAAAAAAAAAAAAAAQ", partition=0, original=(1, 2), proposed=(3, 2))
    new = plan_store.NewPlan(cluster_id="c", origin="pasted", rows=[row], options={})
    plan_id = database.write_now(plan_store.create, new, "ann").id
    database.write_now(plan_store.approve, "c", plan_id, "ann")
    database.write_now(plan_store.start, "c", plan_id, "ann")
    claimed = database.write_now(lease.claim, "c", "first")
    assert claimed is not None
    assert database.write_now(lease.claim, "c", "second") is None
    plan, version = database.write_now(plan_store.renewed, plan_id, 1)
    moved = replace(row, state="moved", caught_up=1)
    other = replace(row, partition=1, state="pending")
    setting = Setting(resource_type=4, resource_name="1", name="rate", before=None, ours=("5",), state="cleared")
    decision = Decision(
        plan=replace(plan, known_under_min=("a-0",), reasons=("Why.",)),
        rows={moved.key: moved, other.key: other},
        settings={setting.key: setting},
    )
    assert database.write_now(plan_store.save, 1, version, decision)
    assert not database.write_now(plan_store.save, 1, version + 1, decision)
    with pytest.raises(lease.LeaseLostError):
        database.write_now(plan_store.save, 2, version, decision)
    database.write_now(lease.release, plan_id, 1)
    again = database.write_now(lease.claim, "c", "second")
    assert again is not None
    assert again.fence == 2
    execution = database.write_now(plan_store.load, again)
    assert execution.rows == {moved.key: moved, other.key: other}
    assert (execution.settings, execution.plan) == ({setting.key: setting}, decision.plan)
    database.write_now(plan_store.save, 2, version, replace(decision, plan=replace(decision.plan, state="done")))
    ended = database.write_now(plan_store.get, "c", plan_id)
    assert ended is not None
    assert ended.result is not None
    assert (ended.result["partitions"], ended.result["configs"]) == ({"moved": 1, "pending": 1}, {"cleared": 1})
    assert database.write_now(plan_store.states_of, [plan_id]) == {plan_id: {"moved": 1, "pending": 1}}
    assert database.write_now(lease.claim, "c", "second") is None


def test_every_constraint_has_a_name(database: Database) -> None:
    inspector = inspect(database.engine)
    for table in Base.metadata.tables:
        for found in (*inspector.get_unique_constraints(table), *inspector.get_foreign_keys(table)):
            assert found["name"], f"{table}: {found}"


def test_upgrading_an_empty_database_from_three_processes_at_once_does_it_once(database: Database) -> None:
    Base.metadata.drop_all(database.engine)
    with database.engine.begin() as connection:
        connection.execute(text("DROP TABLE alembic_version"))
    url = database.engine.url.render_as_string(hide_password=False)
    code = (
        "import sys; from app.db.database import make_engine; from app.db.migrate import upgrade; "
        "engine = make_engine(sys.argv[1]); upgrade(engine); engine.dispose()"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code, url], stderr=subprocess.PIPE) for _ in range(3)]
    outputs = [process.communicate(timeout=240)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    assert current_revision(database) == newest_revision()


def test_times_are_read_with_their_zone(database: Database) -> None:
    moment = dt.datetime(2026, 3, 29, 2, 30, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    database.write_now(accounts.add_user, "tz", "viewer", None, moment)
    user = database.write_now(accounts.user_by_name, "tz")
    assert user is not None
    assert user.created_at == moment
    assert user.created_at.tzinfo is dt.UTC
    with pytest.raises(StatementError, match="has no time zone"):
        database.write_now(accounts.add_user, "naive", "viewer", None, moment.replace(tzinfo=None))


def test_a_failed_transaction_is_rolled_back(database: Database) -> None:
    def half(session: object) -> None:
        accounts.add_user(session, "half", "viewer", None, utc_now())  # type: ignore[arg-type]  # a session
        raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"):
        database.write_now(half)
    assert database.write_now(accounts.user_by_name, "half") is None


def test_many_concurrent_writers_all_succeed(database: Database) -> None:
    async def write_all() -> None:
        now = utc_now()
        await asyncio.gather(
            *(database.write(accounts.add_user, f"writer-{number}", "viewer", None, now) for number in range(60))
        )

    asyncio.run(write_all())
    names = [user.name for user in database.write_now(accounts.users)]
    assert sum(name.startswith("writer-") for name in names) == 60


@pytest.mark.parametrize(
    "hostile",
    ["'; DROP TABLE users; --", '" OR 1=1 --', "a\x00b", "%", "_", "\ud800", "x" * 5000, "{{7*7}}", "=1+1", "\r\nX: y"],
)
def test_hostile_text_is_stored_as_text(database: Database, hostile: str) -> None:
    event = audit.Event(
        actor=hostile,
        actor_kind="user",
        source="here",
        action="test",
        resource=hostile,
        result="ok",
        request_id="r",
        detail={"value": hostile},
    )
    database.write_now(audit.store_event, event)
    database.write_now(audit.store_event, audit.Event(**{**_fields(event), "resource": "other", "actor": "other"}))
    stored = database.write_now(audit.events, audit.AuditFilter(), 10)
    assert len(stored) == 2
    found = database.write_now(audit.events, audit.AuditFilter(resource=stored[1].resource), 10)
    assert [each.id for each in found] == [stored[1].id], "a filter matches text, not a pattern"


@pytest.mark.parametrize("name", ["a\x00b", "\ud800"])
def test_a_name_that_no_database_stores_belongs_to_no_user(database: Database, name: str) -> None:
    assert database.write_now(accounts.user_by_name, name) is None
    assert database.write_now(api_tokens.token_by_name, name) is None
    assert database.write_now(audit.events, audit.AuditFilter(actor=name, resource=name), 10) == []


def _fields(event: audit.Event) -> dict[str, object]:
    return {name: getattr(event, name) for name in event.__slots__}


def test_a_role_outside_the_list_is_refused_by_the_database(database: Database) -> None:
    def sneak(session: object) -> None:
        session.add(User(name="x", role="root", created_at=utc_now()))  # type: ignore[attr-defined]  # a session

    with pytest.raises(Exception, match="ck_users_role"):
        database.write_now(sneak)


def test_the_audit_names_who_committed_an_offset(database: Database) -> None:
    for offset, result in ((10, "ok"), (11, "failed")):
        event = audit.Event(
            actor=f"user-{offset}",
            actor_kind="user",
            source="s",
            action="a",
            resource="r",
            result=result,  # type: ignore[arg-type]  # one of its literals
            request_id="r",
            metadata_offset=offset,
        )
        database.write_now(audit.store_event, event)
    assert database.write_now(audit.committers, 0, 100) == {10: "user-10"}


def test_another_kind_of_database_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mysql"):
        make_engine("mysql://localhost/x")


def test_sqlite_keeps_a_write_ahead_log_and_foreign_keys(tmp_path: Path) -> None:
    made = Database(f"sqlite:///{tmp_path / 'test.db'}")
    with made.engine.connect() as connection:
        pragmas = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "foreign_keys")]
    made.close()
    assert pragmas == ["wal", 1]


def test_of_processes_that_create_a_run_at_once_one_succeeds(database: Database) -> None:
    outcomes: list[str] = []
    gate = threading.Barrier(6)

    def create() -> None:
        gate.wait()
        try:
            database.write_now(store.create_run, "ada")
            outcomes.append("created")
        except store.ReportBusyError:
            outcomes.append("busy")

    threads = [threading.Thread(target=create) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["busy"] * 5 + ["created"]
