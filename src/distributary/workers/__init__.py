"""Workers: a function for every record of a topic, run by as many processes as the work asks for."""

from distributary.workers.results import Out

__all__ = ["Out"]
