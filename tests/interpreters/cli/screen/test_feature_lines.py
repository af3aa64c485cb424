"""What the command line has of modes, approvals, questions, plans, tasks, notes, workers, protocols and sampling."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cognition import GenerationOptions, Limits, ModelRequest, Question
from interpreters import Agent, fakes, replay, tool
from interpreters.cli.session._questions import labels, read_choice, read_review
from interpreters.loop.program.questions import PlanAnswer
from interpreters.testing.fakes import call
from tests.interpreters.cli.processes import Cogstep, OnTerminal, scripted
from tests.interpreters.cli.test_own_tools import MY_TOOLS
from tests.interpreters.cli.test_waiting import signalled
from tests.interpreters.secrets import KEY

QUESTIONS: Any = [
    {"question": "How large?", "options": ["small", "large"]},
    {"question": "Which colours?", "options": ["red", "green", "blue"], "multiple": True},
]
ASKS: Any = call("ask_user", questions=QUESTIONS)
ONE: Any = call("ask_user", questions=[{"question": "How large?", "options": ["small", "large"]}])
PLANS: Any = call("submit_plan", steps=["look", "leap"])
ORDER: Any = call("order", item="plum")


def heard(request: ModelRequest) -> str:
    """A reply that repeats the newest message."""
    newest = request.messages[-1]
    return str(getattr(newest, "content", "") or getattr(newest, "text", ""))


@pytest.fixture
def my_tools(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "my_tools.py").write_text(MY_TOOLS)
    return ("--tools", "my_tools:TOOLS")


# ---------------------------------------------------------------------------------------------------------- questions

SIZES = Question("How large?", ("small", "large"))
COLOURS = Question("Which?", ("red", "green", "blue"), multiple=True)
NUMBERS = Question("How many?", ("2", "3"))

CHOICES: list[tuple[Question, str, tuple[str, ...] | None]] = [
    (SIZES, "1", ("small",)),
    (SIZES, " 2 ", ("large",)),
    (SIZES, "LARGE", ("large",)),
    (SIZES, "3", None),
    (SIZES, "0", None),
    (SIZES, "", None),
    (SIZES, " ", None),
    (SIZES, "1, 2", ("1, 2",)),
    (SIZES, "medium, please", ("medium, please",)),
    (SIZES, "9" * 5000, ("9" * 5000,)),
    (SIZES, "²", ("²",)),
    (COLOURS, "3,1", ("red", "blue")),
    (COLOURS, "1,1", ("red",)),
    (COLOURS, "blue, 1", ("red", "blue")),
    (COLOURS, "1,", ("red",)),
    (COLOURS, ",", None),
    (COLOURS, "1,4", None),
    (COLOURS, "pink and red", ("pink and red",)),
    (NUMBERS, "a", ("2",)),
    (NUMBERS, "2", ("2",)),
    (NUMBERS, "4", ("4",)),
    (NUMBERS, "", None),
]


@pytest.mark.parametrize(("question", "line", "expected"), CHOICES)
def test_a_line_is_an_option_or_an_answer_of_ones_own(
    question: Question, line: str, expected: tuple[str, ...] | None
) -> None:
    """By label or word. A digit that is no label is asked again; where options are numbers, labels are letters."""
    assert expected == read_choice(question, line)
    assert labels(question)[0] == ("a" if question is NUMBERS else "1")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("y", PlanAnswer(True)),
        ("YES", PlanAnswer(True)),
        ("n", PlanAnswer(False)),
        ("no", PlanAnswer(False)),
        ("yes, but slower", PlanAnswer(False, "yes, but slower")),
        ("not yet", PlanAnswer(False, "not yet")),
        ("", None),
    ],
)
def test_only_a_plain_yes_approves_a_plan(line: str, expected: PlanAnswer | None) -> None:
    assert expected == read_review(line)


def test_questions_are_answered_at_the_terminal(on_terminal: OnTerminal) -> None:
    """One after the other, and asked again until it is an answer."""
    script = scripted(f"replies = [call('ask_user', questions={QUESTIONS}), 'Thanks.']")
    typed = [("words: ", "7\n"), ("words: ", "2\n"), ("words: ", "blue,1\n")]
    screen, code = on_terminal("run", "A shirt", "--ask", "--no-tools", command=script, typed=typed)

    assert (code, "Thanks." in screen) == (0, True), screen
    assert "? (1 of 2) How large?" in screen
    assert "  3  blue\n" in screen
    assert "How large? large\n  Which colours? red, blue" in screen


def test_a_model_asks_by_the_names_that_it_knows(on_terminal: OnTerminal, tmp_path: Path) -> None:
    """With the heading and what the options mean; and the recording says which names they were."""
    options = "[{'label': 'small', 'description': 'fits nobody'}, {'label': 'large'}]"
    asked = f"[{{'question': 'How large?', 'header': 'Size', 'options': {options}}}]"
    tasks = "[{'content': 'Sew', 'status': 'in_progress', 'activeForm': 'Sewing'}]"
    script = scripted(
        f"replies = [call('AskUserQuestion', questions={asked}), call('TodoWrite', todos={tasks}), 'Ok.']"
    )
    begun = ("run", "A shirt", "--features", "questions,tasks", "--names", "claude", "--no-tools")
    screen, code = on_terminal(*begun, "--record", "s.jsonl", command=script, typed=[("words: ", "2\n")])

    assert (code, "Ok." in screen) == (0, True), screen
    assert "? Size: How large?" in screen
    assert "\n  1  small: fits nobody\n  2  large\n" in screen
    assert "How large? large" in screen
    assert "• tasks\n  [>] Sew\n" in screen
    assert "The list of tasks is updated" not in screen
    assert replay(tmp_path / "s.jsonl").same


def test_questions_that_nobody_can_answer_wait_in_the_recording(here: Cogstep, tmp_path: Path) -> None:
    """And are answered in another process, with words or by number."""
    done = here("run", "A shirt", "--ask", "--no-tools", "--record", "s.jsonl", replies=[ASKS])
    assert (done.returncode, done.stdout) == (1, "")
    assert "1.1.1 waits for your answer: How large? (small / large)" in done.stderr
    before = (tmp_path / "s.jsonl").read_bytes()
    for wrong in ("1", '["1"]', '["1", 2]', "[", '["1", "7"]'):
        done = here("resume", "s.jsonl", "--answer", f"1.1.1={wrong}", replies=[])
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert "for each of 2 questions, as a JSON list" in done.stderr
    assert before == (tmp_path / "s.jsonl").read_bytes()

    done = here("resume", "s.jsonl", "--answer", '1.1.1=["1", "pink"]', replies=[heard])

    assert (done.returncode, done.stdout) == (0, "How large? small\nWhich colours? pink\n")
    assert replay(tmp_path / "s.jsonl").same


KEPT = [
    ("call('ask_user', questions=[{'question': 'How large?', 'options': ['s', 'l']}])", "words: ", "2\n", "l"),
    ("call('submit_plan', steps=['look'])", "change: ", "y\n", "The plan is approved."),
]


@pytest.mark.parametrize(("asks", "prompt", "answer", "expected"), KEPT)
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_at_a_question_or_a_plan_keeps_it(
    asks: str, prompt: str, answer: str, expected: str, name: str, code: int, on_terminal: OnTerminal, tmp_path: Path
) -> None:
    """It is asked again at the resume; without a recording the turn is cancelled."""
    script = f"replies = [{asks}]"
    options = ("run", "?", "--no-tools", "--features", "questions,plan")
    screen, ended = on_terminal(*options, "--record", "s.jsonl", command=scripted(script, signalled(name)))
    assert (ended, "go on with: cogstep resume s.jsonl" in screen, "! cancelled" in screen) == (code, True, False)

    done = scripted("replies = [lambda request: request.messages[-1].content]")
    screen, ended = on_terminal("resume", "s.jsonl", command=done, typed=[(prompt, answer)])
    assert (ended, expected in screen) == (0, True), screen
    assert replay(tmp_path / "s.jsonl").same

    screen, ended = on_terminal(*options, command=scripted(script, signalled(name)))
    assert (ended, "! cancelled" in screen) == (code, True), screen


def test_questions_without_a_terminal_and_a_recording_cancel_the_turn(here: Cogstep) -> None:
    done = here("run", "A shirt", "--ask", "--no-tools", replies=[ONE])

    assert (done.returncode, done.stdout) == (130, "")
    assert "! cancelled" in done.stderr


def test_a_plan_is_reviewed_and_followed_on_a_terminal(on_terminal: OnTerminal) -> None:
    """With what is to change; its steps and the tasks are shown at each change, and by the chat's commands."""
    script = scripted("""
        replies = [
            call("enter_plan_mode"),
            call("submit_plan", steps=["leap"]),
            call("submit_plan", steps=["look", "leap"]),
            call("finish_step"),
            call("update_tasks", tasks=[{"title": "look", "status": "done"}, {"title": "rest", "status": "open"}]),
            "All set.",
        ]
    """)
    typed = [("> ", "go\n"), ("change: ", "look first\n"), ("change: ", "y\n")]
    typed += [("All set.", "/plan\n"), ("> ", "/quit\n")]
    command = ("chat", "--features", "plan,tasks", "--no-tools")
    screen, code = on_terminal(*command, command=script, typed=typed, NO_COLOR="1")

    assert code == 0
    for expected in (
        "• mode: plan\n",
        "  1. look\n  2. leap\n[y]es",
        "refused: The user wants another plan: look first",
        "• plan\n  [>] 1. look\n  [ ] 2. leap\n• mode: default\n• plan\n  [x] 1. look\n  [>] 2. leap\n",
        "• tasks\n  [x] look\n  [ ] rest\n",
    ):
        assert expected in screen, screen
    assert screen.count("  [x] 1. look\n  [>] 2. leap\n") == 2
    assert "The list of tasks is updated" not in screen


