"""What the machine needs before the stack runs: Java, the jars of Kafka and Spark, a store server."""
