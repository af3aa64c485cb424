"""A template in a process of its own writes what it writes here; the process comes, serves, ends and comes again."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from cognition import CogstepError
from runtime.errors import TemplateError, TemplateStoppedError
from runtime.templates import _isolated_renderer as renderer
from runtime.templates._compiled_template import CompiledTemplate
from runtime.templates._conversation import UNDEFINED
from runtime.templates._fork_server import FORK_SERVER
from runtime.templates._isolated_renderer import MOST_PROCESSES, PROCESSES, IsolatedTemplate, RendererPool
from runtime.templates.files import find_template
from runtime.templates.template import FALLBACK_TEMPLATE, ChatTemplate, is_known
from tests.runtime import chat_templates

MESSAGES = [{"role": "user", "content": "Hello"}]

SHOWS = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{{ (tools or 0) | tojson }}{{ extra }}{{ tools is defined }}"
)

ENDLESS = (
    "{% if messages[0].content == 'go' %}{% set s = 'a' * 60000000 %}"
    "{% for _ in range(99999) %}{% if 'b' in s %}{% endif %}{% endfor %}{% endif %}{{ messages[0].content }}"
)
GO = [{"role": "user", "content": "go"}]

TEXTS = st.text(st.characters(exclude_categories=())) | st.sampled_from(["\ud800", "\x00", "😀", '"\\\n', "\U000f0001"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)

DEADLINE = 60.0
"""Seconds for what has to come, on a machine with other things to do."""

TEMPLATES = {
    name: source for name, source in vars(chat_templates).items() if name.isupper() and isinstance(source, str)
}


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    """No test meets processes of another."""
    yield
    for number in list(PROCESSES._living):
        PROCESSES.drop(number)


def until(true: Callable[[], bool]) -> bool:
    """Whether it comes true in time."""
    end = time.monotonic() + DEADLINE
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
    return true()


def alive(pid: int) -> bool:
    """Whether there is such a process, and it is more than what is left of one."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return False


class TestTheSame:
    @pytest.mark.parametrize("source", [*TEMPLATES.values(), FALLBACK_TEMPLATE], ids=[*TEMPLATES, "FALLBACK"])
    def test_the_same_is_found_out(self, source: str) -> None:
        """Format, switches, features and warnings."""
        here, apart = (ChatTemplate(source, apart=where) for where in (False, True))

        assert here.derivation == apart.derivation
        assert here.warnings == apart.warnings

    @settings(max_examples=100)
    @given(
        st.lists(st.fixed_dictionaries({"role": TEXTS, "content": VALUES}), max_size=4),
        st.lists(st.dictionaries(TEXTS, VALUES, max_size=3), max_size=2) | st.none() | st.just(UNDEFINED),
        VALUES,
    )
    def test_the_same_is_written(self, messages: list[Any], tools: Any, extra: Any) -> None:
        """Whatever it is given, half of a surrogate pair included."""
        here, apart = (made(SHOWS) for made in (CompiledTemplate, _apart))

        assert here.apply(messages, tools, {"extra": extra}) == apart.apply(messages, tools, {"extra": extra})

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**4000, -0.0])
    def test_numbers_are_the_same(self, value: float) -> None:
        here, apart = (made("{{ extra }}") for made in (CompiledTemplate, _apart))

        assert here.apply([], None, {"extra": value}) == apart.apply([], None, {"extra": value})

    def test_the_time_is_the_programs(self) -> None:
        """Not that of the other process, nor its zone."""
        template = ChatTemplate(
            "{{ strftime_now('%Y-%m-%d %H:%M') }}", now=lambda: datetime(1999, 12, 31, 23, 59), apart=True
        )

        assert template.apply([], None) == "1999-12-31 23:59"

    @pytest.mark.parametrize("letter", ["a", "é", "日", "😀"])
    def test_a_message_of_five_million_characters_is_rendered(self, letter: str) -> None:
        """It is the user's, and none of the template's."""
        text = ChatTemplate(SHOWS, apart=True).apply([{"role": "user", "content": letter * 5_000_000}], None)

        assert letter * 5_000_000 in text

    @pytest.mark.parametrize("source", ["{% if %}", "{{ nothing.at.all }}", "{{ raise_exception('no') }}"])
    def test_refusals_are_the_same(self, source: str) -> None:
        said = []
        for where in (False, True):
            with pytest.raises(TemplateError) as caught:
                ChatTemplate(source, apart=where).apply([], None)
            said.append((type(caught.value), str(caught.value)))

        assert said[0] == said[1]


_kept: dict[str, IsolatedTemplate] = {}


def _apart(source: str) -> IsolatedTemplate:
    """One process for all examples."""
    return _kept.setdefault(source, IsolatedTemplate(source))


