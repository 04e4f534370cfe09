"""The demo: a simulated sportsbook through the whole flow, with a page and a board in the terminal."""
