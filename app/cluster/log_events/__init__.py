"""What the metadata log says of the past in single events: moves of partitions, states of brokers, feature levels."""
