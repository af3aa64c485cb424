"""How the programs are called: nothing is allowed that was not asked for, and no message stands in an argument."""

import json
from pathlib import Path
from typing import Any

import pytest

from cognition import CogstepError, ConfigError
from runtime import ClaudeOptions, CodexOptions, McpServer
from runtime.errors import ModelOptionsError
from runtime.programs import _claude as claude, _codex as codex
from tests.runtime.asking import ask

FILES = Path("/files")
STDIO = McpServer(name="notes", command=("notes-server", "--all"), variables=("NOTES_KEY",))
HTTP = McpServer(name="web", url="https://example.org/mcp", token="WEB_TOKEN")
SECRET = "the system prompt"
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def of_claude(model: str = "", session: str = "", *, system: str = SECRET, **options: Any) -> list[str]:
    return claude.arguments(ask(system=system), ClaudeOptions(**options), model, FILES, session)


def of_codex(model: str = "", session: str = "", **options: Any) -> list[str]:
    return codex.arguments(ask(system=SECRET), CodexOptions(**options), model, FILES, session)


def settings(arguments: list[str]) -> dict[str, str]:
    """Codex's settings."""
    return dict(arguments[at + 1].split("=", 1) for at, one in enumerate(arguments) if one == "-c")


class TestClaude:
    def test_by_default_it_has_no_tool_no_server_no_setting_and_keeps_nothing(self) -> None:
        arguments = of_claude()

        assert {"--tools=", "--strict-mcp-config", "--setting-sources=", "--no-session-persistence"} <= set(arguments)
        assert not any(
            one.startswith(("--allowedTools", "--mcp-config", "--dangerously", "--resume")) for one in arguments
        )
        assert arguments[arguments.index("--permission-mode") + 1] == "default"

    def test_no_text_is_an_argument(self) -> None:
        """Other users of the machine may read arguments, and no system takes long ones."""
        assert SECRET not in " ".join([*of_claude(), *of_codex()])
        assert claude.files_for(ask(system=SECRET), ClaudeOptions()) == {"system.txt": SECRET}

    def test_a_system_prompt_stands_in_the_place_of_its_own_or_behind_it(self) -> None:
        assert "--system-prompt-file=/files/system.txt" in of_claude()
        assert "--append-system-prompt-file=/files/system.txt" in of_claude(append_system=True)
        assert "--system-prompt=" in of_claude(system="")
        assert not any("system-prompt" in one for one in of_claude(system="", append_system=True))

    def test_tools_that_are_allowed_are_the_only_ones_that_there_are(self) -> None:
        """A pattern allows some calls of a tool; without it the others are refused."""
        arguments = of_claude(tools=("Read", "Bash(git log:*)", "Bash(ls:*)", "mcp__notes__find"), mcp_servers=(STDIO,))

        assert "--tools=Read,Bash" in arguments
        assert "--allowedTools=Read,Bash(git log:*),Bash(ls:*),mcp__notes__find" in arguments
        assert "--mcp-config=/files/mcp.json" in arguments

    def test_only_tools_of_servers_leave_it_none_of_its_own(self) -> None:
        """An empty list is not the same as no list, which would allow everything."""
        arguments = of_claude(tools=("mcp__notes__find",), mcp_servers=(STDIO,))

        assert "--tools=" in arguments

    def test_servers_are_told_in_a_file_without_a_secret(self) -> None:
        """Variables stand there by their names, which the program fills in."""
        files = claude.files_for(ask(), ClaudeOptions(mcp_servers=(STDIO, HTTP)))

        assert json.loads(files["mcp.json"]) == {
            "mcpServers": {
                "notes": {
                    "type": "stdio",
                    "command": "notes-server",
                    "args": ["--all"],
                    "env": {"NOTES_KEY": "${NOTES_KEY}"},
                },
                "web": {
                    "type": "http",
                    "url": "https://example.org/mcp",
                    "headers": {"Authorization": "Bearer ${WEB_TOKEN}"},
                },
            }
        }

    def test_permissions_are_skipped_where_that_is_said_and_nowhere_else(self) -> None:
        assert "--dangerously-skip-permissions" in of_claude(dangerously_skip_permissions=True)
        assert "--dangerously-skip-permissions" not in of_claude(permission_mode="acceptEdits", tools=("Bash",))

    def test_a_session_that_goes_on_is_left_as_it_was(self) -> None:
        arguments = of_claude(session="abc-1", sessions=True)

        assert arguments[-2:] == ["--resume=abc-1", "--fork-session"]
        assert "--no-session-persistence" not in arguments

    def test_the_rest(self) -> None:
        arguments = of_claude("sonnet", max_turns=3, max_cost=0.5, settings=("user", "project"))

        assert {"--model=sonnet", "--max-turns=3", "--max-budget-usd=0.5", "--setting-sources=user,project"} <= set(
            arguments
        )

    def test_a_schema_is_handed_on(self) -> None:
        request = ask(response_format=json.dumps(SCHEMA))
        arguments = claude.arguments(request, ClaudeOptions(), "", FILES, "")

        assert f"--json-schema={json.dumps(SCHEMA)}" in arguments
        assert claude.refusal(request) is None
        assert claude.refusal(ask(response_format=json.dumps({"description": "x" * 200_000}))) is not None

    def test_options_that_it_knows_as_variables(self) -> None:
        assert claude.settings(ask(max_tokens=5, thinking=False).options) == {
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1",
            "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "5",
            "MAX_THINKING_TOKENS": "0",
        }
        assert len(claude.settings(ask().options)) == 3


