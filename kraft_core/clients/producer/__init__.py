"""KafkaProducer: records in, acknowledged batches out."""
