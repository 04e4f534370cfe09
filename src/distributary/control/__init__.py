"""Beside the flow: the REST control API, one module a resource, one shape for every error."""
