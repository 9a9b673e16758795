"""A controller with an authorizer, and a web process that logs in as a super user, for tests of ACLs and tokens."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.rest.examples import EXAMPLES
from app.rest.schemas.acls import AclDataList
from tests.app.live import LiveWeb, running_web
from tests.interop import kafka
from tests.security.secure_quorum import SecureQuorum, secure_quorum, wait_for_voters

ACL = EXAMPLES["create_acl"]


@contextmanager
def authorized_quorum(folder: Path) -> Iterator[SecureQuorum]:
    """Yield a controller with an authorizer, whose only super user is `controller`."""
    settings = {
        "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super_users": "User:controller",
        "delegation_token_secret_key": "the secret of all tokens",
    }
    with secure_quorum(folder, 1, "SASL_PLAINTEXT", "PLAIN", **settings) as found:
        found.format(1)
        found.start(1)
        kafka.write_properties(properties_of(found, "controller"), login_as(found, "controller"))
        found.client_properties = login_as(found, "controller")
        found.wait_for_leader(60)
        wait_for_voters(found, 60)
        yield found


@contextmanager
def super_user_web(folder: Path, quorum: SecureQuorum) -> Iterator[LiveWeb]:
    """Yield a web process that logs in as a super user."""
    with running_web(folder, quorum.bootstrap, command_config=properties_of(quorum, "controller")) as running:
        yield running.wait_ready()


def properties_of(quorum: SecureQuorum, user: str) -> Path:
    """Return the file of a user's client properties."""
    return quorum.folder / f"{user}.properties"


def login_as(quorum: SecureQuorum, user: str) -> dict[str, str]:
    """Return the client properties of a user."""
    jaas = quorum.client_properties["sasl.jaas.config"].replace('username="admin"', f'username="{user}"')
    return {**quorum.client_properties, "sasl.jaas.config": jaas}


def listed(web: LiveWeb, **wanted: str) -> list[dict[str, str]]:
    """Return the ACLs that match, with their seven members."""
    answer = web.client.get(f"{web.cluster}/acls", params=wanted)
    found = AclDataList.model_validate_json(answer.content).data
    return [acl.model_dump(include=set(ACL)) for acl in found]
