"""Placement reports: export, Spark job, scheduler and proposals."""
