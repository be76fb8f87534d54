"""Stand-ins for tests: virtual clocks, networks and disks in memory, simulated clusters."""
