"""Admin: one typed client over the admin requests."""
