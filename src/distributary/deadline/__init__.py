"""Pure functions with a deadline, each call in a process that is ended when it takes too long.

For what strangers can make slow: a regular expression, a schema whose references multiply, data that a
library in C does not survive. A thread would not do: such code holds the interpreter, and cannot be stopped.
"""

from distributary.deadline.deadline_pool import Deadline

__all__ = ["Deadline"]
