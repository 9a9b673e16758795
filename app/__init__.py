"""The web process of Conclave: REST, pages, reports and the command line."""
