"""`orbitmq bench`: load with live figures."""
