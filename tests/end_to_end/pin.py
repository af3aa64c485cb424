"""Writes ``pins.json``: what the shipped model answers to each scenario, on each backend.

    python -m tests.end_to_end.pin

Run it after the weights changed and look at the difference. A scenario that no longer shows what it is there for is
named, and nothing is written: the weights are then not good enough to ship.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from runtime import load_model
from tests.end_to_end.scenarios import SCENARIOS, fingerprint, run, transcript

PINS = Path(__file__).with_name("pins.json")


def main() -> int:
    pins: dict[str, dict[str, object]] = {}
    failures = []
    for backend in ("llama", "mlx"):
        model = load_model(backend=backend)  # type: ignore[arg-type]  # one of the two names
        try:
            answers = {}
            for scenario in SCENARIOS:
                with tempfile.TemporaryDirectory() as directory:
                    results = run(scenario, model, Path(directory))
                answers[scenario.name] = transcript(results)
                if not scenario.shows(results):
                    failures.append(f"{backend}: {scenario.name}: {json.dumps(answers[scenario.name])}")
            pins[backend] = {"weights": fingerprint(model.describe().path), "answers": answers}
        finally:
            model.close()
    if failures:
        print("These scenarios do not show what they are there for:", *failures, sep="\n  ", file=sys.stderr)
        return 1
    PINS.write_text(json.dumps(pins, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {PINS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
