"""Random values for requests and results: names, notes, numbers, paths, patterns, commands, times.

Everything is drawn from a `Source`: a seeded generator that also knows which of two worlds it draws for. Training sees
plausible words and, in four of ten made-up ones, arbitrary letter strings; a source with `unseen_values` gives
arbitrary strings and large numbers only. So a test on unseen values asks for instances that training has hardly held,
of a kind that it held.
"""

import random
import re
from collections.abc import Callable
from typing import Self

ARBITRARY = (
    0.4  # share of made-up training words that are letter strings without syllables: copying must not need meaning
)

ONSETS = "b c d f g h j k l m n p r s t v w z br cl dr fl gr kr pl st tr sh ch th".split()
SYLLABLES = [onset + vowel for onset in ONSETS for vowel in "aeiou"]
ENDINGS = ["", "", "n", "r", "s", "t", "l", "m", "x", "ck", "nd"]
WORDS = """
milk bread coffee tea apple banana lemon onion rice soup cake cheese water sugar salt pasta garden house door window
table chair lamp river mountain forest beach island bridge road street train car bike boat plane station airport hotel
museum library school office meeting lunch dinner breakfast party birthday holiday monday tuesday wednesday thursday
friday saturday sunday morning evening night today tomorrow week month year dog cat bird horse fish mouse tiger bear
wolf fox red blue green yellow black white orange purple silver gold big small old new fast slow happy quiet loud warm
cold dry wet book page paper pencil letter phone key card bag shoe coat hat shirt ring clock camera picture music song
movie game ball team player coach doctor nurse teacher driver farmer artist writer friend brother sister mother father
uncle aunt neighbor boss project report budget plan draft review code test build release server client database network
password secret version branch commit issue ticket bug feature design logo color font price order invoice payment bank
account number agenda summary hello world todo idea list main config index app user error warning result answer
question name
""".split()
VERBS = "is likes needs starts ends moves opens closes wants keeps sells buys reads has makes".split()
SMALL_WORDS = "my your the a at on in for with and from near under over ready late early done free full".split()
COMMON_WORDS = """
about above across add after again all along also always any apart around ask away back bake be because become before
begin behind below best better between bring build buy call can carry catch change check choose clean climb close come
cook cost count cover create cut decide deliver do down draw dream drink drive drop each early eat else empty end enough
enter even ever every fall far feel few fill find finish first fix fly follow forget four from further get give go great
grow half hang have he hear heavy help her here high his hold how hurry if inside into it join jump just keep kind know
last late learn leave left less let lift like listen live long look lose lunch main make many maybe meet mend more most
move much must near need never next nine no nobody not nothing now of off often once one only open or other our out over
own pack paint part pass pay pick place plant play point pull push put quick reach remind remove repair rest return ride
right ring rise run same say second see sell send set seven several share she ship should show shut side sign sing sit
six sleep slowly so some soon sort speak spend stand start stay still stop such swim take talk ten than thank that their
them then there these they thing think this those three throw tie to together too top touch try turn two under until up
upon us use very visit wait wake walk want wash watch we wear weigh well went were what when where which while who whole
why will wish without work write yes yet you young your
""".split()
NAMES = (
    "Anna Ben Carla David Emma Frank Grace Henry Iris Jack Karen Leo Maria Nina Oscar Paul Rita Sam Tina Victor".split()
)
CITIES = """
Paris London Berlin Tokyo Madrid Rome Oslo Vienna Dublin Lisbon Cairo Delhi Lima Boston Chicago Denver Seattle Toronto
Sydney Kyoto Munich Prague Milan Athens Warsaw Zurich Geneva Helsinki Stockholm Amsterdam Brussels Barcelona Naples
Mumbai Bangkok Seoul Beijing Singapore Nairobi Miami
""".split()
TWO_WORD_CITIES = ["New York", "San Francisco", "Los Angeles", "Hong Kong", "Cape Town", "Rio de Janeiro"]
LANGUAGES = "French German Spanish Italian Polish Dutch Greek Turkish Czech Danish".split()
EXTENSIONS = "txt md py json csv log html js toml yaml".split()
FOLDERS = "src docs data tmp notes logs config tests lib assets home reports".split()
COMMON_FILES = """
README.md Makefile LICENSE TODO package.json pyproject.toml notes.txt todo.md CHANGELOG.md main.py note.txt notes.md
todo.txt a.md b.md a.txt b.txt plan.md readme.md data.csv report.txt hello.txt test.py list.txt config.json index.html
""".split()
SKIES = [
    "rain",
    "sunny",
    "cloudy",
    "snow",
    "windy",
    "fog",
    "clear",
    "storm",
    "light rain",
    "heavy snow",
    "partly cloudy",
]

