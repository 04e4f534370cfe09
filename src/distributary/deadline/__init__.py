"""Pure functions with a deadline: each call runs in a process that is killed if it takes too long.

For untrusted input that can be slow: a regular expression, a schema whose references multiply, data that
crashes a C library. A thread would not help: such code holds the interpreter lock and cannot be interrupted.
"""

from distributary.deadline.deadline_pool import DeadlinePool

__all__ = ["DeadlinePool"]
