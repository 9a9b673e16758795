"""Topics, partitions, replicas and leaders: the rules of Kafka's ReplicationControlManager."""
