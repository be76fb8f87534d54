"""``python -m orbitmq``: the command, where no script is installed."""

import sys

from orbitmq.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