class TestKnown:
    def test_what_ships_runs_in_the_program(self) -> None:
        """And any other text in a process of its own."""
        shipped = find_template(None).source
        assert shipped is not None

        assert is_known(shipped)
        assert is_known(shipped + "\n")
        assert is_known(FALLBACK_TEMPLATE)
        assert not is_known(shipped + "{{ 1 }}")
        assert not ChatTemplate(shipped).apart
        assert ChatTemplate(shipped + "{{ 1 }}").apart

    def test_where_there_is_no_list_none_is_known(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """A package without its data takes no template for a known one."""
        from runtime.templates import template as known

        known._known_fingerprints.cache_clear()
        monkeypatch.setattr(known, "LIST", tmp_path / "none.txt")
        try:
            assert not is_known(FALLBACK_TEMPLATE)
        finally:
            known._known_fingerprints.cache_clear()


class TestLife:
    def test_a_process_serves_all_questions(self) -> None:
        """A step pays for a question and its answer, and for nothing else."""
        template = ChatTemplate(SHOWS)
        pids = list(PROCESSES.pids)
        for _ in range(3):
            template.apply(MESSAGES, None)

        assert len(pids) == 1
        assert pids == PROCESSES.pids

    def test_one_that_was_killed_is_told_of_and_comes_again(self) -> None:
        """By whomever it was killed."""
        template = ChatTemplate(SHOWS)
        before = template.apply(MESSAGES, None)
        (pid,) = PROCESSES.pids
        os.kill(pid, signal.SIGKILL)

        with pytest.raises(TemplateStoppedError, match="ended its process by SIGKILL"):
            template.apply(MESSAGES, None)
        assert before == template.apply(MESSAGES, None)
        assert [pid] != PROCESSES.pids

    def test_it_comes_again_where_all_were_killed(self) -> None:
        """The nest too."""
        template = ChatTemplate(SHOWS)
        before = template.apply(MESSAGES, None)
        assert FORK_SERVER.pid is not None
        (pid,) = PROCESSES.pids
        os.kill(FORK_SERVER.pid, signal.SIGKILL)

        assert until(lambda: not alive(pid))  # it ends with its nest
        with pytest.raises(TemplateStoppedError, match="was ended"):
            template.apply(MESSAGES, None)
        assert before == template.apply(MESSAGES, None)

    def test_one_that_was_stopped_comes_again(self) -> None:
        """What stopped it is over."""
        template = ChatTemplate(ENDLESS)
        with pytest.raises(TemplateStoppedError, match="took longer than"):
            template.apply(GO, None)

        assert template.apply(MESSAGES, None) == "Hello"

    def test_those_of_many_templates_are_few(self) -> None:
        """Those that were asked last live on; the others come again."""
        templates = [ChatTemplate(f"{number} {{{{ messages[0].content }}}}") for number in range(2 * MOST_PROCESSES)]

        assert [f"{number} Hello" for number in range(2 * MOST_PROCESSES)] == [
            one.apply(MESSAGES, None) for one in templates
        ]
        assert len(PROCESSES.pids) == MOST_PROCESSES

    def test_one_of_a_template_that_is_dropped_or_closed_ends(self) -> None:
        first, second = ChatTemplate(SHOWS), ChatTemplate(SHOWS)
        pids = PROCESSES.pids
        second.close()
        del first

        assert until(lambda: not any(map(alive, pids)))
        assert PROCESSES.pids == []
        assert second.apply(MESSAGES, None)  # it was closed, and is needed again

    def test_those_that_nobody_asks_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """And the nest with the last of them."""
        processes = RendererPool(idle=0.01)
        monkeypatch.setattr("runtime.templates._isolated_renderer.PROCESSES", processes)
        template = ChatTemplate(SHOWS)

        assert until(lambda: not processes.pids and FORK_SERVER.pid is None)
        assert template.apply(MESSAGES, None)

    def test_who_needs_one_waits_while_all_are_busy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Their number is bounded in any case."""
        monkeypatch.setattr("runtime.templates._isolated_renderer.PROCESSES", RendererPool(most=1))
        templates = [ChatTemplate(f"{number}") for number in range(3)]
        said: list[str] = []
        threads = [threading.Thread(target=lambda one=one: said.append(one.apply([], None))) for one in templates * 5]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(said) == ["0"] * 5 + ["1"] * 5 + ["2"] * 5

    def test_many_threads_ask_one_template(self) -> None:
        """Each gets its own answer."""
        template = ChatTemplate(SHOWS)
        wrong: list[str] = []

        def ask(number: int) -> None:
            for _ in range(20):
                text = template.apply([{"role": "user", "content": str(number)}], None)
                if f"<user>{number}" not in text:
                    wrong.append(text)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert wrong == []

    def test_an_interrupt_ends_what_is_under_way(self) -> None:
        """Ctrl-C is obeyed at once, and the next question gets its own answer."""
        template = ChatTemplate(ENDLESS)

        def interrupt(_number: int, _frame: FrameType | None) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(KeyboardInterrupt):
                template.apply(GO, None)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

        assert PROCESSES.pids == []
        assert template.apply(MESSAGES, None) == "Hello"


class TestSafety:
    def test_it_gets_next_to_nothing_of_the_program(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No environment, no descriptors, no working directory."""
        monkeypatch.setenv("SECRET_KEY", "x")
        FORK_SERVER.close()
        with open(__file__, "rb"):
            template = ChatTemplate(SHOWS)
        (pid,) = PROCESSES.pids
        files = sorted(os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir())

        assert b"SECRET" not in Path(f"/proc/{pid}/environ").read_bytes()
        assert {file.partition(":")[0] for file in files} <= {"/dev/null", "socket"}
        assert sum(file.startswith("socket") for file in files) == 1
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        assert template.apply(MESSAGES, None)

    def test_nothing_is_imported_from_the_working_directory(self, tmp_path: Path) -> None:
        """A folder with a `jinja2.py` in it runs nothing of it."""
        for name in ("jinja2", "attrs", "socket", "sitecustomize"):
            (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
        program = "from runtime.templates.template import ChatTemplate; print(ChatTemplate('{{ 1 }}x').apply([], None))"
        done = subprocess.run(
            [sys.executable, "-P", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
        )

        assert done.stdout == "1x\n", done.stderr
        assert not (tmp_path / "ran").exists()

    @pytest.mark.parametrize("busy", [False, True])
    def test_it_ends_with_its_program(self, busy: bool) -> None:
        """However that ends, and whatever the template is doing then."""
        program = textwrap.dedent(f"""
            import threading, time
            from runtime.templates._isolated_renderer import PROCESSES
            from runtime.templates._fork_server import FORK_SERVER
            from runtime.templates.template import ChatTemplate
            template = ChatTemplate({ENDLESS!r})
            if {busy}:
                threading.Thread(target=lambda: template.apply({GO!r}, None), daemon=True).start()
                time.sleep(0.1)
            print(FORK_SERVER.pid, *PROCESSES.pids, flush=True)
            time.sleep(600)
        """)
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as started:
            assert started.stdout is not None
            pids = list(map(int, started.stdout.readline().split()))
            assert len(pids) == 2
            assert all(map(alive, pids))
            started.kill()

        assert until(lambda: not any(map(alive, pids)))

    def test_a_program_that_forks_has_its_own(self) -> None:
        """Neither disturbs the other."""
        program = textwrap.dedent(f"""
            import os
            from runtime.templates._isolated_renderer import PROCESSES
            from runtime.templates.template import ChatTemplate
            template = ChatTemplate({SHOWS!r})
            before, pids = template.apply({MESSAGES!r}, None), PROCESSES.pids
            forked = os.fork()
            assert template.apply({MESSAGES!r}, None) == before
            assert (PROCESSES.pids == pids) == bool(forked)
            if forked:
                assert os.waitpid(forked, 0)[1] == 0
                assert template.apply({MESSAGES!r}, None) == before
                assert PROCESSES.pids == pids
        """)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

        assert done.returncode == 0, done.stderr

    def test_where_the_system_does_not_limit_memory_the_program_watches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As on macOS: what is taken before the next look is not held back."""
        monkeypatch.setattr(renderer, "WATCHED", True)
        monkeypatch.setattr(renderer, "MEMORY", 60_000_000)
        template = ChatTemplate(ENDLESS)

        with pytest.raises(TemplateStoppedError, match="more memory"):
            template.apply(GO, None)

    def test_where_no_process_can_be_started_no_unknown_template_runs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It fails closed, and says why; a known one runs."""
        FORK_SERVER.close()
        monkeypatch.setattr("runtime.children.start.spawn.get_executable", lambda: "/no/python")

        with pytest.raises(TemplateError, match=r"none can be started \(No such file or directory\)"):
            ChatTemplate(SHOWS)
        assert ChatTemplate(FALLBACK_TEMPLATE).apply(MESSAGES, None)

    @pytest.mark.parametrize(
        "value", [float, {1, 2}, [[]], b"x"], ids=["a class", "a set", "nested too deeply", "bytes"]
    )
    def test_what_is_no_json_is_refused(self, value: Any) -> None:
        """In plain words, and the next question is answered."""
        deep: Any = value
        for _ in range(100_000 if value == [[]] else 0):
            deep = [deep]
        template = ChatTemplate(SHOWS)

        with pytest.raises(CogstepError, match="can't be given to the chat template"):
            template.apply([{"role": "user", "content": deep}], None)
        assert template.apply(MESSAGES, None)
