"""The table of APIs in docs/compatibility.md, made from the code.

`python -m tests.docs.apis` prints it; a test compares the page with it. A version range in brackets is advertised, as
Kafka does, but every request is answered with an error.
"""

from kraft_core.broker.apis.kafka_apis import LOCAL, SERVED
from kraft_core.controller import controller_operations as operations
from kraft_core.protocol.api_keys import ApiKey, request_class
from kraft_core.server.api_versions import controller_versions
from kraft_core.server.controller_apis import _UNSERVED, RAFT_APIS

AT_THE_LISTENER = {ApiKey.API_VERSIONS, ApiKey.ENVELOPE, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
NOWHERE = "\N{EN DASH}"


def is_refused_by_controller(key: ApiKey) -> bool:
    """Whether the controller answers every request of this API with an error."""
    if key in AT_THE_LISTENER | RAFT_APIS:
        return False
    kind = request_class(key)
    operation = {**operations.WRITES, **operations.READS}.get(kind)
    return key in _UNSERVED or operation is None


def cell(key: ApiKey, versions: tuple[int, int] | None, *, refused: bool) -> str:
    """A version range, in brackets if it only leads to an error."""
    if versions is None:
        return NOWHERE
    text = str(versions[0]) if versions[0] == versions[1] else f"{versions[0]}-{versions[1]}"
    return f"({text})" if refused else text


def api_rows() -> list[list[str]]:
    """Key, name, versions at the controller listener, versions at the broker listener."""
    controller = controller_versions()
    found = []
    for key in ApiKey:
        refused = (key in controller or key in SERVED) and is_refused_by_controller(key)
        if key in controller or key in SERVED:
            at_controller = cell(key, controller.get(key), refused=refused)
            at_broker = cell(key, SERVED.get(key), refused=refused and key not in LOCAL)
            name = request_class(key).__name__.removesuffix("Request")
            found.append([str(int(key)), name, at_controller, at_broker])
    return found


if __name__ == "__main__":
    for row in api_rows():
        print(f"| {' | '.join(row)} |")
