"""Stage 2: Kafka. Connections, topics, the commands topic, and the embedded broker."""
