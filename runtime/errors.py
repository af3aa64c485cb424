"""What goes wrong when a model is loaded or used wrongly. Each message is one line that says what to do.

Strategy: these are the embedding program's (or its user's) mistakes and the machine's troubles before a model stands.
What happens to a request afterwards, a prompt that is too long included, is no exception but a ``Done`` with a
``Failure``, since the core decides what follows from it.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from cognition import CogstepError


class RuntimeClosedError(CogstepError):
    """A runtime was asked for something after ``close()``."""

    def __init__(self, name: str, message: str = "") -> None:
        super().__init__(message or f"the model {name!r} is closed; load it again with load_model()")
        self.name = name


class ServerClosedError(RuntimeClosedError):
    """A model server was asked for something after its ``close()``, or was closed while somebody waited for it."""

    def __init__(self, name: str) -> None:
        super().__init__(name, f"the server of the model {name!r} is closed; make a new ModelServer")


class ReleasedError(RuntimeClosedError):
    """A shared model was asked for something by somebody who had given it back."""

    def __init__(self, name: str) -> None:
        super().__init__(name, f"the model {name!r} was released here; acquire it again from its server")


class ModelLoadError(CogstepError):
    """A model could not be loaded.

    Attributes:
        spec: what was to be loaded, as the caller wrote it.
    """

    def __init__(self, message: str, *, spec: str = "") -> None:
        super().__init__(message)
        self.spec = spec


class ModelSpecError(ModelLoadError):
    """The text that names a model has no form that we know."""


class ModelNotFoundError(ModelLoadError):
    """There is no file, directory or repository under this name."""


class ModelFileError(ModelLoadError):
    """The file or directory is there but holds no model that can be used: wrong kind, cut short, parts missing."""


class ModelOptionsError(ModelLoadError):
    """An option has a value that it can't have, or that does not go with the others or with this model."""


class ExtraMissingError(ModelLoadError):
    """The backend's package is not installed.

    Attributes:
        extra: the name for ``pip install 'cogstep[extra]'``.
    """

    def __init__(self, message: str, *, extra: str, spec: str = "") -> None:
        super().__init__(message, spec=spec)
        self.extra = extra


class LoadCancelledError(ModelLoadError):
    """``on_progress`` returned False."""


class ModelProcessError(ModelLoadError):
    """The process of a model ended while it loaded, or ends so often that it is not started again."""


class TemplateError(ModelLoadError):
    """A chat template has a syntax error, or refuses a plain conversation however it is put."""


class TemplateStoppedError(TemplateError):
    """A chat template was stopped: it takes more time or memory than any conversation needs, or ended its process."""


class MediaError(CogstepError):
    """A message holds a picture, and the model takes none of its kind. Becomes the ``Failure`` of a reply."""


class ConstraintError(CogstepError):
    """A reply can't be held to what was asked of it. Becomes the ``Failure`` of that reply."""


class SavedCacheError(CogstepError):
    """A cache can't be saved or restored: nothing to save, no room, a file that is damaged or belongs to another model.

    Attributes:
        path: the file.
    """

    def __init__(self, message: str, path: str | PathLike[str]) -> None:
        super().__init__(message)
        self.path = Path(path)


class MemoryStoreError(CogstepError):
    """A store of notes can't be opened, read or written.

    Attributes:
        path: its file.
    """

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message)
        self.path = path
