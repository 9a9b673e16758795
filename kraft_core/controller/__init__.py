"""The QuorumController and its managers: (image, request) to records and a response, without I/O."""