@pytest.mark.parametrize("ahead", ["y", "2"])
def test_what_was_typed_before_a_question_stands_there_is_no_answer(ahead: str, on_terminal: OnTerminal) -> None:
    """Neither to a plan nor to a question of the model's."""
    script = scripted("""
        def heard(request):
            return f"heard: {request.messages[-1].content}"

        question = {"question": "How large?", "options": ["small", "large"]}
        replies = [call("ask_user", questions=[question]), call("enter_plan_mode"), call("submit_plan", steps=["leap"])]
        replies.append(heard)
    """)
    typed = [("> ", f"go\n{ahead}\n"), ("words: ", "medium\ny\n"), ("change: ", "look first\n"), ("heard", "/quit\n")]
    command = ("chat", "--features", "plan,questions", "--no-tools")
    screen, code = on_terminal(*command, command=script, typed=typed, NO_COLOR="1")

    assert (code, "How large? medium" in screen) == (0, True), screen
    assert "The user wants another plan: look first" in screen, screen


def test_a_plan_that_nobody_can_review_is_refused_or_waits(here: Cogstep) -> None:
    done = here("run", "?", "--features", "plan", "--no-tools", replies=[PLANS, heard])
    assert (done.returncode, "nobody is here to review it" in done.stdout) == (0, True)
    done = here("run", "?", "--features", "plan", "--no-tools", "--record", "s.jsonl", replies=[PLANS])
    assert (done.returncode, "waits for your word on its plan: look / leap" in done.stderr) == (1, True)
    done = here("resume", "s.jsonl", "--answer", "1.1.1=slower", replies=[heard])
    assert (done.returncode, done.stdout) == (0, "The user wants another plan: slower\n")


