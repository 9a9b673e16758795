"""The KRaft consensus protocol without I/O: events in, effects out.

Read `kafka_raft_client` first. The modules beside it are the public face; the parts of KafkaRaftClient are in
`internals`, reading, writing and transferring snapshots in `snapshot`.

    kafka_raft_client   the node: step(event) -> effects      raft_config, voter_set   who and where the nodes are
    events, effects     its inputs and outputs                quorum_state             the states and their transitions
    raft_client         the listener interface                raft_log                 what a log must offer
    batch_reader        committed batches for listeners       leader_and_epoch         the leader, as listeners see it
"""
