"""Topics, partitions, replicas and leaders: the rules of ReplicationControlManager."""
