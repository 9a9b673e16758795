"""Who is at the other end of a connection, and what they may do: SASL, TLS, principals, rights."""
