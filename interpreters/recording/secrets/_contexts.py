"""Secrets recognizable by the text before them: assigned names, headers, URLs, command lines, armour.

Each pattern begins with one of its words, so it is tried only there. Every repetition that may fail has an upper bound,
so an untrusted text takes linear time.

The value distinguishes an assignment from code and prose. After a name that can only mean a secret (``password``,
``client_secret``, ``access_token``, ``api_key``), each value is hidden, except names of types, templates, masks and
expressions. After a name with other meanings (``token``, ``auth``), only a value that looks random is hidden.
"""

from __future__ import annotations

STOP = r"\s\"'`,;&|)}\]<>\\\x00"
"""Characters that end a value without quotes. NUL separates the texts of one input."""

QUOTE = r"(?:\"\"\"|'''|\\{0,15}[\"'`]|&(?:quot|apos|#34|#39|#x27);|%22)"
"""A quotation mark: with its backslashes in nested JSON, or as encoded in HTML and URLs."""

BEGINS = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbfv])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2})|(?<=[\[;\d][mK]))"
"""The beginning of a word, also after a letter that ends an escape or a terminal sequence (``ESC [1;31m``)."""

INSIDE = (
    r"(?!, ?[A-Za-z_]{1,40}=|\)|[ ]{1,8}(?:\+|in|if|else|and|or|for)[ ])"
    r"(?:(?P=q){2}|(?!(?<!\\)(?P=q))[^\n\x00]){1,1024}"
)
"""The text inside quotation marks ``q``, unless they close an earlier quotation. Without a closing mark, it extends to
the end of the line, since the text may be cut.
"""

TYPES = (
    r"(?:str|string|text|bytes?|char|varchar|secretstr|secretbytes|number|integer|int|float|boolean|bool|object|array"
    r"|list|dict|any|null|none|nil|nan|true|false|yes|no|on|off|undefined|void|never|required|optional|mandatory|hidden"
    r"|masked|redacted|removed|default|invalid|incorrect|missing|expired|unknown|empty|unset|disabled|enabled|self|this"
    r"|not|if|is|in|the|a|an|and|or|of|to|for|from|with|without|must|should|can|may|will|be|as|by|at|it|its|your|new|option"
    r"|passwords?|passwd|passphrase|secrets?|tokens?|keys?|credentials?|apikey|api_key|basic|bearer|oauth2?|todo|value)"
)
"""Words that often occur in place of a secret."""

TEMPLATE = (
    r"(?:\$\{[^}\n]{0,200}\}|\$\([^\n]{0,200}|\$[A-Z_][A-Z0-9_]*|\$[a-z_]+|%[A-Z_]+%|%\([a-z_]+\)s|%[sdr](?:[^A-Za-z0-9\s]{1,3}%[sdr]){0,4}"
    r"|\{\{[^\n]{0,200}\}\}|\{[A-Za-z_.]{0,60}(?:![rs])?(?::[^{}\n]{0,20})?\}|<[^>\n]{0,80}>|\[[A-Za-z _-]{0,60}\]"
    r"|[*\u2022xX.#_?-]{1,200}|(?i:your|my|some|insert|enter|replace|change)[-_ ]?(?:[A-Za-z]{1,20}[-_ ]){0,4}"
    r"(?i:key|token|secret|password|here|me))"
)
"""Templates and masks: places for a secret, or for a removed secret."""

NAMES = r"(?:[a-z]{1,20}[_.-]){1,6}(?:password|passwd|pwd|secret|token|key|auth)(?:[_.-][a-z]{1,20}){0,4}"
"""A value that is itself a name: ``{"field": "user_password"}``."""

EXPRESSION = (
    r"(?:(?:await|new|lambda|not|yield) |[A-Za-z_][\w.]{0,100}[(\[]|(?:self|this|cls|args|os|process|config|settings)\."
    rf"|[A-Za-z_]\w{{0,60}}(?:\.[A-Za-z_]{{1,60}}){{1,8}}(?![^{STOP}])|[({{\[])"
)
"""An expression of code: a call, an index, an attribute."""

