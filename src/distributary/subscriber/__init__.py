"""Stage 6: the Python subscriber, asynchronous (client.py) and synchronous (sync_subscriber.py)."""
