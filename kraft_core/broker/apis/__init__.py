"""The broker's requests, one module per subject; `kafka_apis` sends each request to its handler."""
