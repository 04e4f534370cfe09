"""What is on the wire: commands, answers, pushes, and the two formats of them."""