# Made-up words may hit real ones that nobody wants to read in a test's output.
RUDE = re.compile("f[uv]c?k|shi?t|cunt|dick|cock|slut|nig|rape|tit|ass|sex|cum|nazi|porn|whor|bitch")


class Source(random.Random):
    """A seeded generator, with what it may draw: `unseen_values`, `unseen_phrasings`."""

    unseen_values: bool = False
    unseen_phrasings: bool = False

    @classmethod
    def seeded(cls, seed: int | str, *, unseen_values: bool = False, unseen_phrasings: bool = False) -> Self:
        source = cls(seed)
        source.unseen_values, source.unseen_phrasings = unseen_values, unseen_phrasings
        return source

    def chance(self, share: float) -> bool:
        """True in `share` of the calls."""
        return self.random() < share


def cap(text: str) -> str:
    """The text with a capital first letter and the rest untouched."""
    return text[:1].upper() + text[1:]


def letters(s: Source) -> str:
    """An arbitrary string of three to eight letters."""
    while True:
        word = "".join(s.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(s.randint(3, 8)))
        if not RUDE.search(word):
            return word


def made_up(s: Source) -> str:
    """A word that is in no dictionary."""
    if s.unseen_values or s.chance(ARBITRARY):
        return letters(s)
    while True:
        word = "".join(s.choice(SYLLABLES) for _ in range(s.choice([1, 2, 2, 3]))) + s.choice(ENDINGS)
        if not RUDE.search(word):
            return word


def word(s: Source) -> str:
    return made_up(s) if s.unseen_values or s.chance(0.4) else s.choice(WORDS)


def phrase(s: Source, shortest: int = 2, longest: int = 6) -> str:
    """Some words in a row; those of an unseen phrase are half arbitrary strings, half known words."""
    share = 0.5 if s.unseen_values else 0.35
    known = s.choice([WORDS + SMALL_WORDS, WORDS + SMALL_WORDS, COMMON_WORDS + WORDS])
    return " ".join(made_up(s) if s.chance(share) else s.choice(known) for _ in range(s.randint(shortest, longest)))


def code(s: Source, about: str = "") -> str:
    """A line of a program or of settings, about the given word."""
    about, other, n = about or word(s), word(s), s.randint(0, 99)
    shapes = [f'print("{about}")', f"{other} = {about}({n})", f"return {about} + {n}", f"# {about} {other}"]
    shapes += [f'"{about}": "{other}",', f"<{other}>{about}</{other}>", f"import {about}", f"if {about} == {n}:"]
    shapes += [f"{about}.{other}()", f"- [ ] {other} {about}", f"{about}: {n}", f"{other} {about}, {word(s)}."]
    return s.choice(shapes)


def sentence(s: Source, longest: int = 7) -> str:
    """A line as people write it: a capital, commas, names, numbers, an end."""
    words = phrase(s, 2, longest).split(" ")
    if s.chance(0.2):
        words.insert(s.randint(1, len(words)), s.choice([name(s), city(s), str(s.randint(0, 3000)), number(s)]))
    if len(words) > 3 and s.chance(0.25):
        words[s.randint(0, len(words) - 2)] += ","
    return cap(" ".join(words)) + s.choice([".", ".", ".", ".", "!", "?", ""])


def line(s: Source, longest: int = 6) -> str:
    """A line of some file: words, a sentence, code, a setting."""
    x = s.random()
    if x < 0.4:
        return phrase(s, 2, longest)
    if x < 0.75:
        return sentence(s, longest + 1)
    return code(s) if x < 0.9 else f"{s.choice([word, name])(s)}: {s.choice([word, number, place])(s)}"


