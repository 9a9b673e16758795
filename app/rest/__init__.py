"""JSON under /v3, one router a resource."""
