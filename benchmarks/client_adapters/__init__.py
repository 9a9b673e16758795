"""The clients that `benchmarks.clients` compares, one module each."""
