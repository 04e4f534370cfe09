"""Stage 6: the Python subscriber, asynchronous (async_subscriber.py) and synchronous (sync_subscriber.py)."""
