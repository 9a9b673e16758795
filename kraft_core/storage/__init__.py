"""The metadata log, snapshots and election state on disk. Read `kafka_raft_log` first."""
