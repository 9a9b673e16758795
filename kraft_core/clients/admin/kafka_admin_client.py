"""Admin: a typed client of a Kafka cluster's administration, on the running event loop.

    async with Admin({"bootstrap.servers": "localhost:9092"}) as admin:
        created = await admin.create_topics([NewTopic("orders", num_partitions=6)])
        created.failed      # {} or {"orders": KafkaError}

Operations on several items return `Results`: a value or a KafkaError for each item, so that some may fail. Operations
with one result raise KafkaError. An operation ends within default.api.timeout.ms.
Source: Admin, KafkaAdminClient, AdminClientConfig of Kafka 4.3.1.
"""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Final, Self

from kraft_core.clients.admin.admin_call import AdminCall, K, Results, V
from kraft_core.clients.admin.admin_core import AdminCore
from kraft_core.clients.admin.all_calls import AllCalls
from kraft_core.clients.client_config import ClientConfig, client_config_def
from kraft_core.clients.client_metadata import ClientMetadata
from kraft_core.clients.client_runner import ClientRunner
from kraft_core.clients.network_client import NetworkClient
from kraft_core.configs.config_def import ConfigDef
from kraft_core.protocol.errors import ErrorCode, KafkaError
from kraft_core.security.listener_security import ClientSecurity

ADMIN_CONFIGS: Final[ConfigDef] = client_config_def(
    "connections.max.idle.ms | LONG | 300000 | MEDIUM |  | After how long an unused connection is closed, in ms.",
    "default.api.timeout.ms",
)


class Admin(AllCalls):
    """The admin client. Create it within a running event loop; `close` it, or use `async with`.

    `configs` are those of AdminClientConfig that ADMIN_CONFIGS has; `security` takes the place of their TLS and SASL
    settings. Raises ConfigException.
    """

    def __init__(self, configs: Mapping[str, object], *, security: ClientSecurity | None = None) -> None:
        config = ClientConfig(ADMIN_CONFIGS, configs)
        random = Random()  # noqa: S311  jitter
        metadata = ClientMetadata(config.bootstrap(), config.metadata_config(allow_auto_topic_creation=False), random)
        metadata.want_only(())
        network = NetworkClient(metadata, random, config.network_config(), security or config.security())
        self._core = AdminCore(network, random, config.number("default.api.timeout.ms"))
        self._runner = ClientRunner(self._core, on_failure=self._fail)
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; running operations fail with Disconnected."""
        self._is_closed = True
        self._core.close()
        await self._runner.close()

    async def run(self, call: AdminCall[K, V]) -> Results[K, V]:
        """Carry out a call. Raises RuntimeError if the client is closed."""
        if self._is_closed:
            raise RuntimeError("The admin client is closed.")
        done: asyncio.Future[Results[K, V]] = asyncio.get_running_loop().create_future()

        def finish(results: Results[K, V]) -> None:
            if not done.done():
                done.set_result(results)

        self._core.start(call, finish, self._runner.now_ms())
        self._runner.wake()
        return await done

    def _fail(self, fault: Exception) -> None:
        self._core.fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The client failed: {fault!r}"))
