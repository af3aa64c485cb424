"""The plugin for pytest, in suites of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import cognition
import interpreters
import runtime
from runtime.local.real_model_guard import VARIABLE

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[3]

# Suites run in this process. pytester forgets each module that is first imported there, while the faces keep its names:
# everything public is imported before.
for package in (cognition, runtime, interpreters):
    for name in package.__all__:
        getattr(package, name)

PLUGIN = ("-p", "interpreters.testing.pytest_plugin", "-p", "no:cacheprovider")

# A real model that costs nothing: what is guarded is asked for by name where the runtime asks.
REAL = """
import os
import pytest
from interpreters import Agent, fakes
from runtime.local.real_model_guard import check_allowed

class Real(fakes.FunctionModel):
    def submit(self, request):
        check_allowed("ask the real model")
        return super().submit(request)

def load_model():
    check_allowed("load the real model")
    return Real(lambda request: f"heard: {request.messages[-1].text}")
"""


@pytest.fixture(autouse=True)
def _no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether cogstep is installed or not, the suites below load the plugin once, and no other."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv(VARIABLE, raising=False)


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess(*PLUGIN, *arguments)


def suite(pytester: pytest.Pytester, text: str) -> None:
    pytester.makepyfile(test_suite=REAL + text)


# ---------------------------------------------------------------------------------------------------------- the guard


GUARDED = """
def test_plain():
    with Agent(load_model()) as agent:
        assert agent.run("Hi!").text == "heard: Hi!"

@pytest.mark.real_model
def test_marked():
    test_plain()

def test_fakes():
    with Agent(fakes.ScriptedModel(["Hello!"])) as agent:
        assert agent.run("Hi!").text == "Hello!"

@pytest.mark.no_real_model
def test_guarded_by_itself():
    test_plain()
"""


def test_without_a_setting_nothing_is_guarded(pytester: pytest.Pytester) -> None:
    """To install cogstep breaks no suite. Only what asks for the guard by its marker has it."""
    suite(pytester, GUARDED)

    result = run(pytester)

    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*FAILED*test_guarded_by_itself*"])


def test_blocked_tests_fail_and_say_how_to_allow_it(pytester: pytest.Pytester) -> None:
    """By a setting of the project; fakes go on working, and so does what is marked."""
    pytester.makeini("[pytest]\ncogstep_real_models = blocked\n")
    suite(pytester, GUARDED)

    result = run(pytester)

    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["*real models are blocked here*load the real model*@pytest.mark.real_model*"])


def test_a_model_of_several_tests_is_asked_only_where_it_may_be(pytester: pytest.Pytester) -> None:
    """Loaded for a marked test, it stays blocked for the next one; and child processes inherit it."""
    pytester.makeini("[pytest]\ncogstep_real_models = blocked\n")
    suite(
        pytester,
        """
@pytest.fixture(scope="session")
def model():
    return load_model()

@pytest.mark.real_model
def test_marked(model):
    with Agent(model) as agent:
        assert agent.run("Hi!").text == "heard: Hi!"
    assert os.environ["COGSTEP_REAL_MODELS"] == "allowed"

def test_plain(model):
    assert os.environ["COGSTEP_REAL_MODELS"] == "blocked"
    with Agent(model) as agent:
        agent.run("Hi!")
""",
    )

    result = run(pytester)

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*about to ask the real model*"])


def test_the_shipped_model_is_guarded(pytester: pytest.Pytester) -> None:
    """The runtime's own door: nothing is loaded, whether a backend is installed or not."""
    pytester.makepyfile(
        """
        import pytest
        from runtime import load_model
        from runtime.local.loading import load_engine
        from runtime.models.specs import Source

        @pytest.mark.no_real_model
        def test_load():
            load_engine(Source("llama", "model.gguf"), None, None, None, lambda fraction: True)
        """
    )

    result = run(pytester)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*RealModelBlockedError: real models are blocked here*load model.gguf*"])


