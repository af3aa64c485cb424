"""A compiled chat template: renders conversations and derives the format.

Jinja2 runs here: known templates (``template.is_known``) in the program, all others in a separate process
(``_isolated_renderer``, ``renderer_process``). Both give identical results.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import jinja2
import jinja2.meta

from runtime.errors import TemplateError, TemplateStoppedError
from runtime.templates._conversation import UNDEFINED, Entry, Undefined
from runtime.templates._derivation import Derivation, derive
from runtime.templates._sandbox import SIZE, STEPS, LimitExceeded, Sandbox

DATETIME = "%b %d %Y %H:%M:%S GMT"
"""The time format of FireFunction's template, as in llama.cpp."""

LONGEST_REASON = 300
"""Characters retained of an error message: a template may raise an error of any length."""

PUBLISHERS = "use the template of the model's publisher"

TOO_MUCH_MEMORY = "it takes more memory than any conversation needs"


class CompiledTemplate:
    """A template in this process.

    Args:
        source: Jinja2. bos_token, eos_token: their texts, which templates may write.
        now: the clock, for templates that write the date.
        steps: limit of loops, calls and filters in one rendering.
        size: limit of any text in it, in characters.

    Raises:
        TemplateError: the source is not a valid template.
    """

    def __init__(
        self,
        source: str,
        *,
        bos_token: str = "",
        eos_token: str = "",
        now: Callable[[], datetime] = datetime.now,
        steps: int = STEPS,
        size: int = SIZE,
    ) -> None:
        self._source = source
        self._now = now
        self._sandbox = Sandbox(steps, size)
        self._sandbox.globals |= {"bos_token": bos_token, "eos_token": eos_token}
        self._sandbox.globals["strftime_now"] = lambda format: now().strftime(format)
        try:
            self._template = self._sandbox.from_string(source)
            self._wanted = jinja2.meta.find_undeclared_variables(self._sandbox.parse(source))
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(
                f"the chat template has a syntax error in line {error.lineno} ({error_text(error.message)}); "
                f"{PUBLISHERS}"
            ) from error
        except (RecursionError, MemoryError, SyntaxError) as error:  # the last of Python, over what Jinja made of it
            raise TemplateError(
                f"the chat template can't be compiled, it is nested too deeply ({error_text(error)}); {PUBLISHERS}"
            ) from error
        except Exception as error:  # of whatever literals and constants the template is made of
            raise TemplateError(f"the chat template can't be compiled ({error_text(error)}); {PUBLISHERS}") from error

    def apply(self, messages: list[Entry], tools: list[Entry] | Undefined | None, options: Mapping[str, Any]) -> str:
        """Render dictionaries unchanged.

        Raises:
            TemplateError: the template refuses them, or fails.
            TemplateStoppedError: a limit stopped it.
        """
        variables: dict[str, Any] = {"messages": messages, **options}
        if tools is UNDEFINED:
            tools = None
        else:
            variables["tools"] = tools
        if tools and "xml_tools" in self._source:  # SmolLM3 knows its tools under this name only
            variables.setdefault("xml_tools", tools)
        if "functions" in self._wanted and "tools" not in self._wanted:  # FireFunction too, and as JSON text
            written = json.dumps(tools, ensure_ascii=False, indent=2) if tools else ""
            variables = {"functions": written, "datetime": self._now().strftime(DATETIME), **variables}
        try:
            with self._sandbox.meter(variables):
                return str(self._template.render(variables))
        except MemoryError as error:
            raise stopped_error(TOO_MUCH_MEMORY) from error
        except (LimitExceeded, RecursionError) as error:
            raise stopped_error(error_text(error)) from error
        except Exception as error:  # whatever it is, it is the template's
            raise TemplateError(f"the chat template refuses the conversation: {error_text(error)}") from error

    def derive(self) -> Derivation:
        """Derive all facts about the template.

        Raises:
            TemplateStoppedError: a limit stopped it.
        """
        return derive(lambda messages, tools, **options: self.apply(messages, tools, options), self._source)

    def close(self) -> None:
        """Do nothing: it has no resources to free."""


def stopped_error(reason: str) -> TemplateStoppedError:
    """Return the error for a template that a limit stopped."""
    return TemplateStoppedError(f"the chat template was stopped: {reason}; {PUBLISHERS}, or another model")


def error_text(error: object) -> str:
    """Return an error's text, cut to the length of a line."""
    try:
        text = str(error)
    except Exception:  # it holds what can't be written
        text = type(error).__name__
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}..."