def name(s: Source) -> str:
    return cap(made_up(s)) if s.unseen_values or s.chance(0.4) else s.choice(NAMES)


def city(s: Source) -> str:
    if s.unseen_values or s.chance(0.4):
        return cap(made_up(s)) + (" " + cap(made_up(s)) if s.chance(0.15) else "")
    return s.choice(CITIES) if s.chance(0.9) else s.choice(TWO_WORD_CITIES)


def fact(s: Source) -> str:
    """Something to remember."""

    def some() -> str:
        return word(s) if not s.unseen_values or s.chance(0.6) else s.choice(WORDS)

    shapes: list[Callable[[], str]] = [
        lambda: f"my {some()} {s.choice(VERBS)} {some()}",
        lambda: f"the {some()} {s.choice(VERBS)} {s.choice(['at', 'on', 'in', 'near'])} {place(s)}",
        lambda: f"{name(s)} {s.choice(VERBS)} {some()}",
        lambda: f"my {s.choice(['favorite', 'new', 'old', 'best'])} {some()} is {some()}",
        lambda: f"the {some()} {s.choice(['code', 'number', 'price'])} is {number(s)}",
        lambda: phrase(s, 2, 6),
    ]
    return s.choices(shapes, [25, 15, 15, 10, 7, 28])[0]()


def place(s: Source) -> str:
    return s.choice([word(s), str(s.randint(1, 12)), name(s)])


# ------------------------------------------------------------------------------------------------------------- numbers


def integer(s: Source) -> int:
    x = s.random()
    if s.unseen_values:
        return s.choice([-1, 1, 1, 1]) * s.randint(1000, 99_999) if x < 0.9 else s.randint(100_000, 9_999_999)
    if x < 0.25:
        return s.randint(0, 20)
    if x < 0.65:
        return s.randint(10, 999)
    if x < 0.9:
        return s.randint(1000, 99_999)
    return -s.randint(1, 500) if x < 0.97 else s.choice([1, -1]) * s.randint(1000, 9_999_999)


def number(s: Source) -> str:
    """A number without a sign, as text: an integer or a short decimal."""
    if s.chance(0.4 if s.unseen_values else 0.15):
        whole = s.randint(100, 999) if s.unseen_values else s.randint(0, 999)
        return f"{whole}.{s.choice(['', str(s.randint(0, 9))])}{s.randint(1, 9)}"
    return str(abs(integer(s)))


def expression(s: Source) -> str:
    """An arithmetic expression as people type it: two or three numbers, seldom a root, a power or a remainder."""
    if not s.unseen_values and s.chance(0.15):
        return f"{s.randint(1, 20)} {s.choice('+-*/')} {s.randint(1, 12)}"
    numbers = [number(s) for _ in range(s.choice([2, 2, 2, 2, 2, 3]))]
    gap = s.choice(["", " ", " "])
    signs = [gap + s.choice("+-*/") + gap for _ in numbers[1:]]
    if len(numbers) == 3:
        first = numbers[0] + signs[0] + numbers[1]
        return (f"({first})" if s.chance(0.3) else first) + signs[1] + numbers[2]
    if s.chance(0.04):
        a, b = numbers
        return s.choice([f"sqrt({a})", f"{a}**2", f"2**{s.randint(2, 20)}", f"{a} % {b}"])
    return signs[0].join(numbers)