REST = (
    r"(?=[A-Za-z0-9_.-]{0,41}+[\s\"'`\\\]:=>%&*|<])(?![A-Za-z0-9_-]{0,30}?(?i:type|name|length|count|file|path|ur[il]|endpoint|policy|ref|min|max|limit|size|ttl|expir"
    r"|field|label|hint|prompt|placeholder|manager|provider|require|enable|reset|strength|budget|usage|index|class|pattern"
    r"|regex|format|valid|rotat|updated|created|changed|version|helper|_id|-id)[A-Za-z0-9_]{0,20}[\"'\\\]\s:=])"
    r"(?:[-_.0-9A-Z][A-Za-z0-9_.-]{0,40}(?<!I[dD]))?"
)
"""Allowed rest of a name: ``PASSWORD_PROD``, ``secretKeyBase``; but not ``password_length``, ``secretName``."""

ASSIGN = (
    QUOTE
    + r"?\]?(?:\*\*|</[a-z]{1,10}>(?=:))?(?:[ \t]{0,3}:[ \t]{0,3}[A-Za-z_&][\w.|\[\] ]{0,40}?(?=[ \t]{0,3}=[^=]))?"
    r"(?:[ \t]{0,8}(?:=>|:=|=(?!=)|::?)(?:\*\*)?|>|%3[ADad])(?:[ \t]{0,8}(?![ \t])|\s{1,40}(?=[\"']))"
)
"""The text between a name and its value in JSON, YAML, TOML, INI, shells, XML and code; it may include a type."""

TAG = r"(?:\[\s{0,8}(?=[\"'])|[rbfuRBFU]{1,2}(?=[\"'])|!![a-z]{1,10} |[|>][-+]?[0-9]?\r?\n[ \t]{1,40})?"
"""The text before a value: a string prefix of Python, a tag or a block marker of YAML."""

ODD = rf"(?=[A-Za-z_.]*[^A-Za-z_.{STOP}])"
"""Requires a character other than letters, so not the name of a variable."""
DRAWN = rf"(?=[^{STOP}]{{0,200}}?\d)(?=[^{STOP}]{{0,200}}?[A-Za-z])"
REFUSED = r"(?!\d{1,15}(?![^" + STOP + r"]))"
"""Excludes numbers: ``MAX_TOKENS=4096``."""
ALONE = r"(?=[A-Za-z]{4,200}[ \t]*(?:[\r\n\x00]|\Z))"
"""A word at the end of its line."""


def _value(bare: str, quoted: str = "") -> str:
    innocent = rf"(?:{TEMPLATE}|(?i:{TYPES})|{NAMES})"
    return (
        rf"{TAG}(?P<q>{QUOTE})?(?P<secret>(?(q)(?!{innocent}?(?P=q)){quoted}{INSIDE}"
        rf"|(?!{innocent}(?![^{STOP}]))(?!{EXPRESSION})(?:{bare})))"
    )


PASSWORD = _value(
    rf"{ODD}[^{STOP}]{{3,1024}}|(?<==)[^{STOP}]{{4,1024}}+(?![,)])|(?<=[:=] )(?=[a-z]){ALONE}[^{STOP}]{{4,1024}}"
    rf"|(?<=>)[^{STOP}]{{3,1024}}",
    quoted=r"(?![^\n\"]{0,80}?\s(?i:password|passphrase|token|secret)\b)",
)
KEY = _value(
    rf"{REFUSED}(?:{ODD}[^{STOP}]{{6,1024}}|(?<==)[^{STOP}]{{6,1024}}+(?![,)])|(?<=: ){ALONE}[^{STOP}]{{12,1024}})",
    quoted=rf"{REFUSED}(?=\S{{4}})(?![^\n\"]{{0,80}}?[a-z] [a-z])",
)
WEAK = _value(rf"{DRAWN}[^{STOP}]{{8,1024}}", quoted=rf"(?=[^{STOP}]{{8}}){DRAWN}")

TOKENS = (
    "access api app auth bearer bot client csrf deploy device github gitlab id jwt login npm oauth personal private "
    "pypi refresh registry secret security service session slack telegram user vault webhook xsrf"
).split()
KEYS = (
    "access account admin api app auth client consumer cookie crypto deploy encryption function functions hmac host "
    "jwt license master private rapidapi rsa secret service session shared sharedaccess signing ssh storage "
    "subscription symmetric token webhook"
).split()


