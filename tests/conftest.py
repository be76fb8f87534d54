import os

from hypothesis import settings

# How long an example takes depends on the machine; a hang is the business of the test's timeout.
# The suite tries the same examples in each run, so that a red one tells of the change; the soak
# searches anew each time.
settings.register_profile("orbitmq", deadline=None, derandomize=True)
settings.register_profile("soak", deadline=None, print_blob=True, max_examples=2000)
settings.load_profile("soak" if os.environ.get("ORBITMQ_SOAK") == "1" else "orbitmq")
