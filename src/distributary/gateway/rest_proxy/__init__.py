"""Producing and consuming by plain HTTP requests: the REST proxy's versions 1, 2 and (producing) 3."""
