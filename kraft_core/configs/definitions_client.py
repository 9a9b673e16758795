"""Configs that Kafka's clients share, as tables (see config_def.parse_table).

Names, types, defaults and allowed values are those of CommonClientConfigs, Kafka 4.3.1; the descriptions are not
Kafka's. The keys of TLS and the JAAS line are those of definitions_security.
"""

from typing import Final

COMMON_TABLE: Final = """
bootstrap.servers | LIST | - | HIGH | distinct+ | Brokers to connect to first, as HOST:PORT,…; an IPv6 address in brackets.
client.dns.lookup | STRING | use_all_dns_ips | MEDIUM | [use_all_dns_ips] | How names are resolved: all addresses of a name are tried in order.
client.id | STRING |  | MEDIUM | non-null string | A name for the broker's logs, metrics and quotas.
config.providers | LIST |  | LOW | distinct | Names of the providers of ${provider:path:key} variables.
connections.max.idle.ms | LONG | 540000 | MEDIUM |  | After how long an unused connection is closed, in ms; negative never.
metadata.max.age.ms | LONG | 300000 | LOW | [0,...] | After how long metadata is asked for again without a reason, in ms.
metadata.recovery.rebootstrap.trigger.ms | LONG | 300000 | LOW | [0,...] | For how long no update of metadata may succeed until the bootstrap servers are used again, in ms.
metadata.recovery.strategy | STRING | rebootstrap | LOW | (case insensitive) [none, rebootstrap] | What to do when no known broker is available.
reconnect.backoff.max.ms | LONG | 1000 | LOW | [0,...] | The longest wait before a broker is connected to again, in ms.
reconnect.backoff.ms | LONG | 50 | LOW | [0,...] | The first wait before a broker is connected to again, in ms; it doubles.
request.timeout.ms | INT | 30000 | MEDIUM | [0,...] | How long a request may wait for its answer, in ms.
retry.backoff.max.ms | LONG | 1000 | LOW | [0,...] | The longest wait before a failed request is sent again, in ms.
retry.backoff.ms | LONG | 100 | LOW | [0,...] | The first wait before a failed request is sent again, in ms; it doubles.
sasl.mechanism | STRING | GSSAPI | MEDIUM | non-null string | The mechanism of the login: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
security.protocol | STRING | PLAINTEXT | MEDIUM | (case insensitive) [PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL] | Whether connections use TLS and SASL.
socket.connection.setup.timeout.max.ms | LONG | 30000 | MEDIUM | [1,...] | The longest time for a connection to be accepted, in ms.
socket.connection.setup.timeout.ms | LONG | 10000 | MEDIUM | [1,...] | The first time for a connection to be accepted, in ms; it doubles.
"""

SOME_CLIENTS_TABLE: Final = """
client.rack | STRING |  | LOW | non-null string | The rack of this client; brokers prefer replicas in the same rack.
default.api.timeout.ms | INT | 60000 | MEDIUM | [0,...] | How long an operation without a time-out of its own may take with all its retries, in ms.
"""
"""Keys that several clients share, but not all."""
