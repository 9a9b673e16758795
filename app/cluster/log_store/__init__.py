"""The metadata log on the disk of the web process: what it has read, kept by size and age, and images of the past."""
