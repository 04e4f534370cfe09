"""What a machine requires before a stack runs: Java, the jars of Kafka and Spark, a store server."""
