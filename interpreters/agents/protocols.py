"""How a model writes its calls, where the program leaves that open."""

from __future__ import annotations

from typing import Final

from cognition import AgentConfig, ConfigError, GenerationOptions
from cognition.text_protocol import TextProtocol
from runtime.protocol import ModelInfo, Runtime

USED_WITHOUT_TOOLS: Final = "tool_tags"
"""The protocol for models whose template has no place for tools: an answer in it is plain text."""


def has_place_for_tools(info: ModelInfo) -> bool:
    """Whether the model's template tells the model of tools, and its calls can be read.

    A runtime that tells of no features at all is taken to do so.
    """
    return not info.features or "tools" in info.features


def chosen_by_itself(model: Runtime, any_tools: bool, options: GenerationOptions) -> tuple[TextProtocol, str]:
    """The protocol of a session whose program names none, and a warning where it is not the model's own.

    Args:
        model: what it is for.
        any_tools: whether it would be told of any.
        options: how replies are sampled.

    Raises:
        ConfigError: its options can't be had in a text protocol.
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
    """A warning where the model is not told of the tools, since it was asked to write calls natively and can't."""
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
    """Why a model is not told of tools natively; one that has no file here has no template of ours either."""
    whose = f"the chat template of {info.name!r}" if info.path else repr(info.name)
    return f"{whose} has no place for tools"