# ------------------------------------------------------------------------------------------------- approvals and modes

APPROVALS: list[tuple[tuple[str, ...], str]] = [
    ((), "nobody is here to approve it"),
    (("--approve", "none"), "nobody is here to approve it"),
    (("--approve", "all"), "plum is on its way"),
    (("--yes",), "plum is on its way"),
    (("--approve", "judges:cheap"), "plum is on its way"),
    (("--approve", "judges:never"), "too dear"),
    (("--mode", "auto"), "plum is on its way"),
    (("--mode", "plan", "--yes"), "only read-only tools run while planning"),
]
JUDGES = """
from interpreters import Approval
def cheap(request): return request.call.arguments["item"] == "plum"
def never(request): return Approval(False, "too dear")
def unsure(request): return "yes"
def leaves(request): raise SystemExit(0)
word = "yes"
"""


@pytest.mark.parametrize(("options", "expected"), APPROVALS)
def test_who_is_asked_is_an_option(
    options: tuple[str, ...], expected: str, here: Cogstep, my_tools: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "judges.py").write_text(JUDGES)

    done = here("run", "?", *my_tools, *options, replies=[ORDER, heard])

    assert (done.returncode, expected in done.stdout) == (0, True), done.stdout
    assert (tmp_path / "ordered").exists() == ("on its way" in expected)
    assert (REFUSED in done.stderr) == (options == ())  # whoever says --approve none has said it


