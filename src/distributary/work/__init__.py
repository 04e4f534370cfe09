"""Workers: a function for every record of a topic, run by as many processes as the work asks for."""

from distributary.work.results import Out

__all__ = ["Out"]
