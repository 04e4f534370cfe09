"""The schema registry: subjects, versions, ids and compatibility, kept in a compacted topic."""