REFUSED = "a call was refused, since nobody was here to approve it; --approve all lets such calls run"


def test_a_call_that_nobody_could_be_asked_about_is_told_with_the_option_that_lets_it_run(
    here: Cogstep, my_tools: tuple[str, ...]
) -> None:
    """The turn was answered, and so the code is 0: once a turn, each tool once, and beside JSON lines too."""
    replies = [ORDER, ORDER, heard, "Hello.", ORDER, heard]

    done = here("chat", *my_tools, replies=replies, input="order\nhi\norder\n")
    assert done.returncode == 0
    assert done.stderr.count(f"! {REFUSED}") == 2
    assert done.stderr.count(": order\n") == 2

    done = here("run", "?", *my_tools, "--json", replies=[ORDER, heard])
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert REFUSED in done.stderr


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--approve", "ask"), "needs a terminal"),
        (("--approve", "later"), "give --record FILE"),
        (("--approve", "perhaps"), "expected ask, all, none, later or MODULE:NAME"),
        (("--approve", "judges:word"), "is no function"),
        (("--approve", "judges:nobody"), "there is no 'nobody' in"),
        (("--approve", "all", "--yes"), "not allowed with"),
        (("--mode", "wild"), "invalid choice: 'wild'"),
        (("--features", "plan,x"), "there is no feature 'x'"),
        (("--features", "memory"), "give --notes FILE"),
        (("--protocol", "x"), "invalid choice: 'x'"),
        (("--top-p", "0"), "above 0 and at most 1"),
        (("--min-p", "nan"), "from 0 to 1"),
    ],
)
def test_a_wrong_word_is_refused_before_a_model_is_loaded(
    options: tuple[str, ...], expected: str, here: Cogstep, my_tools: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "judges.py").write_text(JUDGES)

    done = here("run", "?", *my_tools, *options, replies=[])

    assert (done.returncode, done.stdout, expected in done.stderr) == (2, "", True), done.stderr


def test_a_judge_that_gives_no_answer_lets_nothing_run(
    here: Cogstep, my_tools: tuple[str, ...], tmp_path: Path
) -> None:
    """A text is no approval, whatever it says."""
    (tmp_path / "judges.py").write_text(JUDGES)

    here("run", "?", *my_tools, "--approve", "judges:unsure", replies=[ORDER, heard])

    assert not (tmp_path / "ordered").exists()


def test_a_judge_that_ends_the_program_is_told_by_its_line(
    here: Cogstep, my_tools: tuple[str, ...], tmp_path: Path
) -> None:
    """As at an import, and not with a traceback; what it was asked waits in the recording."""
    (tmp_path / "judges.py").write_text(JUDGES)

    done = here("run", "?", *my_tools, "--approve", "judges:leaves", "--record", "s.jsonl", replies=[ORDER, heard])

    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert "your own code ended the program (judges.py, line 6)" in done.stderr
    assert not (tmp_path / "ordered").exists()


