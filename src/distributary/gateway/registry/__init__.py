"""The schema registry: subjects, versions, ids and compatibility, stored in a compacted topic."""
