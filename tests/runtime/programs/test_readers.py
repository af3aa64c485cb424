"""What a program writes is read as documented, in any cut of its bytes; what can't be believed ends the reading."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from cognition import Failure, Usage
from cognition.parsing import Output, ReasoningDelta, TextDelta
from runtime.programs._claude import ClaudeReader
from runtime.programs._codex import CodexReader
from runtime.programs._events import EventReader, SurrogateJoiner
from runtime.programs.options import ClaudeOptions, CodexOptions, McpServer

Event = dict[str, Any]
SERVER = McpServer(name="notes", command=("notes-server",))


def claude(*, structured: bool = False, **options: Any) -> ClaudeReader:
    return ClaudeReader(ClaudeOptions(**options), structured=structured)


def codex(**options: Any) -> CodexReader:
    return CodexReader(CodexOptions(**options))


def written(*events: Event | str) -> bytes:
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


def read(reader: EventReader, *events: Event | str) -> tuple[str, str]:
    """The text and the reasoning of a whole stream."""
    return told((*reader.feed(written(*events)), *reader.finish()))


def told(outputs: tuple[Output, ...]) -> tuple[str, str]:
    return (
        "".join(one.text for one in outputs if isinstance(one, TextDelta)),
        "".join(one.text for one in outputs if isinstance(one, ReasoningDelta)),
    )


def stream(**event: Any) -> Event:
    return {"type": "stream_event", "parent_tool_use_id": None, "session_id": "s1", "event": event}


def starts(name: str, **usage: int) -> Event:
    return stream(type="message_start", message={"id": name, "usage": usage})


def text(piece: str) -> Event:
    return stream(type="content_block_delta", index=0, delta={"type": "text_delta", "text": piece})


def thought(piece: str) -> Event:
    return stream(type="content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": piece})


def stops(why: str, **usage: int) -> Event:
    return stream(type="message_delta", delta={"stop_reason": why}, usage=usage)


def says(name: str, *content: Event, **more: Any) -> Event:
    return {"type": "assistant", "session_id": "s1", "message": {"id": name, "content": list(content)}, **more}


def begins(**more: Any) -> Event:
    return {"type": "system", "subtype": "init", "session_id": "s1", "tools": [], "permissionMode": "default", **more}


def result(**more: Any) -> Event:
    return {"type": "result", "subtype": "success", "is_error": False, "session_id": "s1", **more}


def item(kind: str, when: str = "completed", **more: Any) -> Event:
    return {"type": f"item.{when}", "item": {"id": f"item-{kind}", "type": kind, **more}}


def message(words: str) -> Event:
    return item("agent_message", text=words)


COMPLETED = {"type": "turn.completed", "usage": {"input_tokens": 20, "cached_input_tokens": 5, "output_tokens": 7}}

CLAUDE_STREAM = (
    begins(),
    starts("m1", input_tokens=10, cache_read_input_tokens=4, output_tokens=1),
    thought("Hm 🤔."),
    text("Grüße, \ud83d"),
    text("\ude00!"),
    says("m1", {"type": "text", "text": "Grüße, 😀!"}),
    stops("end_turn", output_tokens=9),
    "[debug] not an event",
    {"type": "something_new", "text": 5},
    result(result="Grüße, 😀!", total_cost_usd=0.5, usage={"input_tokens": 10, "cache_read_input_tokens": 4}),
)
CODEX_STREAM = (
    {"type": "thread.started", "thread_id": "t1"},
    {"type": "turn.started"},
    item("reasoning", text="**Hm** 🤔"),
    message("First I look."),
    {"type": "error", "message": "Reconnecting... 1/5 (stream disconnected)"},
    message("Grüße, 😀!"),
    COMPLETED,
)


@st.composite
def cuts(draw: st.DrawFn, data: bytes) -> list[bytes]:
    places = sorted(draw(st.sets(st.integers(1, len(data) - 1), max_size=20)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


class TestAnyCut:
    @pytest.mark.parametrize(
        ("make", "events"), [(claude, CLAUDE_STREAM), (codex, CODEX_STREAM)], ids=["claude", "codex"]
    )
    @given(data=st.data())
    def test_gives_the_same(
        self, make: Callable[[], EventReader], events: tuple[Event | str, ...], data: st.DataObject
    ) -> None:
        """Outputs, and all that has been heard besides; each byte alone, and all at once."""
        whole, parted = make(), make()
        stream_of = written(*events)
        first = told((*whole.feed(stream_of), *whole.finish()))
        outputs: tuple[Output, ...] = ()
        for piece in data.draw(cuts(stream_of)):
            outputs += parted.feed(piece)
        outputs += parted.finish()

        assert told(outputs) == first
        assert first[0] == "Grüße, 😀!"
        for name in ("session", "usage", "ended", "reason", "failure", "wrong", "warnings", "noise", "limit_over"):
            assert getattr(parted, name) == getattr(whole, name)

    @given(st.binary(max_size=60), st.sampled_from([claude, codex]))
    def test_bytes_of_no_program_never_raise(self, data: bytes, make: Callable[[], EventReader]) -> None:
        """Whatever they are, they are noise or end the reading."""
        reader = make()
        reader.feed(data)
        reader.finish()

        assert not reader.ended

    EVENTS = st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.text(max_size=5)
        | st.sampled_from(["text", "message", "success"]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    )
    KEYS = (
        "subtype", "tools", "mcp_servers", "event", "delta", "message", "content", "id", "usage", "item", "error",
        "text", "result", "is_error", "errors", "session_id", "thread_id", "permission_denials", "total_cost_usd",
        "stop_reason", "name", "status", "rate_limit_info", "resetsAt", "server", "changes", "command",
    )  # fmt: skip
    TYPES = (
        "system", "stream_event", "assistant", "user", "result", "rate_limit_event", "thread.started", "item.completed",
        "item.started", "turn.completed", "turn.failed", "error",
    )  # fmt: skip

    @settings(max_examples=25)  # drawing one takes 80 ms
    @given(
        st.lists(
            st.fixed_dictionaries({"type": st.sampled_from(TYPES)}, optional=dict.fromkeys(KEYS, EVENTS)),
            max_size=4,
        ),
        st.sampled_from([claude, codex]),
    )
    def test_events_of_any_shape_never_raise(self, events: list[Event], make: Callable[[], EventReader]) -> None:
        """A version that writes them otherwise is no reason to fall over."""
        read(make(), *events)


class TestClaude:
    def test_a_whole_reply(self) -> None:
        """Text and reasoning as they come, once each; tokens with those that a cache was asked about, and the cost."""
        reader = claude()

        assert read(reader, *CLAUDE_STREAM) == ("Grüße, 😀!", "Hm 🤔.")
        assert (reader.session, reader.ended, reader.reason, reader.failure) == ("s1", True, "stop", None)
        assert reader.usage == Usage(14, 0, 4, 0.5)
        assert reader.noise == "[debug] not an event"

    def test_without_streamed_events_messages_count(self) -> None:
        """A version that streams nothing tells its messages all the same."""
        thinking = {"type": "thinking", "thinking": "Hm."}
        first = says("m1", thinking, {"type": "text", "text": "Hello"})

        assert read(claude(), begins(), first, result(result="Hello")) == ("Hello", "Hm.")

    def test_the_result_alone_counts_where_nothing_else_came(self) -> None:
        assert read(claude(), begins(), result(result="Hello")) == ("Hello", "")

    def test_texts_of_several_messages_are_parted(self) -> None:
        """Between them it used a tool, which is told once, where it was."""
        call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "x"}}
        reader = claude(tools=("Read",))
        events = (
            begins(tools=["Read"]), starts("m1"), text("I look."), says("m1", call), says("m1", call),
            stops("tool_use"), stream(type="message_stop"),
            starts("m2"), text("It is"), text(" empty."), result(result="It is empty."),
        )  # fmt: skip

        assert read(reader, *events) == ("I look.\n\nIt is empty.", '[Read {"file_path": "x"}]\n')
        assert reader.wrong is None

    def test_what_a_helper_of_its_own_says_is_not_the_reply(self) -> None:
        """Its events name the call that has started it."""
        inner = {**text("inner"), "parent_tool_use_id": "t1"}

        assert read(claude(), starts("m1"), inner, text("outer"), result()) == ("outer", "")

    @pytest.mark.parametrize("place", range(2, 7))
    @pytest.mark.parametrize("end", [stream(type="message_stop", abandoned_blocks=[0]), starts("m2")])
    def test_a_message_without_a_stop_reason_is_a_failure_and_nothing_is_joined_to_it(
        self, place: int, end: Event
    ) -> None:
        """As where the provider's stream breaks off, and it has its model write the rest."""
        call = stream(type="content_block_start", index=1, content_block={"type": "tool_use", "id": "t1", "name": "x"})
        piece = stream(type="content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": "{"})
        first = (begins(), starts("m1"), text("Hel"), thought("Hm"), call, piece)[:place]
        again = (starts("m2"), text("lo."), stops("end_turn"), stream(type="message_stop"), result(result="lo."))
        reader = claude()

        heard, _ = read(reader, *first, end, *again)

        if place > 2:
            assert heard == "Hel"
            assert reader.wrong is not None
            assert (reader.wrong.kind, reader.wrong.code) == ("transient", "broke_off")
        else:
            assert (heard, reader.wrong, reader.ended) == ("lo.", None, True), "nothing of it had come"

    @pytest.mark.parametrize("why", ["max_tokens", "model_context_window_exceeded"])
    def test_a_reply_that_was_cut_is_a_length(self, why: str) -> None:
        """Whether the message or the result says so."""
        streamed, told_at_end = claude(), claude()
        read(streamed, starts("m1"), text("x"), stops(why), result())
        read(told_at_end, starts("m1"), text("x"), result(stop_reason=why))

        assert (streamed.reason, told_at_end.reason) == ("length", "length")

    def test_nothing_counts_behind_a_reply_that_was_cut(self) -> None:
        """It would have its model go on three times, and end as an error."""
        reader = claude()
        failed = result(is_error=True, result="API Error", total_cost_usd=0.5)
        heard = read(reader, starts("m1"), text("x"), stops("max_tokens"), starts("m2"), text("y"), failed)

        assert (heard, reader.reason, reader.failure, reader.usage.cost) == (("x", ""), "length", None, 0.5)

    def test_a_key_that_is_refused_again_is_not_tried_ten_times(self) -> None:
        """Once it may be a sign-in that is renewed; other errors may pass."""
        retry = {"type": "system", "subtype": "api_retry", "error_status": 401, "error": "authentication_failed"}
        once, again, busy = claude(), claude(), claude()
        read(once, {**retry, "attempt": 1})
        read(again, {**retry, "attempt": 1}, {**retry, "attempt": 2})
        read(busy, {**retry, "attempt": 2, "error_status": 529, "error": "overloaded"})

        assert (once.wrong, busy.wrong) == (None, None)
        assert again.wrong is not None
        assert (again.wrong.kind, "ANTHROPIC_API_KEY" in again.wrong.message) == ("auth", True)

    def test_its_own_error_at_the_token_limit_is_a_length_too(self) -> None:
        """It words that as an error of the API."""
        reader = claude()
        words = "API Error: Claude's response exceeded the 5 output token maximum."
        read(reader, starts("m1"), text("x"), result(is_error=True, result=words))

        assert (reader.reason, reader.failure) == ("length", None)

    def test_a_success_with_is_error_is_a_failure(self) -> None:
        """So it ends a turn that an error of the API ended, and its own words about it are no reply."""
        reader = claude()
        words = "API Error: 401 Invalid bearer token · Please run /login"
        synthetic = says("m1", {"type": "text", "text": words}, error="authentication_failed")
        heard = read(reader, begins(), synthetic, result(is_error=True, result=words, api_error_status=401))

        assert heard == ("", "")
        assert reader.failure is not None
        assert (reader.failure.kind, reader.failure.status) == ("auth", 401)

    def test_a_result_that_does_not_say_that_it_is_none_is_an_error(self) -> None:
        reader = claude()
        read(reader, {"type": "result", "subtype": "success", "result": "Hello"})

        assert reader.failure is not None

    @pytest.mark.parametrize(
        ("subtype", "kind"),
        [
            ("error_max_turns", "fatal"),
            ("error_max_budget_usd", "fatal"),
            ("error_max_structured_output_retries", "bad_output"),
        ],
    )
    def test_limits_of_its_own_are_failures(self, subtype: str, kind: str) -> None:
        reader = claude()
        read(reader, starts("m1"), text("x"), result(subtype=subtype, is_error=True))

        assert reader.failure is not None
        assert reader.failure.kind == kind

    def test_a_rate_limit_says_when_it_is_over(self) -> None:
        """Its event tells the time, in seconds since 1970; one that warns alone is none."""
        reader, warned = claude(), claude()
        rejected = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1754900000}}
        warning = {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed_warning", "resetsAt": 5}}
        read(reader, rejected, result(is_error=True, result="You've hit your limit · resets 3pm"))
        read(warned, warning, result())

        assert reader.failure is not None
        assert (reader.failure.kind, reader.limit_over, warned.limit_over) == ("rate_limit", 1754900000.0, None)

    def test_a_refusal_of_the_model_is_a_failure(self) -> None:
        reader = claude()
        read(reader, starts("m1"), stops("refusal"), result(result=""))

        assert reader.failure is not None
        assert reader.failure.code == "refusal"

    def test_tokens_are_added_up_as_messages_come(self) -> None:
        """Where it never comes to its result."""
        reader = claude()
        read(
            reader,
            starts("m1", input_tokens=10, output_tokens=1), stops("tool_use", output_tokens=5),
            starts("m2", input_tokens=20, cache_read_input_tokens=3, output_tokens=1),
        )  # fmt: skip

        assert reader.usage == Usage(33, 6, 3)

    def test_a_reply_of_a_schema_is_its_structured_output_alone(self) -> None:
        """Whatever it says around it."""
        call = {"type": "tool_use", "id": "t1", "name": "StructuredOutput", "input": {"a": "ü"}}
        reader = claude(structured=True)
        events = (begins(tools=["StructuredOutput"]), starts("m1"), text("Here it is."), says("m1", call))

        assert read(reader, *events, result(result="Done.", structured_output={"a": "ü"})) == ('{"a": "ü"}', "")
        assert (reader.wrong, reader.failure) == (None, None)

    def test_no_structured_output_is_a_failure(self) -> None:
        reader = claude(structured=True)
        read(reader, begins(), starts("m1"), text("Here it is."), result(result="Here it is."))

        assert reader.failure is not None
        assert reader.failure.kind == "bad_output"

    def test_tools_that_it_was_told_to_leave_out_end_the_reading(self) -> None:
        """Before its model can use one: it is held to what it says of itself."""
        reader = claude(tools=("Read",))
        heard = read(reader, begins(tools=["Read", "Bash"]), starts("m1"), text("x"))

        assert reader.wrong is not None
        assert (reader.wrong.kind, reader.wrong.code) == ("fatal", "not_allowed")
        assert "Bash" in reader.wrong.message
        assert heard[0] == ""

    def test_permissions_that_it_skips_by_itself_end_the_reading(self) -> None:
        reader, asked = claude(), claude(dangerously_skip_permissions=True)
        read(reader, begins(permissionMode="bypassPermissions"))
        read(asked, begins(permissionMode="bypassPermissions"))

        assert reader.wrong is not None
        assert asked.wrong is None

    def test_tools_of_given_servers_are_its_own(self) -> None:
        """And a server that can't be used is a warning."""
        reader = claude(tools=("mcp__notes__find",), mcp_servers=(SERVER,))
        failed = [{"name": "notes", "status": "failed"}]
        read(reader, begins(tools=["mcp__notes__find", "mcp__notes__more", "ListMcpResourcesTool"], mcp_servers=failed))

        assert reader.wrong is None
        assert reader.warnings == ["the MCP server 'notes' can't be used by claude (failed)"]

    def test_calls_that_it_was_refused_are_warnings(self) -> None:
        """Once for each tool."""
        denials = [{"tool_name": "Bash", "tool_use_id": "t1"}, {"tool_name": "Bash", "tool_use_id": "t2"}]
        reader = claude()
        read(reader, begins(), result(permission_denials=denials))

        assert len(reader.warnings) == 1
        assert "'Bash'" in reader.warnings[0]


class TestCodex:
    def test_a_whole_reply(self) -> None:
        """The last message is the answer, those before are reasoning; a connection that was tried again is none."""
        reader = codex()

        assert read(reader, *CODEX_STREAM) == ("Grüße, 😀!", "**Hm** 🤔\nFirst I look.\n")
        assert (reader.session, reader.ended, reader.failure, reader.usage) == ("t1", True, None, Usage(20, 7, 5))

    def test_a_message_without_an_end_of_the_turn_is_told_and_no_success(self) -> None:
        """What had come is kept."""
        reader = codex()

        assert read(reader, message("Hello")) == ("Hello", "")
        assert not reader.ended

    def test_a_failed_turn_is_a_failure_with_what_had_come(self) -> None:
        """The partial text is no success."""
        reader = codex()
        failed = {
            "type": "turn.failed",
            "error": {"message": "exceeded retry limit, last status: 429 Too Many Requests"},
        }

        assert read(reader, message("Hello"), failed) == ("Hello", "")
        assert reader.failure is not None
        assert (reader.ended, reader.failure.kind) == (True, "rate_limit")

    def test_a_limit_with_the_time_to_wait(self) -> None:
        reader = codex()
        read(
            reader,
            {"type": "turn.failed", "error": {"message": "You've hit your usage limit. Try again in 5 minutes."}},
        )

        assert reader.failure is not None
        assert (reader.failure.kind, reader.failure.retry_after) == ("rate_limit", 300.0)

    @pytest.mark.parametrize(
        "event",
        [
            item("command_execution", "started", command="rm -rf /"),
            item("file_change", changes=[{"path": "x", "kind": "add"}]),
            item("web_search", "started", query="x"),
            item("mcp_tool_call", "started", server="notes", tool="find", arguments={}),
            item("collab_tool_call", "started", tool="spawn_agent"),
        ],
        ids=lambda event: event["item"]["type"],
    )
    def test_a_tool_that_is_not_allowed_ends_the_reading(self, event: Event) -> None:
        """Codex can't be told to have none, so it is held to it; skipped permissions change nothing of that."""
        for reader in (codex(), codex(dangerously_skip_permissions=True)):
            assert read(reader, event, message("Done."), COMPLETED)[0] == ""
            assert reader.wrong is not None
            assert reader.wrong.code == "not_allowed"

    def test_a_tool_that_is_allowed_is_told_once(self) -> None:
        reader = codex(tools=("shell", "mcp__notes__find"), mcp_servers=(SERVER,))
        call = {"server": "notes", "tool": "find", "arguments": {"q": "x"}}
        events = (
            item("command_execution", "started", command="ls"), item("command_execution", command="ls"),
            item("mcp_tool_call", "started", **call), item("mcp_tool_call", **call), message("Done."), COMPLETED,
        )  # fmt: skip

        assert read(reader, *events) == ("Done.", '[shell ls]\n[mcp__notes__find {"q": "x"}]\n')

    def test_work_of_a_kind_that_is_not_known_is_a_warning(self) -> None:
        """A list of what it is about to do is none."""
        reader = codex()
        read(reader, item("todo_list", items=[]), item("telepathy"), message("Hello"), COMPLETED)

        assert reader.warnings == ["codex did something of a kind that is not known here: 'telepathy'"]

    def test_settings_for_older_versions_are_no_warning(self) -> None:
        """It complains of each that it does not know; one that is to keep something off is worth a word."""
        words = "Codex is ignoring 1 unrecognized configuration setting.\n  session-flags: `{}` is ignored."
        for name, warnings in (("tools.view_image", 0), ("features.shell_tool", 1)):
            reader = codex()
            read(reader, item("error", message=words.format(name)), message("Hello"), COMPLETED)

            assert len(reader.warnings) == warnings

    def test_of_a_session_that_goes_on_it_counts_what_is_new(self) -> None:
        """Codex adds up the tokens of the whole session."""
        total = {"input_tokens": 50, "output_tokens": 10, "cached_input_tokens": 8}
        for before, used in ((Usage(20, 7, 5), Usage(30, 3, 3)), (Usage(60, 7, 5), Usage(50, 10, 8))):
            reader = codex()
            reader.before = before
            read(reader, message("Hello"), {"type": "turn.completed", "usage": total})

            assert (reader.usage, reader.total) == (used, Usage(50, 10, 8))

    def test_an_error_of_an_item_is_a_warning(self) -> None:
        """It ends nothing."""
        reader = codex()
        read(reader, item("error", message="the model is unknown"), message("Hello"), COMPLETED)

        assert reader.warnings == ["codex says: the model is unknown"]
        assert reader.failure is None


class TestWhatCanNotBeBelieved:
    @pytest.mark.parametrize("make", [claude, codex])
    @pytest.mark.parametrize(
        "line", ['{"type": "result", "is_error": fal', '{"a": 1, "a": 2}', '{"a": NaN}', '{"a": ' + "[" * 5000]
    )
    def test_a_line_that_begins_like_an_event_and_is_none(self, make: Callable[[], EventReader], line: str) -> None:
        """It may have been what the reply is about. What came before it is kept; what comes after it does not count."""
        reader = make()
        read(reader, line, result(result="Hello"), message("Hello"), COMPLETED)

        assert reader.wrong is not None
        assert (reader.wrong.kind, reader.ended) == ("bad_output", False)

    @pytest.mark.parametrize("make", [claude, codex])
    def test_a_part_that_counts_and_is_of_another_type(self, make: Callable[[], EventReader]) -> None:
        reader = make()
        read(
            reader,
            stream(type="content_block_delta", delta={"type": "text_delta", "text": 5}),
            item("agent_message", text=5),
        )

        assert reader.wrong is not None
        assert reader.wrong.kind == "bad_output"

    def test_a_line_that_never_ends(self) -> None:
        """It is refused before its end, so that it fills no memory; what stood before it is read."""
        reader = ClaudeReader(ClaudeOptions(), longest_line=1000)
        outputs = reader.feed(written(starts("m1"), text("Hello")) + b'{"a": "' + b"x" * 2000)

        assert told(outputs) == ("Hello", "")
        assert reader.wrong == Failure("claude wrote a message of more than 1,000 bytes", kind="bad_output")
        assert reader.feed(written(text("more"))) == ()

    def test_a_last_line_without_its_end_counts_if_it_is_whole(self) -> None:
        """A program may end without a line break."""
        whole, cut = claude(), claude()
        whole.feed(written(result(result="Hello"))[:-1])
        cut.feed(written(result(result="Hello"))[:-3])

        assert told(whole.finish()) == ("Hello", "")
        assert told(cut.finish()) == ("", "")
        assert (whole.ended, cut.ended, whole.wrong, cut.wrong is None) == (True, False, None, False)

    def test_a_reply_that_is_too_long(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("runtime.programs._events.LONGEST_REPLY", 10)
        reader = claude()

        assert read(reader, starts("m1"), text("12345"), text("6789012"), result()) == ("12345", "")
        assert reader.wrong is not None


@given(st.text(st.characters(codec=None), max_size=10), st.data())
def test_halves_of_characters_are_put_together(words: str, data: st.DataObject) -> None:
    """However a text is cut, even within a character, it is the same; a half that stays alone is replaced."""
    units = words.encode("utf-16-le", "surrogatepass")
    expected = units.decode("utf-16-le", "replace")
    places = sorted(data.draw(st.sets(st.integers(0, len(units) // 2), max_size=5)))
    edges = [0, *(2 * place for place in places), len(units)]
    pieces = [units[a:b].decode("utf-16-le", "surrogatepass") for a, b in pairwise(edges)]
    joined = SurrogateJoiner()

    assert "".join(joined.feed(piece) for piece in pieces) + joined.finish() == expected