def test_an_approval_that_waits_is_not_lost_where_nobody_can_give_it(
    here: Cogstep, my_tools: tuple[str, ...], tmp_path: Path
) -> None:
    """A resume without a terminal says again what waits; two answers to one question are none."""
    here("run", "?", *my_tools, "--approve", "later", "--record", "s.jsonl", replies=[ORDER])
    before = (tmp_path / "s.jsonl").read_bytes()

    for more in ((), ("And?",)):
        done = here("resume", "s.jsonl", *more, *my_tools, replies=[])
        assert (done.returncode, done.stdout) == (1, "")
        assert "1.1.1 waits for your approval" in done.stderr
    done = here("resume", "s.jsonl", *my_tools, "--answer", "1.1.1=yes", "--answer", "1.1.1=no", replies=[])
    assert (done.returncode, "1.1.1 is answered twice" in done.stderr) == (2, True)

    assert (tmp_path / "s.jsonl").read_bytes() == before
    assert not (tmp_path / "ordered").exists()
    assert here("resume", "s.jsonl", *my_tools, "--approve", "none", replies=[heard]).returncode == 0


def test_an_approval_can_wait_and_is_given_later(here: Cogstep, my_tools: tuple[str, ...], tmp_path: Path) -> None:
    """The call runs once, in the process that has the answer."""
    done = here("run", "?", *my_tools, "--approve", "later", "--record", "s.jsonl", replies=[ORDER])
    assert (done.returncode, '1.1.1 waits for your approval of order(item="plum")' in done.stderr) == (1, True)
    for wrong in ("maybe", "", "y es"):
        assert here("resume", "s.jsonl", *my_tools, "--answer", f"1.1.1={wrong}", replies=[]).returncode == 2
    assert here("resume", "s.jsonl", "--answer", "1.1.1", replies=[]).returncode == 2
    assert not (tmp_path / "ordered").exists()

    done = here("resume", "s.jsonl", *my_tools, "--answer", "1.1.1=yes", replies=[heard])

    assert (done.returncode, done.stdout) == (0, "plum is on its way\n")
    assert (tmp_path / "ordered").read_text() == "plum"
    assert replay(tmp_path / "s.jsonl").same


def test_a_mode_is_set_at_a_resume_and_in_a_fork(here: Cogstep, my_tools: tuple[str, ...], tmp_path: Path) -> None:
    """And stays as recorded without a word."""
    here("run", "Hi", *my_tools, "--record", "s.jsonl", "--mode", "careful", replies=["Hello."])
    assert replay(tmp_path / "s.jsonl").state.mode == "careful"
    done = here("resume", "s.jsonl", "?", *my_tools, "--mode", "auto", replies=[ORDER, heard])
    assert done.stdout == "plum is on its way\n"
    assert replay(tmp_path / "s.jsonl").state.mode == "auto"
    for options, expected in (((), "plum is on its way"), (("--mode", "plan"), "read-only tools")):
        done = here("fork", "s.jsonl", "?", *my_tools, *options, replies=[ORDER, heard])
        assert expected in done.stdout


def test_a_mode_is_set_before_an_interrupted_turn_goes_on(
    here: Cogstep, my_tools: tuple[str, ...], tmp_path: Path
) -> None:
    """So the calls that are still to come are judged by it."""
    path = tmp_path / "s.jsonl"
    here("run", "?", *my_tools, "--record", "s.jsonl", replies=["Hello."])
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))

    done = here("resume", "s.jsonl", *my_tools, "--mode", "plan", "--yes", replies=[ORDER, heard])

    assert (done.returncode, "only read-only tools run" in done.stdout) == (0, True), done.stderr
    assert not (tmp_path / "ordered").exists()
    assert replay(path).same