def _behind(words: list[str]) -> str:
    """Return a pattern for a position after one of the words, with or without a separator."""
    sizes: dict[int, list[str]] = {}
    for word in words:
        sizes.setdefault(len(word), []).append(word)
    same = ["|".join(ones) for _, ones in sorted(sizes.items())]
    return f"(?i:{'|'.join(f'(?<={ones})|(?<=(?:{ones})[-_. ])' for ones in same)})"


_PASS = (
    r"(?:(?i:pass)(?i:w(?:or)?d|wort|phrase|code)s?|(?:(?<![A-Za-z])pass|Pass|(?<![A-Z])PASS|(?<=db)pass|(?<=user)pass"
    r"|(?<=smtp)pass|(?<=mail)pass))(?![a-z])"
)
_PW = r"(?:(?i:pwd)|(?<![A-Za-z])(?i:pw))(?![A-Za-z])"
_SECRET = r"(?i:secret)(?![a-z])"
_KEY = rf"(?i:[a-z]{{3}})[-_. ]?{_behind(KEYS)}(?i:key)(?![a-z])"
_TOKEN = rf"{_behind(TOKENS)}(?i:token)(?![a-z])"
_NAME = rf"(?:{_PASS}|{_PW}|{_SECRET}|{_KEY}|{_TOKEN})"
_KEYS = tuple(f"{end}{mark}k" for end in sorted({word[-3:] for word in KEYS}) for mark in ("", "_", "-", ".", " "))
"""The beginnings of ``key`` with the letters before it, such as ``api_k``."""
_PASSES = ("passw", "passp", "passc", *(f"pass{mark}" for mark in ("=", ":", '":', "':", '\\":', " =", " :")))
_WORDS = (*_PASSES, "pw", "sec", "tok", *_KEYS)

_ARGUMENT = rf"(?:(?<=-){_NAME}|(?<=--)(?i:token))(?:[\"'],)?[ \t]{{1,8}}(?!-)"
_PAIR = rf"{_NAME}{REST}{QUOTE}?\s{{0,40}},?\s{{0,40}}{QUOTE}?(?i:value){QUOTE}?[ \t]{{0,8}}[:=][ \t]{{0,8}}"
_SCHEME = r"(?:[A-Za-z][A-Za-z0-9-]{1,30}[ ]{1,8})"
_LONG_SCHEME = (
    r"(?:(?i:digest|aws4-[a-z0-9-]{1,30}|hawk|oauth|signature|hmac|hmac-sha256|sharedkey|sharedkeylite)[ ]{1,8})"
)
"""Schemes of the Authorization header whose credentials are a list of parameters."""
_GIVEN = rf"(?!{TEMPLATE}(?![^{STOP}])|(?i:{TYPES})(?![^{STOP}]))"
_PARAMETER = r"(?P<secret>[^&\s#\"'<>\\`)}\]|\x00,;]{%d,4096})"

CONTEXTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    # kind, pattern, words with which it begins
    # ---- what is assigned
    ("assignment", _PASS + REST + ASSIGN + PASSWORD, _PASSES),
    ("assignment", _PW + REST + ASSIGN + r"(?!QUOTE?(?:[/~]|[A-Z]:\\))".replace("QUOTE", QUOTE) + PASSWORD, ("pw",)),
    ("assignment", _SECRET + REST + ASSIGN + PASSWORD, ("sec",)),
    ("assignment", _KEY + REST + ASSIGN + KEY, _KEYS),
    ("assignment", _TOKEN + REST + ASSIGN + KEY, ("tok",)),
    ("assignment", r"TOKEN(?:_[A-Z0-9_]{1,40})?" + ASSIGN + KEY, ("tok",)),
    ("assignment", r"(?i:token)(?![a-z])" + REST + ASSIGN + WEAK, ("tok",)),
    ("assignment", r"(?i:auth)(?![a-z])" + REST + ASSIGN + WEAK, ("au",)),
    (  # Docker's configuration, https://docs.docker.com/reference/cli/docker/login/
        "password",
        r"(?i:auth)\\{0,15}\"\s{0,8}:\s{0,8}\\{0,15}\"(?P<secret>[A-Za-z0-9+/]{8,2048}={0,2})(?=\\{0,15}\")",
        ("au",),
    ),
    (  # SQL: IDENTIFIED WITH PASSWORD '...'; prose: the password is "..."
        "assignment",
        r"(?i:password|passphrase)(?: is:?| to| by)? (?P<q>[\"'`])(?P<secret>[^\s\"'`\x00]{3,256})(?P=q)",
        _PASSES,
    ),
    (  # config.set("api_key", "..."), set_password("...")
        "assignment",
        _NAME
        + r"(?:\\{0,15}[\"'], ?|\()"
        + r"(?P<q>\\{0,15}[\"'])(?P<secret>(?=[^\s\"'(){}]{0,200}\d)[^\s\"'(){}\\\x00]{4,512})"
        r"(?P=q)\)",
        _WORDS,
    ),
    ("assignment", _PAIR + PASSWORD, _WORDS),  # {"name": "DB_PASSWORD", "value": "..."}
    ("assignment", _ARGUMENT + PASSWORD.replace("(?<==)", "(?<= )"), _WORDS),  # --password ...
    ("assignment", _NAME + r"[*`]{0,3}[ \t]{0,40}\|[ \t]{0,40}" + WEAK, _WORDS),  # a table of Markdown
    ("assignment", r"(?<=[A-Za-z0-9]_)" + _NAME + r"(?i:_[a-z0-9_]{1,20})?[ \t]" + WEAK, _WORDS),  # ENV DB_PASSWORD ...
    # ---- headers
    (  # RFC 9110, 11.6.2: any scheme; parameters of those that have some go with them to the end
        "password",
        rf"(?i:authorization){QUOTE}?[ \t]{{0,8}}[:=,][ \t]{{0,8}}(?P<q>{QUOTE})?{_LONG_SCHEME}"
        rf"(?P<secret>(?(q){INSIDE}|[^\r\n\x00]{{4,4096}}))",
        ("au",),
    ),
    (
        "password",
        rf"(?i:authorization){QUOTE}?[ \t]{{0,8}}[:=,][ \t]{{0,8}}{QUOTE}?(?i:basic)[ ]{{1,8}}{_GIVEN}"
        rf"(?P<secret>[^\s\"'`<>,;\\\x00]{{4,8192}})",
        ("au",),
    ),
    (
        "token",
        rf"(?i:authorization){QUOTE}?[ \t]{{0,8}}[:=,][ \t]{{0,8}}{QUOTE}?"
        rf"(?!{_LONG_SCHEME}|(?i:basic)){_SCHEME}{_GIVEN}"
        rf"(?P<secret>[^\s\"'`<>,;\\\x00]{{4,8192}})",
        ("au",),
    ),
    ("password", rf"(?i:authorization){ASSIGN}(?![rbfu]?{QUOTE}?{_SCHEME}){KEY}", ("au",)),
    ("token", r"(?<![A-Za-z])[Tt]oken (?:token=)?\"?(?P<secret>(?=[a-z._-]{0,200}\d)[A-Za-z0-9._-]{20,})", ("tok",)),
    ("token", rf"(?i:api[-_]?key)[ ]{{1,3}}(?P<secret>{DRAWN}[A-Za-z0-9._=-]{{20,}})", ("apik", "api_k", "api-k")),
    (  # RFC 6265
        "cookie",
        rf"(?<!set-)(?<!Set-)(?<!SET-)(?i:cookie)(?:{QUOTE},|{QUOTE}?[ \t]{{0,3}}[:=])[ \t]{{0,3}}(?P<q>{QUOTE})?"
        rf"(?=[^\s=;\"'(]{{1,100}}=[^\s=])(?P<secret>(?(q){INSIDE}|[^\r\n\x00\"']{{4,4096}}))",
        ("cook",),
    ),
    (
        "cookie",
        rf"(?<=[Ss][Ee][Tt]-)(?i:cookie)(?:{QUOTE},|{QUOTE}?[ \t]{{0,3}}[:=])[ \t]{{0,3}}{QUOTE}?[^\s=;\"'(]{{1,100}}="
        r"(?P<secret>[^\s;\"'\\\x00]{4,4096})",
        ("cook",),
    ),
    ("assignment", r"(?i:(?<=[a-z])-key)[\"']?: ?[\"']?(?P<secret>" + DRAWN + r"[A-Za-z0-9_.+/=-]{16,1024})", ("-k",)),
    # ---- URLs
    (  # RFC 3986, 3.2.1
        "password",
        r"://[^\s/:@\"'\\<>]{0,256}:(?P<secret>[^\s/\"'\\<>]{1,1024})@",
        ("://",),
    ),
    ("token", r"://(?P<secret>[A-Za-z0-9_.~%=-]{20,1024})(?::)?@", ("://",)),
    (
        "token",
        r"(?:(?<=[?&])|(?<=&amp;)|(?<=;)(?![a-z]{1,10}="
        + EXPRESSION
        + r"))(?i:token|auth|jwt|ticket|assertion|sid)="
        + _PARAMETER % 6,
        ("token=", "auth=", "jwt=", "ticket=", "assertion=", "sid="),
    ),
    ("token", r"(?<=[?&;])(?i:key|code|session)=(?=[^&\s]{0,200}?\d)" + _PARAMETER % 12, ("key=", "code=", "session=")),
    ("token", r"(?<![A-Za-z])(?i:sig|signature)=" + _PARAMETER % 10, ("sig=", "signature=")),
    ("token", r"(?i:signature)=" + _PARAMETER % 16, ("signature=",)),
    # ---- files and commands
    (
        "password",
        r"(?i:machine)\s{1,8}\S{1,256}\s{1,40}(?:(?:login|account)\s{1,8}\S{1,256}\s{1,40}){0,2}password\s{1,8}(?P<secret>\S{1,256})",
        ("mac",),
    ),
    ("password", r":5432:[^:\s]{1,64}:[^:\s]{1,64}:(?P<secret>[^\s:]{1,256})", (":5432:",)),  # PostgreSQL's .pgpass
    (
        "password",
        r"curl\b[^\n\x00|;]{0,300}?\s(?:-u|-U|--user|--proxy-user)[ =]?[\"']?[^\s:\"'/]{1,100}:"
        + _GIVEN
        + r"(?P<secret>[^\s\"']{1,256})",
        ("cu",),
    ),
    ("password", r"mysql[a-z]{0,6}\b[^\n\x00|;]{0,200}?\s-p(?P<secret>[^\s\"'$-][^\s\"']{2,256})", ("mysq",)),
    ("password", r"sshpass\s{1,8}-p\s{0,8}[\"']?" + _GIVEN + r"(?P<secret>[^\s\"']{2,256})", ("sshp",)),
    (
        "password",
        r"docker log[^\n\x00|;]{0,200}?\s-p[ =]?[\"']?" + _GIVEN + r"(?P<secret>[^\s\"']{2,256})",
        ("dock",),
    ),
    (
        "password",
        r"redis-cli\b[^\n\x00|;]{0,200}?\s-a[ =]?[\"']?" + _GIVEN + r"(?P<secret>[^\s\"']{2,256})",
        ("redis-c",),
    ),
    # ---- webhooks
    (
        "api_key",
        r"(?<=/)(?i:hooks)\.slack\.com/(?P<secret>(?:services|workflows|triggers)/[A-Za-z0-9/_+-]{20,256})",
        ("hook",),
    ),
    ("api_key", r"(?<=/)(?i:hooks)\.zapier\.com/hooks/catch/(?P<secret>[A-Za-z0-9/_-]{8,256})", ("hook",)),
    ("api_key", r"(?i:hooks)/(?P<secret>\d{15,20}/[A-Za-z0-9_-]{40,128})", ("hook",)),  # Discord
    ("api_key", r"(?i:hook)\.office\.com/(?P<secret>webhookb2/[A-Za-z0-9@/_-]{40,512})", ("hook",)),  # Teams
    # ---- private keys
    (  # RFC 7468, RFC 9580: whole, or up to where the text was cut
        "private_key",
        r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}(?:[A-Za-z0-9+/=\s\\:,.()@_]|-(?!--))*"
        r"(?:-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5})?",
        ("-----b", "---- b"),
    ),
    (
        "private_key",
        r"Private-Lines: ?\d{1,4}\s{1,4}(?P<secret>[A-Za-z0-9+/=\s\\]{8,65536}?)"
        r"(?=\s{0,4}Private-|\x00|\Z|[^A-Za-z0-9+/=\s\\])",
        ("priv",),
    ),
)
"""Patterns that begin with a word."""

