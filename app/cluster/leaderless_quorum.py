"""A quorum without a leader, as a process without metadata can see it: which of its controllers answer."""

import asyncio
import time
from collections.abc import Sequence
from typing import cast

from app.cluster.quorum import Quorum, unmeasured, with_reach
from app.cluster.reach import TIMEOUT_MS, Address, Reach, probe
from kraft_core.clients.kafka_client import KafkaConnection
from kraft_core.protocol.endpoint_type import EndpointType
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.protocol.messages import DescribeClusterRequest, DescribeClusterResponse
from kraft_core.protocol.uuids import ZERO_UUID
from kraft_core.raft.voter_set import DEFAULT_LISTENER
from kraft_core.security.listener_security import ClientSecurity
from kraft_core.security.sasl_client_authenticator import LoginFailed


async def describe_without_leader(bootstrap: Sequence[Address], security: ClientSecurity, error: str) -> Quorum:
    """Ask every bootstrap server, and every controller registered with one of them, whether it answers.

    Only a leader reports the voter set, so the registered controllers stand in for it. A node that does not answer
    raises nothing. Takes a few seconds at most.
    """
    found = await _ask_all(bootstrap, security)
    registered: dict[int, Address] = {}
    for _, controllers in found.values():
        registered |= controllers
    found |= await _ask_all([each for each in registered.values() if each not in found], security)
    reached = {address: reach for address, (reach, _) in found.items()}
    quorum = Quorum(
        leader_id=None,
        leader_epoch=max((reach.leader_epoch for reach in reached.values()), default=-1),
        high_watermark=-1,
        kraft_version=0,
        voters=tuple(
            unmeasured(node_id, ZERO_UUID, ((DEFAULT_LISTENER, *address),), address)
            for node_id, address in sorted(registered.items())
        ),
        observers=(),
        committed_voters=None,
        log_start_offset=-1,
        snapshot=None,
        is_live=False,
        error=error,
        asked_at_ms=int(time.time() * 1000),
        asked=() if registered else tuple(reached.values()),
    )
    return with_reach(quorum, reached)


async def _ask_all(
    addresses: Sequence[Address], security: ClientSecurity
) -> dict[Address, tuple[Reach, dict[int, Address]]]:
    answers = await asyncio.gather(*(_ask(*each, security) for each in addresses))
    return dict(zip(addresses, answers, strict=True))


async def _ask(host: str, port: int, security: ClientSecurity) -> tuple[Reach, dict[int, Address]]:
    """Return whether one controller answers, and the controllers that it knows as registered."""
    now_ms = int(time.time() * 1000)
    connection: KafkaConnection | None = None
    epoch = -1
    controllers: dict[int, Address] = {}
    try:
        connection = await KafkaConnection.open(host, port, "conclave-admin", TIMEOUT_MS, security)
        epoch = await probe(connection)
        request = DescribeClusterRequest(endpoint_type=EndpointType.CONTROLLER)
        answer = cast("DescribeClusterResponse", await connection.request(request, TIMEOUT_MS))
        if answer.error_code == ErrorCode.NONE:
            controllers = {node.broker_id: (node.host, node.port) for node in answer.brokers}
    except (ConnectionError, LoginFailed) as cause:
        return Reach(host=host, port=port, answers=False, since_ms=now_ms, cause=str(cause)), {}
    except KafkaError:
        pass  # an error is an answer too
    finally:
        if connection is not None:
            connection.close()
    return Reach(host=host, port=port, answers=True, since_ms=now_ms, leader_epoch=epoch), controllers