def test_what_was_too_long_is_read_on_in_the_recording(here: Cogstep, tmp_path: Path) -> None:
    """The tool is offered where it is named, and only with a recording; at a resume it is there again."""
    (tmp_path / "long.txt").write_text("".join(f"line {number}\n" for number in range(9000)))
    replies = [call("Read", path="long.txt"), call("ReadOutput", offset=50_000, limit=20), heard]
    asked = ("run", "?", "--tools", "Read,ReadOutput")

    done = here(*asked, "--record", "s.jsonl", "--context", "8000", replies=replies)
    assert (done.returncode, done.stderr.count("characters left out")) == (0, 0), done.stderr
    assert re.search(r"\n\[characters 50000 to 50020 of \d+; read on with offset=50020\]", done.stdout), done.stdout
    again = here("resume", "s.jsonl", "?", replies=[call("ReadOutput", limit=12), heard])
    assert "line 0\nline " in again.stdout, again.stderr
    done = here(*asked, replies=[])
    assert (done.returncode, done.stderr) == (
        2,
        "cogstep: ReadOutput reads on in the recording of the session; give --record FILE\n",
    )


# ------------------------------------------------------------------------------------------------------------- a chat


def test_a_chat_has_commands_for_what_the_session_holds(here: Cogstep) -> None:
    """/tasks, /plan and /mode show and set; a path, and what has a space before it, goes to the model."""
    typed = (
        "/tasks\n/plan\n/mode\n/mode careful\n/mode\n/mode wild\n/answer 1.1.1 yes\n/cancel\n/usr/bin is full\n /no x\n"
    )

    done = here("chat", "--features", "tasks", replies=[heard, heard], input=typed)

    assert (done.returncode, done.stdout) == (0, "/usr/bin is full\n /no x\n")
    assert done.stderr.splitlines() == [
        "no tasks",
        "no plan",
        "mode: default; there are default, careful, auto, plan, acceptEdits, bypassPermissions",
        "• mode: careful",
        "mode: careful; there are default, careful, auto, plan, acceptEdits, bypassPermissions",
        "! there is no mode wild; there are default, careful, auto, plan, acceptEdits, bypassPermissions",
        "! write /answer ID ANSWER, and nothing waits for one",
        "nothing waits for an answer",
    ]


def test_a_chat_with_several_models_says_which_one_answers_and_takes_another(here: Cogstep, tmp_path: Path) -> None:
    """They are there again at a resume, by the names that they were given."""
    typed = "/model\n/model other.gguf\n/model\nhello\n/model wild\n/model own\n/model\n"

    done = here("chat", "--fallback", "other.gguf", "--record", "s.jsonl", replies=[heard], input=typed)
    again = here("resume", "s.jsonl", "and now?", replies=[heard])

    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
    refused = "! there is no model 'wild' beside the agent's own; there are other.gguf; own is the first one"
    first, other = ["* own", "  other.gguf"], ["  own", "* other.gguf"]
    assert done.stderr.splitlines() == [*first, *other, refused, *first]
    assert (again.returncode, again.stdout) == (0, "and now?\n"), again.stderr
    alone = here("chat", replies=[], input="/model\n/model wild\n/model own\n")
    assert alone.stderr.splitlines() == ["* own", "! there is no model 'wild': --fallback SPEC brings others"]


def test_a_chat_that_waits_takes_the_answer(here: Cogstep, my_tools: tuple[str, ...], tmp_path: Path) -> None:
    """A message meanwhile is not lost in an error that ends the chat: it says what waits."""
    typed = "go\nhello?\n/answer perhaps\n/answer yes\n/answer 1.1.1 yes\nthanks\n"
    replies = [ORDER, "On its way.", "Welcome."]

    done = here("chat", *my_tools, "--approve", "later", "--record", "s.jsonl", replies=replies, input=typed)

    assert (done.returncode, done.stdout) == (0, "On its way.\nWelcome.\n"), done.stderr
    assert done.stderr.count("! 1.1.1 waits for your approval of order") == 2
    assert "! 1.1.1 takes yes, no REASON, always RULE, never RULE or edit JSON, not 'perhaps'" in done.stderr
    assert (tmp_path / "ordered").read_text() == "plum"


def test_a_chat_that_waits_can_give_the_turn_up(here: Cogstep, my_tools: tuple[str, ...], tmp_path: Path) -> None:
    typed = "go\n/cancel\nhello?\n"
    done = here("chat", *my_tools, "--approve", "later", "--record", "s.jsonl", replies=[ORDER, "Hello."], input=typed)

    assert (done.returncode, done.stdout) == (0, "Hello.\n"), done.stderr
    assert not (tmp_path / "ordered").exists()


