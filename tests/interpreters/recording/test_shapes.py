"""What is found without being told, as tables: a format, a place or an innocent text more is one more line."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from interpreters.recording.redaction import Redaction
from interpreters.recording.redactor import Redactor
from interpreters.recording.secrets.formats import FORMATS, HEX, UPPER, SecretFormat
from interpreters.recording.secrets.shapes import SECRET_SHAPES, Finder, SecretShape

# Nothing here is a key: they are put together so that scanners of repositories don't take them for any.
MANY = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAbCdEfGhIjKlMnOpQrStUvWxYz0123456789" * 5
REDACTION = Redaction()


def drawn(alphabet: str, length: int) -> str:
    """As many characters of an alphabet, the same each time."""
    fitting = "".join(re.findall(f"[{alphabet}]", MANY))
    return (fitting * (length // len(fitting) + 1))[:length]


def hidden_of(text: str) -> list[str]:
    return [text[one.start : one.end] for one in REDACTION.find_secrets(text)]


KEYS = [(row, prefix, prefix + drawn(row.alphabet, row.length)) for row in FORMATS for prefix in row.prefixes.split()]

PLACES = [
    "{}",
    "Use “{}”, please.",
    '{{"key":"{}"}}',
    "KEY={}\n",
    "a: [{}]",
    "x\n{}\ny",
    "({})",
    "https://h/{}?a",
    "é {} é",
]


@pytest.mark.parametrize(("row", "prefix", "key"), KEYS, ids=[prefix for _, prefix, _ in KEYS])
def test_each_format_of_the_table_is_found_whole_in_any_place(row: SecretFormat, prefix: str, key: str) -> None:
    for place in PLACES:
        assert any(key in hidden for hidden in hidden_of(place.format(key))), place


@pytest.mark.parametrize(("row", "prefix", "key"), KEYS, ids=[prefix for _, prefix, _ in KEYS])
def test_a_key_may_stand_beside_letters_and_marks(row: SecretFormat, prefix: str, key: str) -> None:
    """Unless words end like its prefix."""
    for before in "_-=:/.":
        assert any(key in hidden for hidden in hidden_of(before + key)), before
    if not row.alone:
        for before in ("x", "my", "Z", "9"):
            assert any(key in hidden for hidden in hidden_of(before + key)), before


@pytest.mark.parametrize(("row", "prefix", "key"), KEYS, ids=[prefix for _, prefix, _ in KEYS])
def test_a_key_that_the_end_of_the_text_cuts_off_is_found(row: SecretFormat, prefix: str, key: str) -> None:
    """From eight characters after its prefix on: a result was cut there, or a reply was cancelled."""
    if row.exact or row.length <= 16 or len(prefix) < 3 or "$" in prefix:
        return
    for length in range(len(prefix) + 10, len(key)):
        assert any(prefix in hidden for hidden in hidden_of(f"it is {key[:length]}")), key[:length]


def test_every_row_of_the_table_says_where_it_stands() -> None:
    for row in FORMATS:
        assert row.source in {"GITHUB", "GITLEAKS", "TRUFFLEHOG"} or row.source.startswith("https://"), row
        assert row.length >= 10, row


def test_the_words_of_a_shape_begin_its_matches_or_stand_in_them() -> None:
    """Else it would never be found."""
    for shape in SECRET_SHAPES:
        assert all(shape.anchors)
        re.compile(shape.pattern)


S, WORDS = "hunter2", "correct horse battery"
LONG = drawn("A-Za-z0-9", 40)
HEXED = drawn(HEX, 64).lower()

CONTEXTS = [
    # what a text holds, with the secret in it
    ('{{"password": "{}"}}', S),
    ('{{"password":"{}"}}', WORDS),
    ("{{'password': '{}'}}", S),
    ('{{"password" : "{}", "user": "x"}}', S),
    ('{{\\"password\\": \\"{}\\"}}', S),
    ('{{\\\\\\"password\\\\\\": \\\\\\"{}\\\\\\"}}', S),
    ('"{{\\"a\\":\\"{{\\\\\\"client_secret\\\\\\":\\\\\\"{}\\\\\\"}}\\"}}"', S),
    ('"user": {{"pass": "{}"}}', S),
    ("password: {}", S),
    ("password: {}\nuser: x", "swordfish"),
    ("password = {}\n", "swordfish"),
    ("password={}", "swordfish"),
    ("PASSWORD={}", S),
    ("Password = '{}'", WORDS),
    ("export DB_PASSWORD='{}'", S),
    ("export DB_PASSWORD_PROD={}", S),
    ("set PASSWORD={}", S),
    ("PGPASSWORD={} psql", S),
    ("MYSQL_PWD={}", S),
    ("DB_PASS={}", S),
    ("smtp_pass: {}", S),
    ("dbPassword: {}", S),
    ("spring.datasource.password={}", S),
    ("passphrase: '{}'", WORDS),
    ("passwd: {}", S),
    ("password: !!str {}", S),
    ("password: |\n  {}\n", S),
    ("$password = \"{}\";", S),
    ('password := "{}"', S),
    ("'password' => '{}',", S),
    ('let password: &str = "{}";', S),
    ('password: str = "{}"', S),
    ("password: Optional[str] = '{}'", S),
    ('String password = "{}";', S),
    ('connect(password="{}")', S),
    ('db["password"] = "{}"', S),
    ("<password>{}</password>", S),
    ("<Password>{}</Password>", "swordfish"),
    ('<add key="Password" value="{}"/>', S),
    ('{{"name": "DB_PASSWORD", "value": "{}"}}', S),
    ("- name: DB_PASSWORD\n  value: {}\n", S),
    ("Server=db;User Id=sa;Password={};", S),
    ("Server=db;Uid=sa;Pwd={};", S),
    ("jdbc:mysql://h/db?user=root&password={}", S),
    ("password: '{}'", "what''s up"),
    ('password = """{}"""', WORDS),
    ('"password": ["{}"]', S),
    ("ALTER USER u WITH PASSWORD '{}';", S),
    ('the password is "{}".', S),
    ('config.set("api_key", "{}")', "abcdef123456"),
    ('user.set_password("{}")', S),
    ("--password {}", S),
    ("--password={}", S),
    ("--password '{}'", WORDS),
    ('["--password", "{}"]', S),
    ("--api-key {} --verbose", "abc123def"),
    ("tool --token {}", "abc123def456"),
    ("curl -u admin:{} https://h", S),
    ("curl --user 'admin:{}' https://h", S),
    ("mysql -u root -p{} db", S),
    ("sshpass -p {} ssh h", S),
    ("docker login -u me -p {} h", S),
    ("redis-cli -h h -a {}", S),
    ("machine h login u password {}", S),
    ("machine h\n  login u\n  password {}\n", S),
    ("db:5432:app:me:{}\n", S),
    ("aws_secret_access_key = {}", "wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY"),
    ("AWS_SECRET_ACCESS_KEY={}", "wJalrXUtnFEMI/K7MDENG"),
    ("secretAccessKey: '{}'", "wJalrXUtnFEMI/K7MDENG"),
    ("AccountName=x;AccountKey={};EndpointSuffix=h", LONG + LONG + "abcdef=="),
    ("SharedAccessKeyName=R;SharedAccessKey={}", LONG + "abc="),
    ("https://h/c?sv=2020&sig={}&se=1", "abc%2Fdef%3D123456"),
    ("https://h/?access_token={}", "abcdef"),
    ("https://h/?api_key={}&x=1", "abcdef12"),
    ("https://h/?token={}", "abcdef"),
    ("https://h/?a=1&amp;token={}", "abcdef"),
    ("https://h/?a&key={}", LONG),
    ("https://h/?client_secret={}&x", "s3cr3tvalue"),
    ("https://h/cb?code={}&state=1", "4_0AX4XfWh" + "abcdef12"),
    ("X-Amz-Signature={}&x", HEXED),
    ("wss://h/?jwt={}", "abcdef12345"),
    ("https://user:{}@h/", S),
    ("https://user:{}@h/", "p@ss"),
    ("https://{}@h/x.git", LONG),
    ("redis://:{}@h:6379", S),
    ("mongodb+srv://u:{}@c.h/db", S),
    ("Authorization: Bearer {}", "abcdefghijklmnop"),
    ("Authorization: Token {}", HEXED[:40]),
    ("Authorization: ApiKey {}", "abc123def456"),
    ("authorization: basic {}", "dXNlcjpwYXNz"),
    ("AUTHORIZATION: BASIC {}", "dXNlcjpwYXNz"),
    ("Authorization: Custom-Scheme {}", "abcdef"),
    ("Authorization: {}", LONG),
    ("Proxy-Authorization: Basic {}", "dXNlcjpwYXNz"),
    ('Authorization: Digest {}', 'username="u", realm="r", response="6629fae49393a05397450978507c4ef1"'),
    ("Authorization: AWS4-HMAC-SHA256 {}", "Credential=AKI/us-east-1, SignedHeaders=host, Signature=" + HEXED),
    ('{{"Authorization": "Bearer {}"}}', "abcdefghijklmnop"),
    ("curl -H 'Authorization: Bearer {}' h", "abc.def-ghi"),
    ("use Bearer {}.", "abcdef0123456789abcdef"),
    ("x-api-key: {}", "abcdefghijklmnop"),
    ("X-API-Key: {}", "12345abc"),
    ("x-api-key:{}", "12345abc"),
    ("X-Auth-Token: {}", "hunter2hunter2"),
    ("X-Vault-Token: {}", "hunter22abc"),
    ("PRIVATE-TOKEN: {}", "abcdef123456"),
    ("Ocp-Apim-Subscription-Key: {}", HEXED[:32]),
    ("x-functions-key: {}", LONG),
    ("DD-API-KEY: {}", HEXED[:32]),
    ("Cookie: {}", "session=abc123; theme=dark"),
    ("Set-Cookie: sid={}; Path=/", "abc123def"),
    ("//registry.npmjs.org/:_authToken={}", "abcdef-1234-5678"),
    ("_auth={}", "dXNlcjpodW50ZXIy"),
    ('{{"auths":{{"h":{{"auth":"{}"}}}}}}', "dXNlcjpwYXNz"),
    ("SECRET_KEY = '{}'", "django-insecure-abc"),
    ("SECRET_KEY_BASE={}", "abcdef"),
    ("client_secret: {}", "abcdefghijkl"),
    ('"clientSecret": "{}"', S),
    ("jwt_secret={}", S),
    ('api_key = "{}"', "abcd"),
    ('apiKey: "{}"', "abcdef123456"),
    ('openai.api_key = "{}"', LONG),
    ('"accessToken":"{}"', "abcdef123456"),
    ('"refresh_token" : "{}"', "abcdef"),
    ("bot_token: {}", "abcdef123456"),
    ("token: {}", LONG),
    ("export TOKEN={}", "abcdefgh"),
    ("MISTRAL_API_KEY={}", LONG[:32]),
    ("CO_API_KEY: {}", LONG),
    ("encryption_key: {}", LONG),
    ("PrivateKey = {}", LONG + "abc="),
    ('{{"kty":"oct","k":"{}"}}', LONG),
    ('{{"kty":"EC","x":"1","d":"{}"}}', LONG),
    ('{{"kty":"RSA","n":"' + HEXED + '","d":"{}"}}', LONG + LONG),
    ("Private-Lines: 1\n{}\nPrivate-MAC: 1", LONG),
    ("{}", "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxIn0." + LONG),
    ("{}", "eyJhbGciOiJSU0EtT0FFUCJ9." + LONG + "." + LONG[:16] + "." + LONG + "." + LONG[:22]),
    ("{}", HEXED[:32] + "-us12"),
    ("{}", "abc8Q~" + LONG[:34]),
    ("{}", "pat" + LONG[:14] + "." + HEXED),
    ("{}", "MTIzNDU2Nzg5MDEyMzQ1Njc4." + "GabcDe." + LONG[:38]),
    ("bot123456789:{}/getMe", "AAH" + LONG[:32]),
    ("{}", "00Dabcdefghijkl!AQ" + LONG),
    ("https://hooks.slack.com/{}", "services/T00000000/B00000000/" + "X" * 24),
    ("https://discord.com/api/webhooks/{}", "123456789012345678/" + LONG + LONG[:28]),
    ("https://h.webhook.office.com/{}", "webhookb2/" + HEXED),
    ("AKIA" + drawn(UPPER, 16) + ",{}\n", LONG),
    # Microsoft's, in base64, in which marks break what else would be a run of letters
    ("{}", "qhHaBp8cshtwPkhdM996G5rfDLI7jChGi4s6AKs8+xYz+ACRrpVfVI"),
    ("{}", "CXzU6M98NdFQCyXYbTuEPP+IKBLhcuiS4hX4TnCt1RTrzJm8Iq0na0p/Yt1JoW56KTLTYXPa/W4MACDbxMs3WD=="),
    ("{}", "f06vu1M1p9unB569abdqK5Ft6IXtINBH0HURByDwcMRwC8aReHogJQQJ99AxGzPJ7Kj4m9AFACOGzCXN"),
    ("{}", "whsec_vMrcuVb+ADB3IaeN7dXz"),
    # behind the letter that ends an escape, or a terminal's order
    ("\x1b[1;31m{}\x1b[0m", "AKIA" + drawn(UPPER, 16)),
    ("\x1b[01;31m\x1b[K{}\x1b[m", "AKIA" + drawn(UPPER, 16)),
    ('{{"out":"x\\n{}\\n"}}', "AKIA" + drawn(UPPER, 16)),
    ('"a\\u003d{}"', "AKIA" + drawn(UPPER, 16)),
    ("?a=%20{}%20", "AKIA" + drawn(UPPER, 16)),
    ("-{}\n", "eyJhbGciOiJIUzI1NiJ9." + "eyJ" + LONG + "." + LONG),
    ("-{}\n", "MTIzNDU2Nzg5MDEyMzQ1Njc4." + "GabcDe." + LONG[:38]),
    # as URLs, HTML and Markdown write an assignment
    ("u=https%3A%2F%2Fh%2F%3Faccess_token%3D{}", LONG[:12]),
    ("%22password%22%3A%22{}%22%7D", "hJ3kd93k"),
    ("{{&quot;password&quot;:&quot;{}&quot;}}", "hJ3kd93k"),
    ("&#34;password&#34;: &#34;{}&#34;", "hJ3kd93k"),
    ("/a?b=1&amp;ticket={}&amp;c", "a.b.c-abcdef"),
    ("**Password:** {}", "hJ3kd93k"),
    ("**Password**: `{}`", "hJ3kd93k"),
    ("<b>Password</b>: {}", "hJ3kd93k"),
    ("| password | {} |", "hJ3kd93k"),
    ("ENV DB_PASSWORD {}", "hJ3kd93k"),
    ("aws configure set aws_secret_access_key {}", LONG),
]  # fmt: skip


@pytest.mark.parametrize(("text", "secret"), CONTEXTS)
def test_secrets_show_by_what_stands_before_them(text: str, secret: str) -> None:
    """All of the secret, and nothing of what stands around it but in the same word."""
    assert secret in hidden_of(text.format(secret))


@pytest.mark.parametrize(("text", "secret"), CONTEXTS)
def test_they_do_so_in_the_middle_of_a_text_as_well(text: str, secret: str) -> None:
    assert secret in hidden_of(f"Lines before.\n{text.format(secret)}\nLines after: {{}}.")


INNOCENT = [
    "The password must have eight characters.",
    "Enter your password: ",
    "Password: required",
    "Forgot your password? Reset the password here.",
    "a secret: the cake is a lie",
    "token: the smallest unit of text",
    "MAX_TOKENS=4096",
    "max_tokens: 4096000000",
    '{"max_tokens": 4096, "total_tokens": 123456789}',
    "tokens = 1234567890",
    "token: str",
    "token: str | None = None",
    "password: Optional[str] = None",
    "password: null",
    '"password": null',
    '"password": ""',
    "password: ''",
    "password = None",
    "password=",
    "api_key: string",
    '{"api_key": {"type": "string"}}',
    "password = getpass()",
    "password = getpass.getpass('Password: ')",
    "token = secrets.token_hex(16)",
    "password = os.environ['DB_PASSWORD']",
    "password = os.environ.get('X')",
    "api_key = config.api_key",
    "token = self._token",
    "token=token, secret=secret",
    "connect(password=password, user=user)",
    "secret = args.secret",
    "password: ${DB_PASSWORD}",
    "PASSWORD=$OTHER",
    "password: {{ db_password }}",
    "token: <your token>",
    "password: ********",
    "api_key: YOUR_API_KEY",
    "password=xxxx",
    'f"password={password}"',
    "'password': '%s'",
    "TOKEN=${{ secrets.TOKEN }}",
    "password_length: 12",
    "token_type: bearer",
    "secret_name: my-app-1",
    "password_file=/run/secrets/db1",
    "PWD=/home/me/x1",
    "OLDPWD=/home/me1",
    "tokenizer: bert-base-uncased-v1",
    "secretary: Ann Smith 2",
    "compass: north-1",
    "bypass=1",
    "passed: 12, failed: 3",
    "passes=10",
    "keyboard: qwerty-1",
    "monkey: bananas-123",
    "primary_key=id1",
    "sort_key: created_at1",
    '{"token": " the", "logprob": -0.31}',
    '{"token": "Hello"}',
    "if password == 'x':",
    "assert token != other",
    "Authorization: required",
    "authorization = Column(String(40))",
    'headers["Authorization"] = f"Bearer {token}"',
    "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN",
    "author: J. R. Tolkien 1937",
    "auth: true",
    "bearer responsibilities, basic understanding of things",
    "Basic usage example with several words",
    "cookie = Cookie()",
    "cookies: accept all",
    "session: 3 of 12",
    "https://host:8080/x@y",
    "http://[::1]:8080/",
    "user@host:22/x",
    "https://a.b/c:d@e",
    "git@github.com:owner/repository.git",
    "12:30@home",
    "a://b c:d@e",
    "9e107d9d372bb6826bd81d3542a419d6",
    "d670460b4b4aece5915caf5c68d12f560a9fe3e4",
    "sha256:" + HEXED,
    HEXED * 2,
    "550e8400-e29b-41d4-a716-446655440000",
    "commit d670460b4b4aece5915caf5c68d12f560a9fe3e4",
    "id: 550e8400-e29b-41d4-a716-446655440000",
    "scikit: sk-learn-contrib-project-template",
    "task-1234567890123456789012",
    "risk-assessment-2024-report-final-version-2",
    "test_that_nothing_happens_when_it_is_called_twice_with_2",
    "half_of_all_the_things_that_we_did_in_2024",
    "s.replace('a', 'b').strip().lower().encode()",
    "data.startswith('abcdefghijklmnopqrstuvwx')",
    "st.lists(st.integers(1))",
    "-----BEGIN CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIabcdef me@host",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "2026-01-02T03:04:05.678Z INFO server[12]: ok",
    "key: value1",
    '{"key": "user:12345", "value": 1}',
    "for key, value in items.items():",
    "token_count=12345678",
    "TOKEN: os.environ['A'], the PASSWORD is needed",
    "SELECT password FROM users WHERE id = 1",
    "chmod 600 ~/.ssh/id_rsa",
    "from secrets import token_hex",
    "import getpass",
    "def login(user: str, password: str) -> None:",
    "--password-file /run/x1",
    "usage: tool [--password PASSWORD] [--token TOKEN]",
    "use the --token option to log in",
    "mysql -u root -p db",
    "curl -u $USER:$PASSWORD h",
    "curl https://h:8080/a",
    "docker login -u me -p $PASSWORD",
    "model-00001-of-00002.safetensors",
    "/usr/lib/python3.11/site-packages/very/long/path/module.py",
    "x86_64-unknown-linux-gnu-gcc-12",
    "lorem ipsum dolor sit amet consectetur",
    "The quick brown fox jumps over 13 lazy dogs.",
    "pip install package==1.2.3",
    "sha256=7ASyzePr8_xuZWJsnqJjIBtyV8vhEo0wBCv1MPRRi3Q",
    "break;token=localStorage.getItem('a');auth=t.auth,",
    "**Password:** required",
    "| password | string | the user's |",
    "set DB_PASSWORD first",
    "a redirect to %3Ftoken%3D",
]


@pytest.mark.parametrize("text", INNOCENT)
def test_what_only_looks_a_little_like_a_secret_is_left_alone(text: str) -> None:
    assert hidden_of(text) == []


ROOT = Path(__file__).resolve().parents[3]


def test_code_and_pages_are_left_alone() -> None:
    """In the standard library's 360,000 lines, what looks like a secret is one: examples of cookies and passwords."""
    library = Path(os.__file__).parent
    texts = [
        path.read_text("utf-8", "replace")
        for path in sorted(library.glob("*.py"))
        + sorted(ROOT.glob("cognition/**/*.py"))
        + sorted(ROOT.glob("docs/*.md"))
    ]
    lines = sum(text.count("\n") for text in texts)
    found = [hidden for text in texts for hidden in hidden_of(text)]

    assert lines > 50_000
    assert len(found) <= lines / 20_000, found


