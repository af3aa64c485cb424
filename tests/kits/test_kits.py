"""The scores of outside conformance kits, as each kit's own runner gives them.

``docs/concepts/context.md`` and ``docs/guides/recordings.md`` publish them. The adapters are the other modules of this
directory.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from runtime.seal_key import KEY_FILE

pytest.importorskip("agmi", reason="the extra `dev` brings the kits")
pytest.importorskip("compaction_kit", reason="the extra `dev` brings the kits")
pytest.importorskip("crashresume", reason="the extra `dev` brings the kits")

from agmi.adapters.base import MemoryAdapter
from agmi.check import LABELS, run
from compaction_kit.adapters import ProgressiveSummaryCompactor
from compaction_kit.corpus import build_random_session
from compaction_kit.testing import assert_no_flags, check_compactor
from crashresume import conform

from tests.kits.compaction import Automatic, OnDemand, gist, repeat
from tests.kits.crashes import Subjects
from tests.kits.memory_integrity import Folder, Journal

DOCS = Path(__file__).resolve().parents[2] / "docs"
ROUNDS = 5
JOURNAL = {
    "tamper": "REJECTED",
    "truncate": "ACCEPTED",
    "delete_middle": "REJECTED",
    "reorder": "REJECTED",
    "forge": "REJECTED",
    "cross_replay": "REJECTED",
    "rollback_replay": "REJECTED",
    "metadata_tamper": "REJECTED",
    "snapshot_rollback": "ACCEPTED",
}
"""The verdicts for a recording. A file that is cut after a turn, or an older copy of it, is still the user's own."""


# ---------------------------------------------------------------------------------------------------------- compaction


@pytest.mark.parametrize("kind", [OnDemand, Automatic])
def test_compaction_loses_nothing_that_the_summary_contains(kind: type[OnDemand] | type[Automatic]) -> None:
    """In five rounds, on the kit's session and on three that it draws."""
    sessions: list[tuple[Any, Any]] = [(None, None), *(build_random_session(seed) for seed in (1, 2, 3))]
    for session, canaries in sessions:
        compactor = kind(repeat)

        report = check_compactor(compactor, session=session, canaries=canaries, rounds=ROUNDS)

        assert_no_flags(report)
        assert [finding.curve for finding in report.findings] == [[1.0] * ROUNDS] * 5
        assert compactor.compactions >= ROUNDS


def test_compaction_loses_what_a_model_leaves_out() -> None:
    """A model that keeps 90 characters of each message keeps 90 of an earlier summary."""
    compactors = (OnDemand(repeat), Automatic(repeat), OnDemand(gist), Automatic(gist), ProgressiveSummaryCompactor())
    page = (DOCS / "concepts" / "context.md").read_text("utf-8")
    rows = re.findall(r"^\| .* \| .* " + r"\| (\d+) " * ROUNDS + r"\|$", page, re.MULTILINE)
    published = [[int(number) for number in row] for row in rows[1:]]  # the first is the heading

    assert [survivors(compactor) for compactor in compactors] == published
    assert published[2:] == [[19, 0, 0, 0, 0], [7, 0, 0, 0, 0], [4, 2, 2, 2, 2]]


def survivors(compactor: Any) -> list[int]:
    """Return how many of the kit's 20 texts are left after each round."""
    report = check_compactor(compactor, rounds=ROUNDS)
    return [round(sum(4 * finding.curve[place] for finding in report.findings)) for place in range(ROUNDS)]


# ------------------------------------------------------------------------------------------------------------- crashes


@pytest.mark.slow
def test_no_effect_is_lost_or_repeated_when_the_process_is_killed_behind_it(tmp_path: Path) -> None:
    with Subjects(tmp_path) as subjects:
        report = conform(subjects, ["parcel 1", "parcel 2", "parcel 3"])

    assert report.passed, str(report)
    assert report.crash_points == 6


# ----------------------------------------------------------------------------------------------------------- integrity


def test_a_recording_that_was_edited_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By its seals, and not because it can't be read."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv(KEY_FILE, raising=False)

    rows = run(Journal())

    assert {row["attack"]: row["verdict"] for row in rows} == JOURNAL
    assert [row["attack"] for row in rows if "ForeignRecordingError" in row["detail"]] == [
        name for name, verdict in JOURNAL.items() if verdict == "REJECTED"
    ]


def test_a_memory_is_files_that_anyone_with_access_may_edit() -> None:
    assert {row["attack"]: row["verdict"] for row in run(Folder())} == dict.fromkeys(JOURNAL, "ACCEPTED")


@pytest.mark.parametrize(("column", "verdicts"), [(1, JOURNAL), (2, dict.fromkeys(JOURNAL, "ACCEPTED"))])
def test_the_page_has_the_verdicts(column: int, verdicts: dict[str, str]) -> None:
    page = (DOCS / "guides" / "recordings.md").read_text("utf-8")
    rows = [re.split(r" *\| *", line)[1:-1] for line in page.splitlines() if line.startswith("| T")]

    assert {row[0]: row[column].upper() for row in rows} == {LABELS[name]: found for name, found in verdicts.items()}


def test_an_adapter_makes_each_edit() -> None:
    """No edit is skipped: the kit would call it not evaluable."""
    for adapter in (Journal, Folder):
        assert issubclass(adapter, MemoryAdapter)
        assert (adapter.supports_replay, adapter.supports_metadata, adapter.supports_snapshot) == (True, True, True)