# --------------------------------------------------------------------------------------------------- notes and workers


def test_notes_are_kept_from_one_session_to_the_next(here: Cogstep, tmp_path: Path) -> None:
    saves: Any = [call("remember", text="The cat is named Miu."), "Noted."]
    done = here("run", "?", "--no-tools", "--notes", "n.db", "--record", "s.jsonl", replies=saves)
    assert (done.stdout, "• noted: The cat is named Miu." in done.stderr) == ("Noted.\n", True)

    done = here("run", "?", "--no-tools", "--notes", "n.db", replies=[call("recall", query="cats"), heard])
    assert done.stdout == "The cat is named Miu.\n"
    done = here("resume", "s.jsonl", "?", replies=[])
    assert (done.returncode, "give --notes FILE" in done.stderr) == (2, True)
    done = here("resume", "s.jsonl", "?", "--notes", "n.db", replies=[call("recall", query="cats"), heard])
    assert done.stdout == "The cat is named Miu.\n"
    done = here("fork", "s.jsonl", "?", "--notes", "n.db", replies=[call("recall", query="cats"), heard])
    assert done.stdout == "The cat is named Miu.\n"


def test_a_memory_is_kept_from_one_session_to_the_next(
    here: Cogstep, my_tools: tuple[str, ...], tmp_path: Path
) -> None:
    """What happened stands in it too, and how calls went is said to the next session."""
    saves: Any = [call("remember", text=f"The cat is named Miu, the key is {KEY}."), ORDER, "Noted."]
    done = here("run", "Hi cat", *my_tools, "--yes", "--memory", "m", "--record", "s.jsonl", replies=saves)
    assert (done.returncode, done.stdout) == (0, "Noted.\n"), done.stderr
    assert KEY not in "".join(path.read_text() for path in (tmp_path / "m").rglob("*.md"))

    finds = [call("recall", query="cats"), lambda request: f"{request.system}|{heard(request)}"]
    done = here("run", "?", "--no-tools", "--memory", "m", "--system", "Be kind.", replies=finds)
    system, _, recalled = done.stdout.partition("|")
    assert (
        system
        == "Be kind.\n\nTool calls of the last 7 days: 1, of which 100 % succeeded.\n- order: 1 succeeded, 1 approved"
    )
    assert "The cat is named Miu, the key is [redacted:api_key]." in recalled
    assert "Hi cat" in recalled
    done = here(
        "fork",
        "s.jsonl",
        "?",
        *my_tools,
        "--memory",
        "m",
        "--keep-secrets",
        replies=[call("remember", text=KEY), "Ok."],
    )
    assert done.returncode == 0, done.stderr
    assert KEY in (tmp_path / "m" / "knowledge" / "notes.md").read_text()
    done = here("run", "?", "--memory", "m", "--notes", "n.db", replies=[])
    assert (done.returncode, "not allowed with argument" in done.stderr) == (2, True)


def test_what_a_worker_does_is_shown_behind_its_name_and_is_no_answer(here: Cogstep, tmp_path: Path) -> None:
    """Its text stands on stderr, once; what the agent says is stdout, as ever."""
    (tmp_path / "mine.py").write_text("def peek(x: str) -> str:\n    'Look.'\n    return f'seen {x}\\nand more'\n")

    def reply(request: ModelRequest) -> Any:
        newest = request.messages[-1]
        if getattr(newest, "text", "") == "Look at a":
            return call("peek", x="a")
        if getattr(newest, "content", "").startswith("seen"):
            return "It is an a."
        if getattr(newest, "name", "") == "spawn_worker":
            return f"The scout says: {heard(request)}"
        return call("spawn_worker", name="scout", objective="Look at a", tools=["peek"])

    done = here("run", "go", "--features", "workers", "--tools", "mine:peek", replies=(reply for _ in range(9)))

    assert (done.returncode, done.stdout) == (0, "The scout says: It is an a.\n")
    assert done.stderr.splitlines() == [
        "→ worker scout: Look at a",
        '  [scout] → peek(x="a")',
        "  [scout] ← seen a",
        "    and more",
        "← worker scout: It is an a.",
    ]


