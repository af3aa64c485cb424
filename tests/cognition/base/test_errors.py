"""What is told to programs and models that get something wrong, to the word: what it is, and what would do."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from cognition import (
    AgentConfig,
    AgentState,
    CodecError,
    CogstepError,
    ConfigError,
    GenerationOptions,
    Image,
    Input,
    Limits,
    LLMEngine,
    Plan,
    Question,
    RetryPolicy,
    Rule,
    Task,
    ToolCall,
    ToolSpec,
    WorkerSpec,
    from_data,
    json_schema,
    to_data,
)
from cognition.steps.engine_tools import read_plan, read_questions, read_tasks, read_text, read_worker

QUESTION = {"question": "?", "options": ["a", "b"]}
UNTITLED = {**QUESTION, "question": " "}
WRONG_TOOL = {"name": "a", "parameters": 5}
NO_TYPE = "the second argument has to be a type, such as AgentState or Input"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Limits(steps=0), "Limits.steps must be above 0, not 0"),
        (lambda: Limits(cost=-0.5), "Limits.cost must be above 0, not -0.5"),
        (lambda: RetryPolicy(attempts=0), "RetryPolicy.attempts must be above 0, not 0"),
        (lambda: GenerationOptions(temperature=2.5), "temperature must be between 0 and 2, not 2.5"),
        (lambda: GenerationOptions(top_p=0), "top_p must be above 0 and at most 1, not 0.0"),
        (lambda: GenerationOptions(min_p=float("nan")), "min_p must be between 0 and 1, not nan"),
        (
            lambda: GenerationOptions(logit_bias=((3, 101.0),)),
            "logit_bias must have tokens from 0 and biases between -100 and 100, not (3, 101.0)",
        ),
        (
            lambda: GenerationOptions(logit_bias=((3, -100.5),)),
            "logit_bias must have tokens from 0 and biases between -100 and 100, not (3, -100.5)",
        ),
        (
            lambda: GenerationOptions(logit_bias=((-1, 1.0),)),
            "logit_bias must have tokens from 0 and biases between -100 and 100, not (-1, 1.0)",
        ),
        (
            lambda: AgentConfig(tools=(ToolSpec("b"), ToolSpec("a"), ToolSpec("a"))),
            "two tools are named 'a'; give one of them another name",
        ),
        (
            lambda: AgentConfig(options=GenerationOptions(max_tokens=512), context_tokens=512),
            "options.max_tokens (512) leaves no room for a prompt in a context of 512 tokens; "
            "lower it or use a longer context",
        ),
        (
            lambda: AgentConfig(options=GenerationOptions(tool_choice="write")),
            "options.tool_choice 'write' is neither one of auto, none, required nor the name of a tool",
        ),
        (
            lambda: AgentConfig(options=GenerationOptions(tool_choice="required")),
            "options.tool_choice is 'required', and there are no tools",
        ),
        (
            lambda: AgentConfig(protocol="short_keys", options=GenerationOptions(tool_choice="none")),
            "with the text protocol 'short_keys' replies are text of their own form: leave tool_choice and "
            "response_format alone, or use protocol='native'",
        ),
        (
            lambda: GenerationOptions(response_format="[]"),
            "a JSON Schema has to be a JSON object: it is no object",
        ),
        (lambda: Question("?", ("a",)), "the options of a question must be 2 to 4, not 1"),
        (lambda: Question("?", ("a", "a")), "the options of a question must differ"),
        (lambda: ToolSpec("a b"), "tool name 'a b': use 1 to 64 letters, digits, '_', '-' or '.'"),
        (lambda: Rule("deny", "a*b"), "rule pattern 'a*b': '*' at 1 stands at the end of a name only; write 'a*'"),
        (
            lambda: ToolCall("c", "t", {"a": float("nan")}),
            "tool arguments must be JSON values: Out of range float values are not JSON compliant",
        ),
        (
            lambda: Image("image/png", b"\x89PNG"),  # type: ignore[arg-type]  # the mistake itself
            "an image's data have to be a text in base64; Image.of() takes bytes",
        ),
        (
            lambda: Image.of(b"%PDF-1.7"),
            "these bytes are no image of a kind that can be sent: image/png, image/jpeg, image/gif, image/webp",
        ),
        (lambda: to_data(1, 5), f"to_data(value, kind): {NO_TYPE}, not 5"),
        (lambda: from_data(1, 5), f"from_data(data, kind): {NO_TYPE}, not 5"),
        (lambda: from_data(1, {"a": 1}), f"from_data(data, kind): {NO_TYPE}, not a dict"),
        (lambda: json_schema(bytes), "<class 'bytes'> is no type that the codec writes"),
        (lambda: read_questions({}), "'questions' must be an array of objects"),
        (lambda: read_questions({"questions": ["?"]}), "'questions' must be an array of objects"),
        (lambda: read_questions({"questions": []}), "ask 1 to 4 questions, not 0"),
        (lambda: read_questions({"questions": [QUESTION] * 5}), "ask 1 to 4 questions, not 5"),
        (
            lambda: read_questions({"questions": [UNTITLED]}),
            "'question' must be a text that is not empty",
        ),
        (lambda: read_questions({"questions": [{**QUESTION, "options": "ab"}]}), "'options' must be an array of texts"),
        (lambda: read_questions({"questions": [{"question": "?"}]}), "'options' must be an array of texts"),
        (lambda: read_tasks({"tasks": "x"}), "'tasks' must be an array of objects"),
        (lambda: read_tasks({"tasks": [{"status": "open"}]}), "'title' must be a text that is not empty"),
        (lambda: read_tasks({"tasks": [{"title": "a"}]}), "'status' must be one of open, in_progress, done"),
        (
            lambda: read_tasks({"tasks": [{"title": "a", "status": "in_progress"}] * 2}),
            "at most one task can be in progress",
        ),
        (lambda: read_plan({}), "'steps' must be an array of texts"),
        (lambda: read_plan({"steps": []}), "a plan needs at least one step"),
        (lambda: read_text({"text": ""}, "text"), "'text' must be a text that is not empty"),
        (lambda: read_worker({"objective": "b"}), "'name' must be a text that is not empty"),
        (lambda: read_worker({"name": "a"}), "'objective' must be a text that is not empty"),
        (lambda: read_worker({"name": "a", "objective": "b", "tools": [1]}), "'tools' must be an array of texts"),
        (lambda: read_worker({"name": "a", "objective": "b", "after": "c"}), "'after' must be an array of texts"),
    ],
)
def test_a_mistake_is_named_with_what_would_do(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()

    assert message == str(caught.value).partition(": nan")[0]


def test_arguments_at_the_border_are_read() -> None:
    """As many questions as may be, one task in progress, lists that may be left out, flags that are really true."""
    both = Question("?", ("a", "b"), True), Question("?", ("a", "b"))
    entries = [{**QUESTION, "multiple": True}, {**QUESTION, "multiple": 1}, QUESTION, {**QUESTION, "multiple": False}]

    assert (both[0], both[1], both[1], both[1]) == read_questions({"questions": entries})
    assert (both[1],) == read_questions({"questions": [QUESTION]})
    tasks = (Task("a", "in_progress"), Task("b", "done"), Task("c", "open"))
    assert tasks == read_tasks({"tasks": [{"title": task.title, "status": task.status} for task in tasks]})
    assert read_tasks({"tasks": []}) == ()
    assert read_plan({"steps": ["a"]}) == Plan(("a",))
    assert read_worker({"name": "a", "objective": "b"}) == WorkerSpec("a", "b")
    assert WorkerSpec("a", "b", ("t",), ("w",)) == read_worker(
        {"name": "a", "objective": "b", "tools": ["t"], "after": ["w"]}
    )
    assert AgentConfig(context_tokens=513).context_tokens == 513
    assert GenerationOptions(logit_bias=((0, -100.0), (1, 100.0))).logit_bias == ((0, -100.0), (1, 100.0))
    assert len(Question("?", ("a", "b", "c", "d")).options) == 4


def test_a_step_with_something_else_says_what_it_takes() -> None:
    with pytest.raises(CogstepError) as caught:
        LLMEngine().step(AgentState(), "Hello")  # type: ignore[arg-type]  # the mistake itself

    assert str(caught.value) == (
        "step takes a state and an input, not Idle and str; the inputs are in cognition.steps.inputs"
    )
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("data", "kind", "problem"),
    [
        ({"type": "user_spoke"}, Input, ("$.text", "the field is missing")),
        ({"type": "user_spoke", "text": 5}, Input, ("$.text", "expected str, got int")),
        ({"type": "user_spoke", "text": "a", "at": "x"}, Input, ("$.at", "expected float, got str")),
        ({"type": "user_spoke", "text": "a", "x": 1}, Input, ("$.x", "unknown field")),
        ([], Input, ("$", "expected an object, got list")),
        ({"remembered": "x"}, AgentState, ("$.remembered", "expected an array, got str")),
        ({"history": {}}, AgentState, ("$.history", "expected an array, got dict")),
        (
            {"tools": [WRONG_TOOL]},
            AgentConfig,
            ("$.tools[0].parameters", "expected an object, got int"),
        ),
        ({"counters": []}, AgentState, ("$.counters", "expected an object, got list")),
        ([], dict[str, int], ("$", "expected an object")),
    ],
)
def test_wrong_data_has_one_problem_at_one_place(data: Any, kind: Any, problem: tuple[str, str]) -> None:
    with pytest.raises(CodecError) as caught:
        from_data(data, kind)

    assert (problem,) == caught.value.problems
    assert f"{problem[1]} @ {problem[0]}" == str(caught.value)
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("data", "beginning"),
    [
        ({"type": "no"}, "unknown type 'no'; expected one of: user_spoke, model_replied, "),
        ({"text": "a"}, "the field 'type' is missing; expected one of: user_spoke, model_replied, "),
        ({"type": ["a"]}, "unknown type ['a']; expected one of: user_spoke, model_replied, "),
    ],
)
def test_a_wrong_tag_is_told_with_all_right_ones(data: Any, beginning: str) -> None:
    with pytest.raises(CodecError) as caught:
        from_data(data, Input)

    ((path, problem),) = caught.value.problems
    assert path == "$"
    assert problem.startswith(beginning)
    assert problem.endswith(", shutdown_asked")


def test_all_problems_stand_in_one_line() -> None:
    with pytest.raises(CodecError) as caught:
        from_data({"type": "model_replied", "effect_id": 5, "y": 1, "x": 1}, Input)

    assert str(caught.value) == "expected str, got int @ $.effect_id; unknown field @ $.x; unknown field @ $.y"


class FileError(CogstepError, OSError):
    """One with a constructor of its own, like those of the runtime."""

    def __init__(self, path: str) -> None:
        OSError.__init__(self, None, "it is a link")
        self.path = path


@pytest.mark.parametrize("error", [ConfigError("a"), CodecError(("$", "b"), ("$.x", "c")), FileError("d")], ids=repr)
def test_an_error_is_copied_with_its_attributes(error: CogstepError) -> None:
    error.add_note("a note")
    for again in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert (type(again), again.args, vars(again)) == (type(error), error.args, vars(error))
        assert str(again) == str(error)
        if isinstance(error, OSError):
            assert again.strerror == "it is a link"
