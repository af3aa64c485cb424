"""Errors of loading and misusing a model. Each message is one line that includes the remedy.

Strategy: these are mistakes of the embedding program or its user, or machine problems before the model is loaded. A
later failure of a request, such as a prompt that is too long, raises nothing: it is a ``Done`` with a ``Failure``,
because the core decides how to react.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from cognition import CogstepError


class RuntimeClosedError(CogstepError):
    """A runtime was used after ``close()``."""

    def __init__(self, name: str, message: str = "") -> None:
        super().__init__(message or f"the model {name!r} is closed; load it again with load_model()")
        self.name = name


class ServerClosedError(RuntimeClosedError):
    """A model server was used after ``close()``, or was closed while a caller waited for it."""

    def __init__(self, name: str) -> None:
        super().__init__(name, f"the server of the model {name!r} is closed; make a new ModelServer")


class ReleasedError(RuntimeClosedError):
    """A shared model was used after its release."""

    def __init__(self, name: str) -> None:
        super().__init__(name, f"the model {name!r} was released here; acquire it again from its server")


class ModelLoadError(CogstepError):
    """A model could not be loaded.

    Attributes:
        spec: the model to load, as the caller wrote it.
    """

    def __init__(self, message: str, *, spec: str = "") -> None:
        super().__init__(message)
        self.spec = spec


class ModelSpecError(ModelLoadError):
    """The text that names a model has an unknown form."""


class ModelNotFoundError(ModelLoadError):
    """No file, directory or repository has this name."""


class ModelFileError(ModelLoadError):
    """The file or directory exists but contains no usable model: wrong kind, truncated, parts missing."""


class ModelOptionsError(ModelLoadError):
    """An option is out of range, or conflicts with another option or with this model."""


class ExtraMissingError(ModelLoadError):
    """The backend's package is not installed.

    Attributes:
        extra: the name for ``runtime.models.installation.install_line``, which returns the command.
    """

    def __init__(self, message: str, *, extra: str, spec: str = "") -> None:
        super().__init__(message, spec=spec)
        self.extra = extra


class LoadCancelledError(ModelLoadError):
    """``on_progress`` returned False."""


class ModelProcessError(ModelLoadError):
    """The process of a model ended while loading, or ends so often that it is not restarted."""


class TemplateError(ModelLoadError):
    """A chat template has a syntax error, or rejects even a plain conversation in every variant."""


class TemplateStoppedError(TemplateError):
    """A chat template was stopped: it needs more time or memory than any conversation should, or ended its process."""


class MediaError(CogstepError):
    """A message contains a picture of a kind that the model does not accept. Becomes the ``Failure`` of a reply."""


class ConstraintError(CogstepError):
    """The constraint on a reply cannot be enforced. Becomes the ``Failure`` of that reply."""


class SavedCacheError(CogstepError):
    """A cache cannot be saved or restored: nothing to save, no space, a damaged file, or a file of another model.

    Attributes:
        path: the file.
    """

    def __init__(self, message: str, path: str | PathLike[str]) -> None:
        super().__init__(message)
        self.path: Path = Path(path)


class MemoryStoreError(CogstepError):
    """A memory store cannot be opened, read or written.

    Attributes:
        path: its file.
    """

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message)
        self.path = path
