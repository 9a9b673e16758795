"""A KRaft quorum: raft, the QuorumController and a first broker, on Kafka's own wire and disk format."""
