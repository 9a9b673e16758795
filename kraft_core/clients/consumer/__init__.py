"""KafkaConsumer: records of subscribed or assigned partitions, and the groups that share them."""
