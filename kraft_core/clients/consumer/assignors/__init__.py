"""Rules by which the leader of a classic consumer group divides partitions among its members."""
