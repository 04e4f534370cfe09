"""The reference pages that are made from the code: ``python -m distributary.docgen [--check]``."""
