"""The store on Redis or Valkey: a writer for reducers, a reader for publishers and the control API."""

from distributary.store.redis_reader import RedisReader
from distributary.store.redis_writer import RedisWriter

__all__ = ["RedisReader", "RedisWriter"]
