"""The metadata image: an immutable value, and one replay function per record type. Read `metadata_image` first."""