class TestCodex:
    def test_by_default_it_reads_alone_asks_nobody_and_keeps_nothing(self) -> None:
        arguments = of_codex()

        assert arguments[:2] == ["exec", "--json"]
        assert {"--sandbox=read-only", "--ignore-user-config", "--ignore-rules", "--ephemeral"} <= set(arguments)
        assert arguments[-1] == "-"  # the prompt comes from stdin
        told = settings(arguments)
        assert (told["approval_policy"], told["web_search"], told["project_doc_max_bytes"]) == (
            '"never"',
            '"disabled"',
            "0",
        )
        off = (
            "features.shell_tool",
            "features.unified_exec",
            "features.multi_agent",
            "features.hooks",
            "features.view_image",
            "agents.enabled",
            "skills.include_instructions",
            "analytics.enabled",
        )
        assert {told[name] for name in off} == {"false"}
        assert not {"features.hooks", "analytics.enabled"} & settings(of_codex(user_settings=True)).keys()

    def test_its_sandbox_lets_write_what_may_write(self) -> None:
        """Some models have ``apply_patch`` whatever the settings say."""
        assert "--sandbox=read-only" in of_codex(sandbox="workspace-write", tools=("web_search",))
        assert "--sandbox=workspace-write" in of_codex(sandbox="workspace-write", tools=("apply_patch",))

    def test_commands_of_its_model_see_no_key(self) -> None:
        """Unless one is named as theirs."""
        told = settings(of_codex(tools=("shell",), mcp_servers=(STDIO, HTTP), variables=("WEB_TOKEN",)))

        assert told["shell_environment_policy.exclude"] == codex.toml(
            ["CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "OPENAI_API_KEY", "NOTES_KEY"]
        )

    def test_tools_that_are_allowed_are_left_on(self) -> None:
        told = settings(of_codex(tools=("shell", "web_search"), sandbox="workspace-write"))

        assert "features.shell_tool" not in told
        assert (told["web_search"], told["include_apply_patch_tool"]) == ('"live"', "false")

    def test_a_sandbox_is_left_out_where_that_is_said_and_nowhere_else(self) -> None:
        skipped = of_codex(dangerously_skip_permissions=True)

        assert "--dangerously-bypass-approvals-and-sandbox" in skipped
        assert not any(one.startswith("--sandbox") for one in skipped)
        assert "--dangerously-bypass-approvals-and-sandbox" not in of_codex(tools=("shell",))

    def test_servers_are_settings_without_a_secret(self) -> None:
        told = settings(of_codex(tools=("mcp__notes__find",), mcp_servers=(STDIO, HTTP)))

        assert told["mcp_servers.notes.command"] == '"notes-server"'
        assert told["mcp_servers.notes.args"] == '["--all"]'
        assert told["mcp_servers.notes.env_vars"] == '["NOTES_KEY"]'
        assert told["mcp_servers.notes.enabled_tools"] == '["find"]'
        assert told["mcp_servers.web.enabled_tools"] == "[]"
        assert told["mcp_servers.web.bearer_token_env_var"] == '"WEB_TOKEN"'

    def test_texts_are_quoted_as_toml_has_it(self) -> None:
        """They are JSON texts, but for DEL; no text ends another one."""
        assert codex.toml('a"b\\\n\x7f\ud800ü') == '"a\\"b\\\\\\n\\u007f?ü"'

    def test_flags_stand_before_the_session_that_goes_on(self) -> None:
        """Behind it they would be an error."""
        arguments = of_codex("gpt-5", "abc-1", sessions=True, effort="low")

        assert arguments[-3:] == ["resume", "abc-1", "-"]
        assert {"--model=gpt-5"} <= set(arguments)
        assert settings(arguments)["model_reasoning_effort"] == '"low"'
        assert "--ephemeral" not in arguments

    def test_a_schema_is_a_file(self) -> None:
        request = ask(response_format=json.dumps(SCHEMA))

        assert "--output-schema=/files/schema.json" in codex.arguments(request, CodexOptions(), "", FILES, "")
        assert codex.files_for(request, CodexOptions()) == {"schema.json": json.dumps(SCHEMA)}


class TestOptions:
    @pytest.mark.parametrize(
        "options",
        [
            {"resume": "abc"},
            {"resume": "--all", "sessions": True},
            {"tools": ("--all",)},
            {"tools": ("Bash(a),Read",)},
            {"tools": ("mcp__notes__find",)},
            {"mcp_servers": (STDIO, STDIO)},
            {"variables": ("A=B",)},
            {"deadline": 0.0},
            {"silence": float("nan")},
            {"at_once": 0},
            {"max_turns": 0},
        ],
    )
    def test_what_can_not_be_is_an_error(self, options: dict[str, Any]) -> None:
        """Before anything is started, above all what would be read as something else in a command line."""
        with pytest.raises(ModelOptionsError):
            ClaudeOptions(**options)

    def test_unknown_names_and_words_are_errors(self) -> None:
        """A misspelt option that protects would protect nothing."""
        with pytest.raises(ConfigError, match="did you mean 'tools'"):
            ClaudeOptions(tool=("Read",))  # type: ignore[call-arg]  # meant so
        with pytest.raises(ConfigError, match="permission_mode"):
            ClaudeOptions(permission_mode="bypassPermissions")  # type: ignore[arg-type]  # meant so
        with pytest.raises(ModelOptionsError, match="none of shell"):
            CodexOptions(tools=("Read",))

    @pytest.mark.parametrize(
        "given",
        [
            {},
            {"command": ("x",), "url": "http://x"},
            {"url": "file:///x"},
            {"command": ("x",), "token": "T"},
            {"name": "a.b", "command": ("x",)},
        ],
    )
    def test_a_server_is_a_command_or_a_url(self, given: dict[str, Any]) -> None:
        with pytest.raises(CogstepError):
            McpServer(**{"name": "x", **given})
