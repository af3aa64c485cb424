"""A chat template and a format that a program sets in place of those in a model's files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from cognition.base.checking import nearest, show
from runtime.errors import ModelOptionsError

if TYPE_CHECKING:
    from cognition.parsing import FormatSpec
    from runtime.protocol.backend import Metadata


@frozen
class Override:
    """Overrides of the settings in a model's files; None: no override."""

    template: str | None = None
    """Jinja2."""
    plain_template: str | None = None
    """A second template for conversations without tools and calls, if ``template`` does not cover them."""
    format: FormatSpec | None = None

    def instead(self, found: Metadata) -> Metadata:
        """Return a model's metadata with the overridden template."""
        if self.template is None:
            return found
        # As with a template of its own. MLX's fallback alone needs the first token from us.
        bos = None if found.template is None and found.backend == "mlx" else found.leading_bos
        return evolve(found, template=self.template, plain_template=self.plain_template, leading_bos=bos)


NOTHING_CHOSEN = Override()


def choose(template: str | Path | None, format: object, spec: str) -> Override:
    """Read the arguments of ``load_model``.

    Args:
        template: a spec for ``find_template``, or the text of a template.
        format: a handwritten format, or its name.
        spec: the model's spec, for errors.

    Raises:
        ModelLoadError: the template or format does not exist.
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
    return Override(source, plain, None if format is None else _format(format, spec))


def _format(given: object, spec: str) -> FormatSpec:
    from cognition.parsing import FORMATS, FormatSpec

    if isinstance(given, FormatSpec):
        return given
    if not isinstance(given, str):
        raise ModelOptionsError(f"format must be a FormatSpec or the name of one, not {show(given)}", spec=spec)
    if given not in FORMATS:
        raise ModelOptionsError(f"format: there is no written format {given!r}{nearest(given, FORMATS)}", spec=spec)
    return FORMATS[given]
