"""JSON under /v3, one router per subject."""
