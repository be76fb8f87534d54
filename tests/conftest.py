from hypothesis import settings

# How long an example takes depends on the machine; a hang is the business of the test's timeout.
settings.register_profile("orbitmq", deadline=None, print_blob=True)
settings.load_profile("orbitmq")
