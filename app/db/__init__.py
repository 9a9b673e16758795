"""SQLAlchemy models and sessions."""
