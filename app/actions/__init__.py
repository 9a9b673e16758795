"""Changes that users make, by subject: sent to the cluster, seen in the image, written to the audit."""
