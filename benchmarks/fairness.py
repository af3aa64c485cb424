"""One request behind many: how long an agent waits whose neighbour has queued a thousand requests.

    python benchmarks/fairness.py                            # the small model, on both backends
    python benchmarks/fairness.py --queued 200 --backend mlx

Twice on one loaded model: with an owner for each of the two, as agents have it, and with one owner for all, which is a
queue in order of arrival. Every request has a prompt of its own and a reply of 16 tokens. What is measured is the time
from ``submit`` to the first token, and that to submit all the others.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/fairness.py`

from cognition import GenerationOptions, History, ModelRequest, UserMessage
from runtime import Done, Runtime, load_model
from runtime.models.specs import PACKAGES, is_installed
from runtime.scheduling.owners import new_owner, owned_by


def request(number: int) -> ModelRequest:
    """One of many, none of them like another."""
    question = f"{number}: what is {number} * 17, and {number + 1} * 19?"
    return ModelRequest("", History((UserMessage("m1", question),)), (), GenerationOptions(max_tokens=16))


def wait(model: Runtime, queued: int, *, own: bool) -> tuple[float, float]:
    """Seconds to submit the many, and seconds until the one that came last has its first token."""
    many, one = new_owner(), new_owner()
    began = time.perf_counter()
    with owned_by(many):
        generations = [model.submit(request(number)) for number in range(queued)]
    submitted = time.perf_counter() - began
    with owned_by(one if own else many):
        *_, done = model.submit(request(queued))
    for generation in generations:
        generation.cancel()
    for generation in generations:
        for _ in generation:
            pass
    assert isinstance(done, Done)
    return submitted, done.timings.time_to_first_token or float("nan")


def main() -> None:
    """The command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--queued", type=int, default=1000, help="requests before the one (default: 1000)")
    options.add_argument("--backend", choices=PACKAGES, help="this one only")
    chosen = options.parse_args()
    print(f"{'':24}{'one queue':>12}{'own turn':>12}   seconds until the first token, behind {chosen.queued} requests")
    for backend in PACKAGES:
        if chosen.backend in (None, backend) and is_installed(backend):
            for isolate in (False, True):
                with load_model(
                    backend=backend,
                    isolate=isolate,
                    queue_limit=chosen.queued + 1,
                    context_tokens=512,
                ) as model:
                    wait(model, 8, own=True)  # warm
                    _, shared = wait(model, chosen.queued, own=False)
                    _, own = wait(model, chosen.queued, own=True)
                print(f"{'isolated ' * isolate + backend:24}{shared:12.2f}{own:12.2f}", flush=True)


if __name__ == "__main__":
    main()
