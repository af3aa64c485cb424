"""A structured answer: the text of an invoice becomes a checked Python value.

A real model is constrained to the schema while it writes. This script plays a server that is not: its first answer has
a negative amount, the check returns the error to the model, and the second answer passes. Run it::

    python examples/structured_answer.py
"""

import sys
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

from cogstep import Agent, Limits, fakes


@dataclass
class Line:
    item: str
    crowns: Annotated[int, Ge(0)]


@dataclass
class Invoice:
    number: str
    currency: Literal["crowns", "euros"]
    lines: list[Line]


def main(journal: str | None = None) -> None:
    model = fakes.ScriptedModel(
        [
            '{"number": "A-7", "currency": "crowns", "lines": [{"item": "plums", "crowns": -12}]}',
            '{"number": "A-7", "currency": "crowns", "lines": [{"item": "plums", "crowns": 12}]}',
        ]
    )
    with Agent(model, system="Extract the invoice.", limits=Limits(corrections=1), journal=journal) as agent:
        result = agent.run("Invoice A-7: plums, 12 crowns.", returns=Invoice)
    print(result.value)
    print(sum(line.crowns for line in result.value.lines), result.value.currency)


if __name__ == "__main__":
    main(*sys.argv[1:])

# It prints:
# Invoice(number='A-7', currency='crowns', lines=[Line(item='plums', crowns=12)])
# 12 crowns
