"""HTTP: the server, errors and answers that REST and pages share."""
