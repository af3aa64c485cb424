"""What an engine derives from its configuration once: system prompts, and the request for a summary."""

from __future__ import annotations

import pytest

from cognition import AgentConfig, ToolSpec, UserMessage
from cognition.engine._setup import Setup
from cognition.parsing.text_protocol import INSTRUCTIONS, TextProtocol, append_instructions
from cognition.values.candidates import Briefing

READ = ToolSpec("read", "Reads.", read_only=True)
NEWS = Briefing("News.", "Passing.")


def setup_of(protocol: TextProtocol) -> Setup:
    return Setup(AgentConfig(system="Be brief.", tools=(READ,), protocol=protocol))


def test_the_system_prompt_of_a_request_is_the_configured_one_or_the_one_in_its_place() -> None:
    setup = setup_of("native")

    assert setup.system_with(None, None) == "Be brief."
    assert setup.system_with("Be kind.", None) == "Be kind."
    assert setup.system_with(None, NEWS) == "Be brief.\n\nNews."
    assert setup.system_with("Be kind.", NEWS) == "Be kind.\n\nNews."


@pytest.mark.parametrize("protocol", ["short_keys", "tool_tags"])
def test_the_tools_of_a_text_protocol_follow_either_system_prompt(protocol: TextProtocol) -> None:
    setup = setup_of(protocol)
    told = setup.tool_instructions

    assert told.startswith(INSTRUCTIONS[protocol])
    assert setup.system_with(None, None) == append_instructions("Be brief.", told)
    assert setup.system_with("Be kind.", NEWS) == f"Be kind.\n\n{told}\n\nNews."


@pytest.mark.parametrize("protocol", ["native", "short_keys", "tool_tags"])
def test_the_request_for_a_summary_has_one_message_and_the_protocol_of_all_others(protocol: TextProtocol) -> None:
    message = UserMessage("m", "Summarise.", "engine")

    request = setup_of(protocol).summary_request(message, "Be brief.")

    assert (request.system, list(request.messages), request.tools) == ("Be brief.", [message], ())
    assert (request.options.tool_choice, request.protocol) == ("none", protocol)
