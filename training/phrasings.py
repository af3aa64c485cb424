"""How people ask: one small grammar for each kind of request.

A line is a branch. Its first letter says what politeness may stand around it: `i` an imperative ("please ..."), `q` a
question, `s` a statement. `[a|b|]` is a choice, possibly empty; `{0}` and `{1}` are the values.

Each grammar has branches for training and branches that are *held out*: training never draws from `held`, and the
scores on "unseen phrasings" draw from nothing else. tests/training checks that training can say no held-out request.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Phrasings:
    train: tuple[tuple[str, str], ...]
    held: tuple[tuple[str, str], ...]


def _lines(text: str) -> tuple[tuple[str, str], ...]:
    rows = (row.strip() for row in text.strip().split("\n"))
    return tuple((row[0], row[2:].strip()) for row in rows)


def _phrasings(train: str, held: str) -> Phrasings:
    return Phrasings(_lines(train), _lines(held))


def _arithmetic(signs: str, words: str, verb: str, noun: str, extra: str) -> Phrasings:
    it = "{0} " + f"[{signs}|{words}|{signs}]" + " {1}"
    return _phrasings(
        f"""
        q [what is|what's|whats|how much is] {it}
        q [what is|what's] {noun}
        i {verb} [and tell me the result|]
        i {verb}
        i [calculate|compute|work out|tell me|find|give me|figure out] {it}
        i [calculate|compute|work out|tell me|find|give me] {noun}
        s {it} [=|is|equals|]
        q [can you tell me|do you know] [what|how much] {it} is
        q what does {it} [equal|give]
        q [can|could] you {verb}
        s I need to {verb}
        s {noun} [please|]
        i [{extra}]
        i [{extra}] [and tell me|and show me] [the result|what it makes|what you get]
        s [the|a] result: {it}
        i [let me know|say] [what|how much] {it} is
        q [what is|what's] the result [of|when you calculate] {it}
        q what number is {it}
        i use the tool to {verb}
        s [now|what about|how about] {it}
        q how [much|many] is {noun}
        """,
        f"""
        q what do you get [for|from] {it}
        s I [need|want] [to know|] {it}
        q what do you get if you {verb}
        q how much does {it} make
        """,
    )


ARITHMETIC = {
    "add": _arithmetic(
        "+",
        "[plus|and]",
        "add {0} [and|to|with|plus] {1}",
        "the sum of {0} and {1}",
        "increase {0} by {1}|raise {0} by {1}|put {1} on top of {0}|sum up {0} and {1}",
    ),
    "subtract": _arithmetic(
        "-",
        "minus",
        "subtract {1} from {0}",
        "the difference [of|between] {0} and {1}",
        "take {1} off {0}|lower {0} by {1}|reduce {0} by {1}|take {1} away from {0}",
    ),
    "multiply": _arithmetic(
        "[*|x|×]",
        "[times|multiplied by]",
        "multiply {0} [by|with|and] {1}",
        "the product of {0} and {1}",
        "scale {0} by {1}|take {0} {1} times",
    ),
    "divide": _arithmetic(
        "[/|:|÷]",
        "[divided by|over]",
        "divide {0} by {1}",
        "the [quotient|ratio] of {0} and {1}",
        "split {0} by {1}|cut {0} into {1} parts|split {0} into {1} parts|share {0} by {1}",
    ),
}

TOOLS = ARITHMETIC | {
    "calculate": _phrasings(
        """
        i [calculate|compute|evaluate|work out|solve|figure out] {0}
        i [calculate|compute|find|work out|get] the [value|result] of {0}
        i [tell me|give me|show me] [the result of|the value of|the answer to] {0}
        i tell me [what {0} is|how much {0} is]
        i [do the math|do the math for|do the calculation]: {0}
        i [use the calculator for|use the calculator to compute] {0}
        q [what is|what's|whats|how much is] {0}
        q [what is|what's] {0}
        q what does {0} [equal|give|make|come to]
        q what do you get for {0}
        q [do you know|can you tell me] [what {0} is|how much {0} is]
        s {0} [=|is|equals|]
        s I [need|want] [the result of|the value of|the answer to|to know] {0}
        s math [question|problem]: {0}
        q [can|could] you [work out|compute|calculate] {0} [for me|]
        q [what is|what's] [the result of|] {0} [exactly|please|]
        s [quick|] calculation: {0}
        s {0} please
        s [how about|what about] {0}
        i [run the numbers|do the sum] [for|:] {0}
        i [let me know|say] [what {0} is|the result of {0}]
        q [what number|how many] is {0}
        """,
        """
        q what is the [value|answer] of {0}
        q how much does {0} [make|give|come to]
        s I would like to know [how much {0} is|what {0} makes]
        s the [answer|result] [to|of|for] {0}
        i find out [how much {0} is|what {0} is]
        """,
    ),
    "current_time": _phrasings(
        """
        q [what|which] time is it [now|right now|]
        q what [is|are] the [current|] [time|date|hour|time and date]
        q [what's|whats] the [time|date]
        q do you [know|have] [the time|what time it is|the date]
        i [tell me|give me|show me|check|get|look up] the [current|] [time|date|date and time]
        i [look at|check] the clock
        i tell me [what time it is|how late it is|what day it is]
        q how late is it [now|]
        s [the|] [current|] time
        s I need [the time|to know the time|the current time|the date]
        q [what|which] day is it [today|now|]
        q is it [late|early] [already|now]
        q what time do we have
        q [can|could] you tell me the [time|date]
        s time [please|check|now]
        q what time is it [here|over there|exactly]
        i [read|print|display] the [clock|time|date]
        i let me know [the time|what time it is|the date]
        q [what|which] [year|month] is it
        s today's date
        q what's today's date
        s I want to [see the time|know what time it is]
        s I would like [the time|to know what time it is]
        i find out how late it is
        s the [date|hour] [please|now|]
        q [what|which] hour [do we have|of the day is it]
        """,
        """
        q have you got the time
        i [say|find out] what time it is
        q what does the clock say
        q [which hour|what date] is it [now|]
        s I want to know the [date|time|hour]
        """,
    ),
    "Read": _phrasings(
        """
        i [read|open|load|print|show|display|view|fetch] [the file|my file|file|] {0}
        i [show|give|print|get|read] me [the contents of|the content of|the text of|the text in] [the file|] {0}
        i [show|give|read] me what is in [the file|] {0}
        i [open|read|load] {0} and [tell|show] me what [it says|is in it|it contains]
        i [tell me|show me] what [{0} says|{0} contains|is in {0}|the file {0} says|is written in {0}]
        i [take|have] a look at [the file|] {0}
        i [look at|look into|check] [the file|] {0}
        i cat {0}
        q [what is|what's|whats] in [the file|my file|] {0}
        q what does [the file|my file|] {0} [say|contain|have in it]
        q what [is|are] the contents of [the file|] {0}
        q what is written in {0}
        s I [want|need|would like] to [see|read|view|know] [what is in|the contents of|the file] {0}
        s let me [see|read] [the file|] {0}
        i [read|open] [the file|] {0} and [tell me what it says|tell me what is in it]
        i [read|open] [the file|] {0} and [show it to me|summarize it|print it]
        i tell me about [the file|] {0}
        i [read out|read aloud|type out|output] {0}
        q [can|may] I see {0}
        q could you [open|read] {0} for me
        i give me {0}
        s [read|open|show]: {0}
        s what is in {0}
        i read [the|] {0} [file|]
        """,
        """
        i [take|have] a look inside {0}
        q [which|what] text [does {0} have|is in {0}]
        s the [contents|text] of {0}
        i find out what {0} says
        q {0}: what does it say
        i let me know what [is in {0}|{0} says]
        """,
    ),
    "Glob": _phrasings(
        """
        i [find|list|show|get|give me|show me] [all|all the|the|] files [matching|like|that match] {0}
        i [search for|look up|find] [all|the|] files with the pattern {0}
        i [find|list|show|show me|get|give me] [all|all the|the|my|] {0} files
        i glob [for|] {0}
        i [match|expand] the pattern {0}
        q [which|what] files match [the pattern|] {0}
        q are there [any|] files [matching|like] {0}
        q do [I|we] have [any|] {0} files
        q where are [the|my|all] {0} files
        s I [need|want] [all|the|] files matching {0}
        s [all|] files matching {0}
        i find [all|every|any|] {0} [file|files|]
        q which {0} files [exist|are here|can you see]
        i [search|scan] for [files like|files named|] {0}
        s {0} files [please|]
        q what {0} files do you see
        i get [a list of|the list of|the names of] [all|] {0} files
        i [collect|gather] [all|] files that match {0}
        q [can|could] you find {0} [files|]
        i [show|list|get] [everything|all] [like|that looks like|named] {0}
        s [all|each] [file|files] [like|that look like] {0}
        q how many {0} files [are there|do I have|can you find]
        q what [is there|do you find] [for|like] {0}
        i [see|check|find out] [which|what] files [match|fit] {0}
        i [list|show|show me|find|give me] [all|the|all the] files [in|inside|under|of] [the folder|folder|] {1}
        i [list|show me] [all|the] files in the directory {1}
        q [what|which] files are [there|] [in|inside|under] [the folder|the directory|] {1}
        q what is in the [folder|directory] {1}
        """,
        """
        q how many files match {0}
        i look for files [like|matching] {0}
        s every file that matches {0}
        q [what|which] {0} files [are there|do I have]
        i [find|show] everything matching {0}
        i [see|check] which files are in the folder {1}
        """,
    ),
    "Grep": _phrasings(
        """
        i [grep|search|look] for {0}
        i [search|grep] [the files|all files|the code|my files] for {0}
        i [find|look for|search for] [the word|the text|the string|] {0} in [the files|all files|the code|my files]
        i [find|show me|list] [all|the|] lines [with|containing] {0}
        q [which|what] [files|lines] [contain|mention|have] [the word|] {0}
        q where [is {0} used|does {0} appear|is the word {0}] [in the code|in my files]
        q who [uses|mentions] {0} in the [code|files]
        i [search|look] [everywhere|in all files|through the files] for {0}
        i [find|get|show me] [every|each] line [that has|that contains|with] {0}
        q is there [a line with|a mention of] {0} [in the code|in my files|anywhere]
        q does [any file|the code] [contain|mention] {0}
        i [grep|search|find|look for|search for|grep for] [the word|the text|] {0} in [the file|] {1}
        i [search|grep] {1} for [the word|] {0}
        i [find|show me|list] [all|the|] lines [with|containing] {0} in {1}
        q [which|what] lines [in|of] {1} [contain|mention|have] {0}
        q does {1} [contain|mention] [the word|] {0}
        q where [does {0} appear|is {0}] in {1}
        q is [the word|] {0} in [the file|] {1}
        i [look through|scan] {1} for {0}
        i [find|show] [the lines of|what is said about] {0} in {1}
        i check [if|whether] {1} [contains|mentions] {0}
        i [show|find] matches [for|of] {0} [in|inside] {1}
        i find out [where|in which file] {0} [is|stands]
        s I [need|want|would like] [to see|] [every line|the lines|lines] [with|containing|that contain] {0}
        q in [what|which] [file|line] [is|do I find] {0}
        q what [file|files] [has|have] {0} in [it|them]
        i look [inside|into] {1} for {0}
        s [all|the|] [lines|places] [with|that mention] {0}
        """,
        """
        q in which files does {0} appear
        i look in {1} for {0}
        q what lines of {1} [contain|mention] the [text|string] {0}
        i find where {0} [appears|is used]
        s I [need|want] all lines with {0}
        """,
    ),
    "Write": _phrasings(
        """
        i [write|save|put|store] {1} [to|in|into] [the file|a file|file|] {0}
        i [write|save|put|store] {1} [in|to] a file [called|named] {0}
        i [create|make|write] [a file|the file|a new file] {0} [with|containing|saying|that says] {1}
        i [create|make] {0} with [the text|the content|the words|] {1}
        i [create|make|write] a [file|new file] [called|named] {0} [with|containing|that says|with the text] {1}
        i [write|save|put] [the text|the words|] "{1}" [to|in|into] {0}
        i [fill|overwrite] {0} with {1}
        s [the file|] {0} should [say|contain|have] {1}
        s I [need|want] a file {0} [with|containing|that says] {1}
        s new file {0}: {1}
        """,
        """
        i [write|save|put] [to|in|into] {0} the [text|words] {1}
        i make {0} say {1}
        s {1} should go [into|in] {0}
        i in the file {0} write {1}
        s I want {1} [written|saved] in {0}
        """,
    ),
    "Bash": _phrasings(
        """
        i [run|execute|launch|exec] [the command|this command|command|] {0}
        i [run|execute] `{0}` [in the shell|in the terminal|in bash|]
        i [run|execute] {0} [in|on|with] [bash|the shell|the terminal|the console]
        i use [bash|the shell|the terminal] to [run|execute] {0}
        i in the [shell|terminal|console], [run|execute] {0}
        i [run|execute] [this|the following]: {0}
        q what is the output of {0}
        q what does [the command|] {0} [print|output|give|return]
        s [bash|shell|terminal|command]: {0}
        s $ {0}
        s I [want|need] [you to run|to run|to execute] {0}
        """,
        """
        i [type|enter] {0} in the terminal
        q what happens if you run {0}
        i do {0} in the [shell|terminal]
        s I want the output of {0}
        i run {0} and show me [the output|what it prints]
        """,
    ),
    "remember": _phrasings(
        """
        i remember [that|this:|] {0}
        i [save|store|make|take|add|write down|keep] [a note|a memo]: {0}
        i [save|store|make|take|add] a note [that|saying|saying that] {0}
        i [keep in mind|note|memorize|note down|write down|learn] that {0}
        i [save|store|memorize|note|write down] this: {0}
        s [don't forget|dont forget|do not forget|never forget] that {0}
        i [memorize|note|note down] {0}
        s [note to self|note|for later|reminder]: {0}
        s you should [know|remember] that {0}
        i [save|store|keep] the fact that {0}
        """,
        """
        i make sure you remember that {0}
        i [keep|write] a note that {0}
        s let it be noted that {0}
        i [save|store] for later that {0}
        s it is important to remember that {0}
        """,
    ),
    "recall": _phrasings(
        """
        q what did I [say|tell you|note|write|save] about [the|my|] {0}
        q do you [remember|recall|know] [anything|something|what I said] about [the|my|] {0}
        q what do you [know|remember] about [the|my|] {0}
        q what [was|is] my note [on|about] {0}
        q [what is|what's|do you remember] my {0}
        i [look up|search|find|check|show|read] my [notes|memos] [about|on|for] {0}
        i recall [what I said about|my notes on|my note about|] {0}
        i [search|check] your memory for {0}
        i remind me [about|of|what I said about] [the|my|] {0}
        i tell me what [I said|you know|you remember] about [the|my|] {0}
        s [any|my] notes [on|about] {0}
        """,
        """
        q have I [told you|said anything] about {0}
        q is there a note [about|on] {0}
        i find what I told you about {0}
        q did I [say|note|save] anything about {0}
        i look in your memory for {0}
        """,
    ),
    "get_weather": _phrasings(
        """
        q [what is|what's|whats] the weather [like|] in {0} [today|now|right now|]
        q how is the weather in {0} [today|now|]
        q is it [raining|cold|warm|hot|sunny|snowing|windy] in {0} [today|now|]
        q will it [rain|snow] in {0} [today|tomorrow|]
        q how [cold|warm|hot] is it in {0} [now|today|]
        q [what is|what's] the [temperature|forecast] [in|for] {0} [today|]
        q do I need [a coat|an umbrella|a jacket] in {0} [today|]
        i [check|get|tell me|show me|give me|look up] the [weather|forecast|temperature|weather report] [in|for] {0}
        s [weather|forecast] [in|for|] {0} [today|]
        s {0} [weather|forecast] [today|]
        s I [need|want] [to know|] the [weather|forecast] [for|in] {0}
        """,
        """
        q how does the weather look in {0} [today|]
        q what is it like outside in {0}
        q should I take [an umbrella|a coat] to {0}
        i tell me about the weather over in {0}
        q is {0} [cold|warm|sunny] [today|right now]
        """,
    ),
}

# Wishes that no tool fits. Values go by name here: {city} {name} {words} {language} {count} {word}.
NO_TOOL = _phrasings(
    """
    i [book|reserve|find] [a flight|a hotel|a train|a table|a room] [to|in] {city}
    i book a [taxi|car|flight|hotel] [for {name}|for tomorrow|to {city}|in {city}]
    i [book|get] {count} [tickets|seats] [to|for] {city}
    i [send|write] [an email|a message|a mail|a letter] to {name} [saying {words}|]
    i [translate|say] {words} [to|into|in] {language}
    q how do you say {words} in {language}
    i [play|start|put on] [some music|a song|the radio|some jazz|a movie]
    i [set|start] [a timer|an alarm] for {count} minutes
    i [call|text|phone] {name}
    i [order|buy] [a|some|me] {word} [online|]
    i turn [on|off] the [lights|lamp|heater|radio|tv]
    i [draw|paint|make] [a picture|an image|a photo] of [a|the] {word}
    i [search the web for|google|browse the web for] {words}
    i [schedule|plan] a meeting with {name} [tomorrow|on friday|]
    q what is the stock price of {name}
    q who [won|is winning] the [game|election|match|race]
    i tell me [a joke|a story|a riddle]
    i write [a poem|a song|an essay|a story] about [the|my|] {word}
    q why is the {word} {word}
    i explain [the|a|] {word} to me
    i [clean|wash|fix|paint] [my|the] {word}
    i [post|tweet|share] {words} [online|]
    q how old is {name}
    i [drive|take|fly] me to {city}
    q what is the capital of {city}
    q [who|what] is the [president|mayor|king] of {city}
    i remind me to {word} {count} minutes from now
    i [pay|cancel|check] my {word} [bill|subscription|order]
    i [find|get] me [a recipe|a job|a taxi|a doctor]
    i [check|read|open] my [email|inbox|calendar|messages]
    i add {words} to my [calendar|shopping list|cart]
    q how [far|long|tall|heavy] is [the|a] {word}
    q what does {word} mean
    q when [is|was] [the next|the last] {word}
    i [download|install|update] {word}
    i [print|scan|email] [the|my] {word}
    i [feed|walk] the {word}
    i [connect|pair] my [phone|printer|speaker] [to the {word}|]
    q should I [buy|sell|wear] [the|a] {word} [today|]
    i [sell|rent|return] my {word} [for me|]
    i [bake|cook|make] [a|some] {word} [for dinner|for {name}|]
    i [charge|unlock|restart] my [phone|laptop|car]
    i [invite|marry|hire|thank] {name} [for me|]
    i recommend [a book|a film|a restaurant|a hotel] [about {word}|in {city}|]
    i [sort|delete|upload] my [photos|pictures|videos]
    i [count|measure|weigh] the {word}
    i [guess|choose|pick] [a {word}|a card|a color] [for me|]
    i [dance|jump|laugh|smile] [with me|for me|]
    i [bring|give] me [a|some] {word}
    i [vote|pray|fight] for {name}
    i [fold|iron|dry] [my|the] {word}
    i [sign|fill in] the {word} [form|contract]
    q what should I [eat|drink|wear|watch] [tonight|today|]
    q where can I [buy|find|park] [a|the] {word} [in {city}|]
    q how do I get to {city}
    q how many people live in {city}
    q when was {name} born
    q who [invented|discovered|painted] the {word}
    q which [team|song|movie] is the best
    q do you [like|love|hate] {word}
    q is {name} [at home|ill|married|your friend]
    q how much does [a|the] {word} cost [in {city}|]
    q what is the best [way|train|bus] to {city}
    q what language do they speak in {city}
    q what color is the {word}
    q can you [drive|swim|cook|dance|see me|hear me]
    q why did {name} [leave|call|cry]
    s I [want|need] [a|some] new {word}
    s I am [hungry|tired|bored|sad|cold]
    s my {word} is [broken|lost|too small]
    """,
    """
    i [get|buy] me a ticket to {city}
    i let {name} know that {words}
    i [mow|water] [my|the] {word}
    q who is {name}
    i [sing|hum] a song for me
    q what is the [meaning|history] of {word}
    i open the {word} door
    q can a {word} {word}
    """,
)
