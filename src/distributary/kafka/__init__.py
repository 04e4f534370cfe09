"""Kafka: clients, topics, records in and out, schemas and routes, and the embedded broker."""
