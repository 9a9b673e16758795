"""The parts of KafkaRaftClient: elections, replication, membership."""
