"""The command orbitmq: arguments, rendering, connecting."""
