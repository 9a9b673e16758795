"""Users, roles, sessions, API tokens, CSRF and audit."""
