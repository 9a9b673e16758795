"""ACLs, SCRAM credentials, delegation tokens and quotas, and the rights of a request's sender."""
