"""The file of a server's settings: changes that operators make are written to it."""

import asyncio
import logging
from collections.abc import Iterable

from orbitmq.errors import InvalidSetting, StoreError
from orbitmq.net.refusal import Refusal
from orbitmq.settings import Property, save
from orbitmq.threads import Workers
from orbitmq.wire.codes import ResponseCode

__all__ = ["SettingsFile"]

log = logging.getLogger("orbitmq.net")


class SettingsFile:
    """Writes changes to a file, one after another; without a path, nowhere."""

    def __init__(self, path: str | None, workers: Workers) -> None:
        self._path = path
        self._workers = workers
        self._writing = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<SettingsFile {self._path}>"

    async def save(self, changes: Iterable[Property]) -> None:
        """Return when changes, which are in force by now, are in the file.

        Raise a Refusal if they can't be written. Java only logs that, and answers with success.
        """
        if self._path is None:
            return
        texts = {one.name: one.value for one in changes}
        try:
            async with self._writing:  # each change is made to the text of the one before
                await asyncio.wrap_future(self._workers.submit(save, self._path, texts))
        except (StoreError, InvalidSetting) as error:
            log.error("changed settings are lost when the server stops: %s", error)
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"the settings are in force, but only until the server stops: {error}",
            ) from error
