"""Several models: a fallback answers while your own model is away, and a circuit breaker spares it the calls.

The core decides which model is called, so the decision is recorded and replayed. The clock is a fake one: half a minute
passes immediately. Run it::

    python examples/several_models.py
"""

import sys

from cogstep import Agent, Breaker, Failure, events, fakes


def show(event: events.Event) -> None:
    match event.value:
        case events.FellBack(message=message, to=name):
            print(f"! {message}: {name!r} answers")
        case events.BreakerOpened() | events.BreakerClosed():
            print("!", type(event.value).__name__)


def main(journal: str | None = None) -> None:
    away = Failure("connection refused", kind="offline")
    large = fakes.ScriptedModel([away, "Hello from the large one."])
    small = fakes.ScriptedModel(["Hello from the small one.", "Still the small one."])
    clock = fakes.FakeClock()
    with (
        large,
        small,
        Agent(
            large,
            models={"small": small},
            fallback=["small"],
            breaker=Breaker(failures=1, cooldown=30),
            observers=[show],
            clock=clock,
            journal=journal,
        ) as agent,
    ):
        print(agent.run("Hello").text)
        print(agent.run("Still there?").text)
        clock.advance(30)
        print(agent.run("And now?").text)


if __name__ == "__main__":
    main(*sys.argv[1:])

# It prints:
# ! BreakerOpened
# ! connection refused: 'small' answers
# Hello from the small one.
# Still the small one.
# ! BreakerClosed
# Hello from the large one.
