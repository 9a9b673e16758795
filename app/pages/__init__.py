"""HTML pages: one router per subject, one frozen view model per template."""
