"""A chat template and a format that a program gives a model in place of what its files say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from cognition.checking import nearest, shown
from runtime.errors import ModelOptionsError

if TYPE_CHECKING:
    from cognition.parsing import FormatSpec
    from runtime.backend import Metadata


@frozen
class Chosen:
    """What stands in place of what a model's files say; None where they count."""

    template: str | None = None
    """Jinja2."""
    plain_template: str | None = None
    """That of conversations without tools and calls, where ``template`` is not for these too."""
    format: FormatSpec | None = None

    def instead(self, found: Metadata) -> Metadata:
        """What a model's files say, with the template that was given in place of theirs."""
        if self.template is None:
            return found
        # As with a template of its own. MLX's fallback alone needs the first token from us.
        bos = None if found.template is None and found.backend == "mlx" else found.leading_bos
        return evolve(found, template=self.template, plain_template=self.plain_template, leading_bos=bos)


NOTHING_CHOSEN = Chosen()


def choose(template: str | Path | None, format: object, spec: str) -> Chosen:
    """Read what ``load_model`` was given.

    Args:
        template: a place where ``find_template`` finds one, or the text of one.
        format: the name of a written format, or one.
        spec: of the model, for errors.

    Raises:
        ModelLoadError: there is no such template or format.
    """
    if template is None and format is None:
        return NOTHING_CHOSEN
    source, plain = None, None
    if isinstance(template, str) and ("{{" in template or "{%" in template or "\n" in template):
        source = template
    elif template is not None:
        from runtime.templates.files import find_template  # only here, as below: most models need neither

        found = find_template(str(template))
        source, plain = found.source, found.plain_source
        if source is None:
            raise ModelOptionsError(f"template: {template} has no chat template; name another one", spec=spec)
    return Chosen(source, plain, None if format is None else _format(format, spec))


def _format(given: object, spec: str) -> FormatSpec:
    from cognition.parsing import FORMATS, FormatSpec

    if isinstance(given, FormatSpec):
        return given
    if not isinstance(given, str):
        raise ModelOptionsError(f"format must be a FormatSpec or the name of one, not {shown(given)}", spec=spec)
    if given not in FORMATS:
        raise ModelOptionsError(f"format: there is no written format {given!r}{nearest(given, FORMATS)}", spec=spec)
    return FORMATS[given]
