"""Kafka's wire and disk formats: messages, metadata records, record batches, error codes.

Read `wire` for how messages are declared, `codec` for encoding and decoding them, `record_batch` for batches.
"""
