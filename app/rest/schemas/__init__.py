"""Request bodies and answers of REST v3, one module a subject."""
