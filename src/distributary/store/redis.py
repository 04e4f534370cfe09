"""The store on Redis or Valkey: a writer for reducers, a reader for publishers and the control API."""

from distributary.store.reader import RedisReader
from distributary.store.writer import RedisWriter

__all__ = ["RedisReader", "RedisWriter"]
