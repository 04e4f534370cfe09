"""Running a stack: its data folder, its components, and the supervisor that keeps them running."""
