"""An address for every page of the application, so that tests visit all of them and a new page cannot be forgotten."""

from typing import Final

from app.pages import site

TOPIC: Final = "accessible"
GROUP: Final = "accessible-readers"

ADDRESSES: Final = {
    "/": "/",
    "/access": "/access",
    "/access/sessions": "/access/sessions?user=admin",
    "/access/tokens": "/access/tokens",
    "/access/users/{name}/grants": "/access/users/admin/grants",
    "/account": "/account",
    "/account/tokens": "/account/tokens",
    "/audit": "/audit",
    "/broker-configs": "/broker-configs?q=log.retention",
    "/brokers": "/brokers",
    "/brokers/{broker_id}": "/brokers/1",
    "/brokers/{broker_id}/configs": "/brokers/1/configs?q=log.retention",
    "/brokers/{broker_id}/replicas": "/brokers/1/replicas?page=2",
    "/brokers/{broker_id}/timeline": "/brokers/1/timeline",
    "/changes": "/changes",
    "/changes/diff": "/changes/diff?from=5&to=20",
    "/changes/{offset}": "/changes/{changed_at}",
    "/clusters": "/clusters",
    "/create-topic": "/create-topic",
    "/elections": "/elections",
    "/elections/{election_id}": "/elections/{election_id}",
    "/explorer": "/explorer",
    "/explorer/{operation}": "/explorer/list_topics",
    "/features": "/features",
    "/flaps": "/flaps",
    "/flaps/elections": "/flaps/elections",
    "/group-delete": f"/group-delete?group={GROUP}",
    "/group-reset": f"/group-reset?group={GROUP}",
    "/groups": "/groups",
    "/groups/": f"/groups/?id={GROUP}",
    "/groups/{name}": f"/groups/{GROUP}",
    "/kept-form": "/kept-form",
    "/moves/new": "/moves/new",
    "/plans": "/plans",
    "/plans/{plan_id}": "/plans/{plan_id}",
    "/quorum": "/quorum",
    "/quorum/epochs": "/quorum/epochs",
    "/quorum/voters/{voter_id}/{directory_id}/add": "/quorum/voters/7/nBQDfFT6Q2WVyEPPkqGzPg/add",
    "/quorum/voters/{voter_id}/{directory_id}/remove": "/quorum/voters/1/{directory_id}/remove",
    "/reassignments": "/reassignments",
    "/reports": "/reports",
    "/reports/new-schedule": "/reports/new-schedule",
    "/reports/schedules/{name}": "/reports/schedules/nightly",
    "/rights": "/rights",
    "/rights/import": "/rights/import",
    "/rights/principal": "/rights/principal?name=User:ann&operation=READ&resource_type=TOPIC&resource_name=accessible",
    "/rights/quotas": "/rights/quotas",
    "/rights/scram": "/rights/scram",
    "/rights/tokens": "/rights/tokens",
    "/search": "/search?q=accessible",
    "/topics": "/topics",
    "/topics/{name}": f"/topics/{TOPIC}?page=2",
    "/topics/{name}/changes": f"/topics/{TOPIC}/changes",
    "/topics/{name}/configs": f"/topics/{TOPIC}/configs?q=retention",
    "/topics/{name}/create-again": "/topics/accessible-gone/create-again?deleted_at={deleted_at}",
    "/topics/{name}/delete": f"/topics/{TOPIC}/delete",
    "/topics/{name}/groups": f"/topics/{TOPIC}/groups",
    "/topics/{name}/messages": f"/topics/{TOPIC}/messages",
    "/topics/{name}/messages/{partition}/{offset}": f"/topics/{TOPIC}/messages/0/0",
    "/topics/{name}/produce": f"/topics/{TOPIC}/produce",
    "/topics/{name}/producers": f"/topics/{TOPIC}/producers",
    "/transactions": "/transactions",
}
"""The address of each route in the administrator's session of a test; values in braces are looked up by the test."""

ELSEWHERE: Final = frozenset(
    {
        "/login",  # of visitors
        "/login/link",
        "/clusters/{key}/change",  # needs a second cluster: tests/browser/test_clusters.py
        "/login/oidc",  # tests/browser/test_logins.py
        "/login/oidc/callback",
        "/reports/{run_id}",  # FURTHER of test_accessibility
        "/reports/{run_id}/partitions",  # needs the state of a report: tests/app/pages/test_report_page.py
        "/rights/tokens/{token_id}/{kind}",  # needs a delegation token: tests/app/pages
    }
)
"""Pages that other tests visit."""

NO_PAGES: Final = frozenset(
    {
        "/download",
        "/events",
        "/explorer/{operation}/open",
        "/reports/{run_id}.json",
        "/reports/{run_id}/brokers.csv",
        "/reports/{run_id}/event-log",
        "/reports/{run_id}/log",  # a log file on a page
        "/reports/{run_id}/violations.csv",
        "/topics/{name}/messages/events",
        "/topics/{name}/messages/{partition}/{offset}/{part}",
    }
)
"""Routes that answer with something else than a page."""


def page_routes() -> set[str]:
    """Return the path of every page of the application."""
    paths = {
        getattr(route, "path", "")
        for router in site.ROUTERS
        for route in router.routes
        if "GET" in (getattr(route, "methods", None) or ())
    }
    return {path for path in paths if not path.startswith("/fragments/")} - NO_PAGES
