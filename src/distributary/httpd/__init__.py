"""How every server listens: bounds on connections, deadlines for clients, certificates."""
