"""ACLs, SCRAM credentials, delegation tokens and quotas."""
