"""A send's way to the store: checks, inbox, delays, retries."""