def decimal(value: float) -> str:
    """A number as the command line's `calculate` prints it: ten significant digits."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.10g}"


def shortened(text: str) -> str:
    """A number as the answer says it: more than four decimals are cut off. Copying ten digits that repeat fails."""
    whole, point, decimals = text.partition(".")
    return f"about {whole}.{decimals[:4]}" if point and len(decimals) > 4 and "e" not in text else text


def evaluate(text: str) -> str:
    """The value of an expression made by this module; '0' where it has none (a division by zero)."""
    try:
        return decimal(eval(text, {"__builtins__": {}, "sqrt": lambda x: x**0.5}))  # our own text, never a user's
    except (ArithmeticError, ValueError):
        return "0"


# --------------------------------------------------------------------------------------------------- files and commands


def stem(s: Source) -> str:
    if s.chance(0.08):
        return s.choice("abcdefghijklmnopqrstuvwxyz") + s.choice(["", "", "1", "2"])
    base = letters(s) if s.chance(0.2) or s.unseen_values else word(s)
    if s.chance(0.2):
        base += s.choice("_-") + word(s)
    return base + (str(s.randint(0, 99)) if s.chance(0.12) else "")


def folder(s: Source) -> str:
    return made_up(s) if s.unseen_values or s.chance(0.35) else s.choice(FOLDERS)


def path(s: Source) -> str:
    if not s.unseen_values and s.chance(0.2):
        return s.choice(COMMON_FILES)
    file = stem(s) + "." + s.choice(EXTENSIONS)
    if s.chance(0.55):
        return file
    outer, inner = folder(s), folder(s)
    return s.choice([f"{outer}/{file}"] * 3 + [f"/{outer}/{file}", f"./{outer}/{file}", f"{outer}/{inner}/{file}"])


def pattern(s: Source) -> str:
    """A glob pattern."""
    end, at, part = s.choice(EXTENSIONS), folder(s), word(s)
    shapes = [f"*.{end}"] * 3 + [f"**/*.{end}", f"{at}/*.{end}", f"{at}/**/*.{end}", f"{at}/{part}*"]
    return s.choice([*shapes, f"{part}*.{end}", f"*{part}*", f"{part}_*.{end}"])


def search_text(s: Source) -> str:
    """What is looked for in files."""
    return made_up(s) if s.chance(0.3) else word(s) + s.choice(["", "", "", "_" + word(s)])


COMMANDS: list[Callable[[Source], str]] = [
    lambda s: "ls" + s.choice(["", " -l", " -la"]),
    lambda s: "ls -la " + folder(s),
    lambda s: "cat " + path(s),
    lambda s: "git status",
    lambda s: f"git log -n {s.randint(1, 30)}",
    lambda s: "echo " + phrase(s, 1, 3),
    lambda s: "rm " + path(s),
    lambda s: "mkdir " + folder(s),
    lambda s: "python " + path(s),
    lambda s: "pwd",
    lambda s: "whoami",
    lambda s: "df -h",
    lambda s: f"grep {word(s)} {path(s)}",
    lambda s: "wc -l " + path(s),
    lambda s: f"mv {path(s)} {path(s)}",
    lambda s: "date",
    lambda s: f"head -n {s.randint(1, 20)} {path(s)}",
]


def command(s: Source) -> str:
    return s.choice(COMMANDS)(s)


def time_stamp(s: Source) -> str:
    """A date and a time in the form of the command line's `current_time`."""
    day = f"{s.randint(2020, 2032)}-{s.randint(1, 12):02d}-{s.randint(1, 28):02d}"
    return f"{day} {s.randint(0, 23):02d}:{s.randint(0, 59):02d}:{s.randint(0, 59):02d}"


def clock(s: Source) -> str:
    """A time in one of the other forms that tools print."""
    stamp = time_stamp(s)
    return s.choice([stamp[11:16], stamp[:16], stamp.replace(" ", "T")])


def document(s: Source) -> str:
    """A file as people keep them: a heading with sentences, some code, settings, a list."""
    kind = s.choice(["markdown", "markdown", "code", "settings", "list"])
    if kind == "markdown":
        rows = ["# " + cap(phrase(s, 1, 3)), "", *(sentence(s) for _ in range(s.randint(1, 3)))]
        if s.chance(0.4):
            rows += ["", *("- " + phrase(s, 1, 4) for _ in range(s.randint(2, 4)))]
        return "\n".join(rows)
    if kind == "code":
        body = [f"def {word(s)}({word(s)}):", f"    return {word(s)} + {s.randint(1, 99)}"]
        return "\n".join(body if s.chance(0.5) else [f"import {word(s)}", "", *body])
    if kind == "settings":
        return "\n".join(f"{word(s)} = {s.choice([word(s), str(s.randint(0, 999))])}" for _ in range(s.randint(1, 5)))
    return "\n".join(s.choice(["- ", "* "]) + phrase(s, 1, 3) for _ in range(s.randint(1, 5)))
