"""The demo: a simulated sportsbook through the whole flow, a page and a board in the terminal to watch it."""
