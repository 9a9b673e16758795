"""The documentation is compared with the code it describes."""
