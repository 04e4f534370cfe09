"""The Python subscriber, asynchronous (async_subscriber.py) and synchronous (sync_subscriber.py)."""
