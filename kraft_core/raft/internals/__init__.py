"""The parts of KafkaRaftClient: elections, leadership, replication, voter changes. Read `raft_core` first."""
