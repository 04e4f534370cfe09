"""What every HTTP server shares: how it listens (TLS, connection limits, time-outs for clients), and the
toolkit of authorization, CORS, error responses, content negotiation, request bodies and metrics.
"""
