"""Logins at an OpenID issuer: authorization code with PKCE, ID tokens, and roles by groups."""
