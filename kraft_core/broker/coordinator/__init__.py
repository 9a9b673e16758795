"""The group coordinator: classic consumer groups and their offsets, kept in __consumer_offsets."""
