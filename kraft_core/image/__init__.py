"""The metadata image: an immutable value, and one replay per record type."""
