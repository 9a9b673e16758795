"""Authentication and authorization: SASL, TLS, principals, and the rights that requests need."""
