"""Running the stack: its data folder, its parts, and the supervisor that starts, watches and stops them."""