def test_a_wrong_setting_is_an_error(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ncogstep_real_models = never\n")

    result = run(pytester)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*cogstep_real_models is 'never'*"])


# ------------------------------------------------------------------------------------------------------------ fixtures


def test_scripted_models_have_to_be_used_up(pytester: pytest.Pytester) -> None:
    """What was scripted and not asked for is an error; after a failure it is none."""
    suite(
        pytester,
        """
def talk(model):
    with Agent(model) as agent:
        return agent.run("Hi!").text

def test_used(scripted_model):
    assert talk(scripted_model(["Hello!"], name="mine")) == "Hello!"

def test_two_agents(scripted_model):
    model = scripted_model(["Hello!", "Hello again!"])
    assert (talk(model), talk(model)) == ("Hello!", "Hello again!")

def test_left(scripted_model):
    assert talk(scripted_model(["Hello!", "never said"])) == "Hello!"

def test_failed(scripted_model):
    scripted_model(["never said"])
    assert False
""",
    )

    result = run(pytester)

    result.assert_outcomes(passed=3, failed=1, errors=1)
    result.stdout.fnmatch_lines(["*only 1 of the script's 2 replies*'never said'*"])


def test_no_test_waits_with_a_fake_clock(pytester: pytest.Pytester) -> None:
    suite(
        pytester,
        """
def test_retry(scripted_model, fake_clock):
    from cognition import Failure
    model = scripted_model([Failure("busy", status=429), "Hello!"])
    with Agent(model, clock=fake_clock) as agent:
        assert agent.run("Hi!").text == "Hello!"
    assert len(fake_clock.waits) == 1
""",
    )

    run(pytester).assert_outcomes(passed=1)


# ----------------------------------------------------------------------------------------------------------- cassettes

TALK = """
def test_talk(cassette):
    with Agent(cassette.model(load_model)) as agent:
        assert agent.run("Hi!").text == "heard: Hi!"
"""


def test_a_cassette_is_recorded_once_and_played_from_then_on(pytester: pytest.Pytester) -> None:
    """Also where real models are blocked: to record was asked for, and to play needs none."""
    pytester.makeini("[pytest]\ncogstep_real_models = blocked\n")
    suite(pytester, TALK)
    missing = run(pytester)
    missing.assert_outcomes(failed=1)
    missing.stdout.fnmatch_lines(["*record it with pytest --cassette=record"])

    recorded = run(pytester, "--cassette=record")

    recorded.assert_outcomes(passed=1)
    recorded.stdout.fnmatch_lines(["*cassettes*", "cassettes/test_suite/test_talk.json: recorded, 1 replies"])
    path = pytester.path / "cassettes" / "test_suite" / "test_talk.json"
    assert json.loads(path.read_text())["exchanges"][0]["reply"]["text"] == "heard: Hi!"

    played = run(pytester)
    played.assert_outcomes(passed=1)
    assert "cassettes/" not in played.stdout.str()


def test_the_modes_of_the_option(pytester: pytest.Pytester) -> None:
    """``new`` records only what is not there, and ``off`` asks the model and writes nothing."""
    suite(pytester, TALK)
    path = pytester.path / "cassettes" / "test_suite" / "test_talk.json"

    run(pytester, "--cassette=off").assert_outcomes(passed=1)
    assert not path.exists()
    run(pytester, "--cassette=new").assert_outcomes(passed=1)
    stamp = path.stat().st_mtime_ns
    run(pytester, "--cassette=new").assert_outcomes(passed=1)
    assert stamp == path.stat().st_mtime_ns


def test_a_failed_test_records_nothing(pytester: pytest.Pytester) -> None:
    """And says so; what was recorded before stays."""
    suite(pytester, TALK + "        assert False\n")

    result = run(pytester, "--cassette=record")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*test_talk.json: not written, because its test did not pass"])
    assert not (pytester.path / "cassettes").exists()


def test_a_miss_fails_with_a_diff_and_asks_no_model(pytester: pytest.Pytester) -> None:
    suite(pytester, TALK)
    run(pytester, "--cassette=record")
    suite(pytester, TALK.replace('run("Hi!")', 'run("Ho!")') + "\ndef load_model():\n    assert False, 'asked'\n")

    result = run(pytester)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*nearest of 1 recorded requests is number 1*", '*-   "user": "Hi!"*', '*+   "user": "Ho!"*']
    )


def test_recordings_that_nobody_needs_are_named(pytester: pytest.Pytester) -> None:
    """Replies that were not asked for, and files whose test has another name now."""
    two = TALK + '        agent.run("Bye!")\n'
    suite(pytester, two + two.replace("test_talk", "test_other"))
    run(pytester, "--cassette=record").assert_outcomes(passed=2)
    suite(pytester, TALK)

    result = run(pytester)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "cassettes/test_suite/test_other.json: no test of this run opened it",
            "cassettes/test_suite/test_talk.json: of 2 recorded replies, these were not asked for: 2",
        ]
    )
    assert "test_other" not in run(pytester, "-k", "talk and not nothing", "test_suite.py::test_talk").stdout.str()


def test_each_parameter_has_a_cassette_of_its_own(pytester: pytest.Pytester) -> None:
    """Also where their names are no names of files."""
    suite(
        pytester,
        """
class TestTalk:
    @pytest.mark.parametrize("text", ["a/b", "a:b", "a b"])
    def test_talk(self, cassette, text):
        with Agent(cassette.model(load_model)) as agent:
            assert agent.run(text).text == f"heard: {text}"
""",
    )
    run(pytester, "--cassette=record").assert_outcomes(passed=3)

    assert len(list((pytester.path / "cassettes" / "test_suite").glob("TestTalk.test_talk-a-b*.json"))) == 3
    run(pytester).assert_outcomes(passed=3)


# -------------------------------------------------------------------------------------------------------- what it costs


def test_pytest_finds_the_plugin_by_its_entry_point(tmp_path: Path) -> None:
    """As installed: pytest loads it, and with it nothing of cogstep but the empty packages around it."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert points == {"cogstep": "interpreters.testing.pytest_plugin"}
    info = tmp_path / "installed" / "cogstep-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cogstep\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[pytest11]\ncogstep = interpreters.testing.pytest_plugin\n")
    test = tmp_path / "test_it.py"
    test.write_text(
        "import sys\n"
        "def test_it(pytestconfig):\n"
        "    assert pytestconfig.pluginmanager.has_plugin('cogstep')\n"
        "    ours = {name for name in sys.modules if name.split('.')[0] in ('cognition', 'runtime', 'interpreters')}\n"
        "    room = 'interpreters.testing'\n"
        "    face = {'cognition', 'cognition.base', 'cognition.base.face'}\n"
        "    assert ours == {'interpreters', room, f'{room}.pytest_plugin', *face}\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path / 'installed'}:{ROOT}"},
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
