"""Stand-ins for clock, threads and network, for tests of orbitmq and of its users."""
