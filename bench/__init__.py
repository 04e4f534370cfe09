"""The benchmark: specs in, figures out. ``python -m bench`` runs it; README.md says what is measured."""
