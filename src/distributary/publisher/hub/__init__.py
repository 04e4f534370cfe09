"""Where subscribers meet views: joins, what was missed, and what is followed."""
