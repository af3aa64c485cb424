"""Sessions with a real model, recorded once and replayed from then on: see ``Cassette``."""

from interpreters.testing.cassettes._cassette import (
    Cassette as Cassette,
    CassetteMissError as CassetteMissError,
    Mode as Mode,
)
from interpreters.testing.cassettes._requests import (
    Scrub as Scrub,
    request_data as request_data,
    request_digest as request_digest,
)
from interpreters.testing.cassettes.tape import CassetteError as CassetteError, Exchange as Exchange
