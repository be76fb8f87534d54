"""From a send to the store: checks, inbox, delays, retries."""
