"""Workers: a function for every record of a topic, run by as many processes as the lag requires."""

from distributary.workers.record_handler import Out

__all__ = ["Out"]
