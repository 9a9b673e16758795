"""Tests with Apache Kafka 4.3.1 as the peer: its controllers, brokers, tools and clients.

They need a JDK and Maven; `kafka.require` fetches the jars on first use.

Folders, by subject:

- `admin`: admin clients and command-line tools against our controllers.
- `answers`: the same requests to our controller and to Apache's, with equal responses.
- `brokers`: Apache's brokers registered with our controllers.
- `disk`: files that either implementation reads after the other has written them.
- `embedded`: our broker and controller in one process, with real clients.
- `mixed`: quorums of our controllers and Apache's.
- `quorum`: elections, restores, observers and voter changes next to Apache's quorums.
- `security`: TLS, SASL and ACLs on quorums and listeners.

Shared helpers:

- `kafka`: Apache's jars, nodes and tools as processes; free ports; waiting.
- `conclave`: our nodes as processes, and requests to any controller.
- `metadata_load`: clients that write metadata continuously and count acknowledged writes.
- `log_files`: the metadata log on disk, read without our storage layer.
- `dumps`: log files as the dump tools print them.
"""
