"""The controller's event queue, and the responses that wait for a commit."""