def test_a_worker_that_fails_is_told_once(here: Cogstep) -> None:
    """Its question is nobody's to answer; the result of the call that spawned it says no more."""

    def reply(request: ModelRequest) -> Any:
        newest = request.messages[-1]
        if getattr(newest, "name", "") == "spawn_worker":
            return "It failed."
        return ONE if getattr(newest, "text", "") == "Ask" else call("spawn_worker", name="scout", objective="Ask")

    options = ("--features", "workers,questions", "--no-tools")
    done = here("run", "go", *options, replies=(reply for _ in range(9)))

    assert (done.returncode, done.stdout) == (0, "It failed.\n")
    assert done.stderr.count("did not answer") == 1, done.stderr


# ------------------------------------------------------------------------------------------------ sampling and protocol


def asked_with(*arguments: str, here: Cogstep) -> ModelRequest:
    """What a model is asked by a command."""
    requests: list[ModelRequest] = []

    def note(request: ModelRequest) -> str:
        requests.append(request)
        return '{"f": "Well."}' if request.protocol == "short_keys" else "Well."

    done = here(*arguments, replies=[note])
    assert done.returncode == 0, done.stderr
    return requests[-1]


SAMPLING: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (("--temperature", "0.7"), {"temperature": 0.7}),
    (("--top-p", "0.5", "--top-k", "40", "--min-p", "0.1"), {"top_p": 0.5, "top_k": 40, "min_p": 0.1}),
    (("--repeat-penalty", "1.1", "--seed", "3"), {"repeat_penalty": 1.1, "seed": 3}),
    (("--max-tokens", "99", "--no-thinking"), {"max_tokens": 99, "thinking": False}),
    (("--thinking",), {"thinking": True}),
]


@pytest.mark.parametrize(("options", "expected"), SAMPLING)
def test_sampling_is_chosen_for_a_new_session_and_for_a_fork(
    options: tuple[str, ...], expected: dict[str, Any], here: Cogstep
) -> None:
    """A fork keeps what is not given."""
    assert GenerationOptions(**expected) == asked_with("run", "Hi", *options, here=here).options
    asked_with("run", "Hi", "--top-k", "7", "--temperature", "1.5", "--record", "s.jsonl", here=here)
    usual = {"top_k": 7, "temperature": 1.5}
    assert GenerationOptions(**{**usual, **expected}) == asked_with("fork", "s.jsonl", "?", *options, here=here).options
    assert GenerationOptions(**usual) == asked_with("fork", "s.jsonl", "?", here=here).options


def test_a_protocol_is_chosen_for_a_new_session_and_for_a_fork(here: Cogstep) -> None:
    """Then the tools stand in the system prompt, and the calls in the text."""
    request = asked_with("run", "Hi", "--protocol", "short_keys", "--record", "s.jsonl", here=here)
    assert (request.protocol, "calculate" in request.system) == ("short_keys", True)
    assert asked_with("fork", "s.jsonl", "?", here=here).protocol == "short_keys"
    request = asked_with("fork", "s.jsonl", "?", "--protocol", "native", here=here)
    assert (request.protocol, "calculate" in request.system) == ("native", False)


def test_a_fork_of_a_programs_session_keeps_its_other_limits(here: Cogstep, tmp_path: Path) -> None:
    """What is not given is as recorded, beside it too."""

    @tool
    def price(item: str) -> int:
        """Say what something costs."""
        return 3

    limits = Limits(tool_calls=2, seconds=60.0)
    with Agent(fakes.ScriptedModel(["Hello."]), [price], limits=limits, journal=tmp_path / "s.jsonl") as agent:
        agent.run("Hi")

    here("fork", "s.jsonl", "?", "--no-tools", "--max-steps", "3", "--record", "f.jsonl", replies=["On."])

    config = replay(tmp_path / "f.jsonl").header.config
    assert config is not None
    assert config.limits == Limits(steps=3, tool_calls=2, seconds=60.0)
