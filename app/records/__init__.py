"""Records as people see them: where to read, which to show, and how to show and enter keys and values."""