RUNS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    # kind, pattern, words with which it begins; in it are 16 letters, digits, '_' and '-' in a row
    # ---- tokens of known structure
    (  # RFC 6750; the digit tells it from prose
        "token",
        r"(?<![A-Za-z])(?i:bearer)\s{1,8}(?P<secret>(?=[A-Za-z._~+/-]{0,200}\d)[A-Za-z0-9._~+/-]{16,}(?<!\.)=*)",
        ("Bear", "bear", "BEAR"),
    ),
    (  # RFC 7617
        "password",
        r"(?<![A-Za-z])Basic\s{1,8}(?P<secret>(?=[A-Za-z]{0,200}[0-9=])[A-Za-z0-9+/]{8,}={0,2})(?![A-Za-z0-9])",
        ("Bas",),
    ),
    (  # RFC 7519, RFC 7516: a JSON object as base64url, and two or four parts more
        "token",
        BEGINS
        + r"eyJ[A-Za-z0-9_-]{8,4096}\.(?:eyJ|(?=[A-Za-z0-9_-]{0,2048}\.[A-Za-z0-9_-]{0,512}\.))[A-Za-z0-9_-]{0,8192}"
        r"\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]{1,8192}){0,2}",
        ("eyJ",),
    ),
    ("api_key", r"(?<=\d{8}):(?P<secret>A[A-Z][A-Za-z0-9_-]{33})(?![A-Za-z0-9_-])", (":A",)),  # Telegram
    (
        "api_key",
        BEGINS + r"(?<![A-Za-z0-9]_)[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}",  # Discord
        ("MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"),
    ),
    ("api_key", BEGINS + r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}", ("pat",)),  # Airtable
    (  # what stands beside the id of an AWS key in a table
        "api_key",
        r"A(?:KIA|SIA)[A-Z0-9]{16}[\"']?[\s,:;|]{1,5}[\"']?(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
        ("AKIA", "ASIA"),
    ),
)
"""Patterns that begin with a word and contain a run of characters."""