def test_what_is_found_in_one_pass_is_what_each_shape_finds_for_itself() -> None:
    """The words are only there to be quick."""
    texts = [text.format(secret) for text, secret in CONTEXTS] + [key for _, _, key in KEYS] + list(INNOCENT)
    finder = Finder(SECRET_SHAPES)
    for text in texts:
        each = {(one.start, one.end) for shape in SECRET_SHAPES for one in shape.find(text)}
        together = {(one.start, one.end) for one in finder.find(text)}
        assert together <= each
        covered = {place for start, end in together for place in range(start, end)}
        assert all(place in covered for start, end in each for place in range(start, end)), text


def test_a_shape_of_the_programs_own_needs_no_words() -> None:
    own = Redaction(
        shapes=(SecretShape("ticket", r"T-\d{6}", ("T-",)), SecretShape("pin", r"PIN (?P<secret>\d{4})", ()))
    )

    assert [(one.kind, one.start, one.end) for one in own.find_secrets("T-123456, PIN 1234")] == [
        ("ticket", 0, 8),
        ("pin", 14, 18),
    ]


@pytest.mark.parametrize(
    "fragment",
    [
        "SECRET", "token", "password=", "password: '", 'password="', 'password=\\"', "curl ", "curl -u a:", "mysql ",
        "api_key", "machine a login b ", '{"password":', "cookie: a=", "?key=", "au", "ghp_", "sk-1", "pass=",
        "Private-Lines: 1\nA", "secret: a", "eyJa.", "AKIA", "hooks", "://", "-----BEGIN PRIVATE KEY-----",
        "name: PASSWORD value: ", "eyJaaaaaaaa-", "a_password ", "password%3D", "password | ", "aB3/+",
    ],
)  # fmt: skip
def test_no_text_takes_long(fragment: str) -> None:
    """A quarter of a million characters that begin like secrets: in quadratic time this would run into the timeout."""
    REDACTION.find_shapes(fragment * (250_000 // len(fragment)))


def test_nothing_of_the_default_is_found_where_it_is_left_out() -> None:
    assert Redactor(Redaction(shapes=())).hide("password: hunter2") == ("password: hunter2", ())
