"""The format of a model's calls, if the program sets no ``protocol``."""

from __future__ import annotations

from typing import Final

from cognition import AgentConfig, ConfigError, GenerationOptions
from cognition.parsing.text_protocol import TextProtocol
from runtime.protocol.model import ModelInfo, Runtime

USED_WITHOUT_TOOLS: Final = "tool_tags"
"""The protocol for models whose template does not support tools: an answer in it is plain text."""


def has_place_for_tools(info: ModelInfo) -> bool:
    """Whether the model's template supports tools and its calls can be parsed.

    A runtime that lists no features at all is assumed to support them.
    """
    return not info.features or "tools" in info.features


def chosen_by_itself(model: Runtime, any_tools: bool, options: GenerationOptions) -> tuple[TextProtocol, str]:
    """Return the protocol of a session whose program sets none, and a warning if it is not the model's own.

    Args:
        model: the session's model.
        any_tools: whether the session offers any tools.
        options: how replies are sampled.

    Raises:
        ConfigError: a text protocol can't fulfil the options.
    """
    if not any_tools or options.tool_choice == "none":
        return "native", ""
    info = model.describe()
    if has_place_for_tools(info):
        return "native", ""
    why = _why(info)
    if options.tool_choice != "auto" or options.response_format:
        raise ConfigError(
            f"{why}, so its calls are written as text, in which neither options.tool_choice nor response_format can be "
            "kept: leave them alone (returns= works), leave the tools out, or give load_model the template= of another "
            "model of its family"
        )
    return USED_WITHOUT_TOOLS, (
        f"{why}: they are told in the system prompt, and calls are written as text (protocol={USED_WITHOUT_TOOLS!r}); "
        "protocol= chooses how"
    )


def left_out(config: AgentConfig, model: Runtime) -> str:
    """Return a warning if ``protocol="native"`` is set and the model does not support it, so that it never sees the
    tools.
    """
    if config.protocol != "native" or not config.offered or config.options.tool_choice == "none":
        return ""
    info = model.describe()
    if has_place_for_tools(info):
        return ""
    return (
        f"{_why(info)}, and protocol='native' leaves them out; begin or fork "
        f"the session with protocol={USED_WITHOUT_TOOLS!r}"
    )


def _why(info: ModelInfo) -> str:
    """Return the reason. A model without a local file has no chat template here that could be blamed."""
    whose = f"the chat template of {info.name!r}" if info.path else repr(info.name)
    return f"{whose} has no place for tools"
