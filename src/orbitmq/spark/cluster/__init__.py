"""A cluster seen from Spark: routes, connections, offsets; blocking."""
