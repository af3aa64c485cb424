"""Sessions with a real model, recorded once and played for ever: see ``Cassette``."""

from interpreters.cassettes.cassette import Cassette, Mode
from interpreters.cassettes.errors import CassetteError, CassetteMissError
from interpreters.cassettes.requests import Scrub, request_data, request_digest
from interpreters.cassettes.tape import Exchange

__all__ = [
    "Cassette",
    "CassetteError",
    "CassetteMissError",
    "Exchange",
    "Mode",
    "Scrub",
    "request_data",
    "request_digest",
]