ELSEWHERE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    # kind, pattern, what stands somewhere in the text
    (  # RFC 7518, 6: the private members of a JSON Web Key
        "private_key",
        r"\"(?:d|p|q|dp|dq|qi|k)\\{0,15}\"\s{0,8}:\s{0,8}\\{0,15}\"(?P<secret>[A-Za-z0-9_-]{16,2048})",
        ('"k',),
    ),
)
"""Patterns that are searched in the whole text if a word occurs in it."""

RUNS_ELSEWHERE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    # kind, pattern, what stands somewhere in it
    ("api_key", BEGINS + r"[a-f0-9]{32}-us\d{1,2}(?![A-Za-z0-9])", ("-us",)),  # Mailchimp
    ("api_key", r"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}", ("Q~",)),  # Microsoft Entra
    ("api_key", BEGINS + r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}", (".atlasv1.",)),  # Terraform Cloud
    ("api_key", r"(?<![A-Za-z0-9])00D[A-Za-z0-9]{12,15}!A[A-Za-z0-9_.]{40,}", ("!A",)),  # Salesforce
    ("api_key", r"(?<![A-Za-z0-9])[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk(?![A-Za-z0-9])", ("_mmk",)),  # MaxMind
    (  # Microsoft's keys that name what they are for, https://github.com/microsoft/security-utilities
        "api_key",
        r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{30,76}(?:\+ASt|ACDb|AzFu|AzSe|AzCa|\+ACR|\+AEh|\+ARm|\+ASb|AIoT|APIM|AZDO)"
        r"[A-Za-z0-9+/]{4,12}={0,2}(?![A-Za-z0-9+/=])",
        ("+ASt", "ACDb", "AzFu", "AzSe", "AzCa", "+ACR", "+AEh", "+ARm", "+ASb", "AIoT", "APIM", "AZDO"),
    ),
    (  # and their newer ones, of 84 characters, with the mark in the middle
        "api_key",
        r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{52}JQQJ99[A-Za-z0-9+/]{0,64}={0,2}",
        ("JQQJ99",),
    ),
)
"""Patterns that contain a word and a run of characters."""
