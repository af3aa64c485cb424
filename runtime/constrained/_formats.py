"""Patterns for JSON Schema's string formats, in the engine's dialect (Rust's ``regex``).

Each covers every text that its standard allows, so that a model is free to choose any of them. Where a standard has
rules that a pattern can't express (the length of a whole host name), the pattern covers more.

Sources: RFC 3339 (times, durations), RFC 1123 and 5890 (host names), RFC 5321 and 5322 (mail addresses), RFC 4291
and 3986 (IP addresses, URIs), RFC 9562 (UUIDs).
"""

from __future__ import annotations

from collections.abc import Mapping

YEAR = "[0-9]{4}"
BY_FOUR = "(?:0[48]|[2468][048]|[13579][26])"
LEAP_YEAR = f"(?:[0-9]{{2}}{BY_FOUR}|(?:00|{BY_FOUR})00)"
DATE = (
    f"(?:{YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{LEAP_YEAR}-02-29)"
)
CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\\.[0-9]+)?"
OFFSET = "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"

SECONDS = "[0-9]+S"
MINUTES = f"[0-9]+M(?:{SECONDS})?"
HOURS = f"[0-9]+H(?:{MINUTES})?"
TIME = f"T(?:{HOURS}|{MINUTES}|{SECONDS})"
DAYS = "[0-9]+D"
MONTHS = f"[0-9]+M(?:{DAYS})?"
YEARS = f"[0-9]+Y(?:{MONTHS})?"
DURATION = f"P(?:(?:{DAYS}|{MONTHS}|{YEARS})(?:{TIME})?|{TIME}|[0-9]+W)"

LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
HOST_NAME = f"{LABEL}(?:\\.{LABEL})*"
OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
IPV4 = f"{OCTET}(?:\\.{OCTET}){{3}}"
HEX = "[0-9a-fA-F]"
GROUP = f"{HEX}{{1,4}}"
LAST_GROUPS = f"(?:{GROUP}:{GROUP}|{IPV4})"
IPV6 = "|".join(
    [
        f"(?:{GROUP}:){{6}}{LAST_GROUPS}",
        f"::(?:{GROUP}:){{5}}{LAST_GROUPS}",
        *(f"(?:(?:{GROUP}:){{0,{before}}}{GROUP})?::(?:{GROUP}:){{{4 - before}}}{LAST_GROUPS}" for before in range(5)),
        f"(?:(?:{GROUP}:){{0,5}}{GROUP})?::{GROUP}",
        f"(?:(?:{GROUP}:){{0,6}}{GROUP})?::",
    ]
)

ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
QUOTED = '"(?:[ !#-\\[\\]-~]|\\\\[ -~])*"'
GENERAL_ADDRESS = "[A-Za-z0-9-]*[A-Za-z0-9]:[!-Z^-~]+"
MAIL = f"(?:{ATOM}(?:\\.{ATOM})*|{QUOTED})@(?:{HOST_NAME}|\\[(?:{IPV4}|IPv6:(?:{IPV6})|{GENERAL_ADDRESS})\\])"

ESCAPED = f"%{HEX}{{2}}"
UNRESERVED = "A-Za-z0-9._~-"
DELIMITERS = "!$&'()*+,;="
LETTER = f"(?:[{DELIMITERS}:@{UNRESERVED}]|{ESCAPED})"
USER = f"(?:[{DELIMITERS}:{UNRESERVED}]|{ESCAPED})*"
FUTURE_ADDRESS = f"[vV]{HEX}+\\.[{DELIMITERS}:{UNRESERVED}]+"
HOST = f"(?:\\[(?:{IPV6}|{FUTURE_ADDRESS})\\]|(?:[{DELIMITERS}{UNRESERVED}]|{ESCAPED})*)"
PATH = f"(?:/{LETTER}*)*"
ROOTED_PATH = f"/(?:{LETTER}+{PATH})?"
URI = (
    f"[A-Za-z][A-Za-z0-9+.-]*:(?://(?:{USER}@)?{HOST}(?::[0-9]*)?{PATH}|{ROOTED_PATH}|(?:{LETTER}+{PATH})?)"
    f"(?:\\?(?:{LETTER}|[/?])*)?(?:#(?:{LETTER}|[/?])*)?"
)

FORMATS: Mapping[str, str] = {
    "date": DATE,
    "time": f"{CLOCK}{OFFSET}?",
    "date-time": f"{DATE}[Tt]{CLOCK}{OFFSET}",
    "duration": DURATION,
    "email": MAIL,
    "hostname": HOST_NAME,
    "ipv4": IPV4,
    "ipv6": IPV6,
    "uuid": f"{HEX}{{8}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{12}}",
    "uri": URI,
}
"""The formats that sampling enforces, and the pattern of each. A time of day may lack an offset, as models write it."""
