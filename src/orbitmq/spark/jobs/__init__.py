"""Jobs over topics and store directories: functions, and commands of ``orbitmq pipeline``."""
