"""Small talk, and questions for the tools' names: what is said, what is answered, and the thought between.

As in phrasings.py each has wordings for training and wordings that are held out.
"""

import re
from dataclasses import dataclass


def _grammar(text: str) -> str:
    """A grammar that is written over several lines, broken after a '|'."""
    return re.sub(r"\n\s*", "", text.strip())


@dataclass(frozen=True)
class SmallTalk:
    """One kind of small talk; the thought names the kind, so that the answer is chosen before its first word."""

    simple: str  # a third of all in training
    train: str
    held: str
    thought: str
    answer: str


SMALL_TALK = (
    SmallTalk(
        "[hello|hi|hey]",
        _grammar("""
        [hello|hi|hello there my friend|hi again|good to see you|nice to meet you|yo|hiya|morning|hey|hey there|
        hi there|good morning|good evening|hello there|good day|howdy|hello again|hello everyone|
        are you there|anyone there|welcome] [you|my friend|]
        """),
        "[hello assistant|good afternoon|greetings]",
        "The user says hello.",
        "Hello! How can I help you?",
    ),
    SmallTalk(
        "[thanks|thank you]",
        _grammar("""
        [thanks|thank you|thanks so much|that helped, thanks|thx|that is great, thank you|thank you kindly|
        much appreciated|thanks a lot|thanks for everything|thank you, that is all|very kind of you|cheers|
        great help, thanks|many thanks|great, thanks|thank you very much|perfect, thank you|ok thanks|
        cool, thanks] [for your help|for that|]
        """),
        "[thanks again|thank you so much|great job, thank you]",
        "The user says thanks.",
        "You are welcome!",
    ),
    SmallTalk(
        "[bye|goodbye]",
        _grammar("""
        [bye|goodbye|have a nice day|take care|I have to go|see you soon|so long|good bye|see you|see you later|
        good night|see you around|until next time|farewell|bye then|I am done for today|catch you later|bye bye|
        talk to you later|that is all for today]
        """),
        "[bye for now|see you tomorrow]",
        "The user says goodbye.",
        "Goodbye!",
    ),
    SmallTalk(
        "[who are you|what are you]",
        _grammar("""
        [who are you|what are you|who am I talking to|what should I call you|are you an assistant|are you a program|
        who made you|introduce yourself|what is your name|what's your name|tell me about yourself|are you a [robot|
        human|model|person]|which model are you|what kind of program are you|are you real|do you know who you are|
        what are you called]
        """),
        "[and who are you|so what are you|do you have a name]",
        "The user asks who I am.",
        "I am a small demo model that can call tools.",
    ),
    SmallTalk(
        "how are you",
        _grammar("""
        [how are you|how are you doing|how do you feel|is everything ok|how is your day|how have you been|
        are you well|are you ok|how do you do|how is it going|what's up|are you fine|how goes it|are you happy|
        how are things] [today|]
        """),
        "[how are you now|and how are you|are you doing ok]",
        "The user asks how I am.",
        "I am fine, thank you!",
    ),
    SmallTalk(
        "[ok|okay|good|nice]",
        _grammar("""
        [ok|cool|nice|that is good|sounds good|okay|that works|understood|got it|awesome|good|I see|great|very good|
        all right|fine|well done|perfect|wow|that is right|sure|yes|sounds right|very well|excellent|no problem|
        good to know|ah, I see]
        """),
        "[ok good|ok, cool|nice one]",
        "The user agrees.",
        "Is there anything else?",
    ),
)

TOOL_NAMES_TRAIN = _grammar("""
    [what can you do for me|what do you do|which functions do you have|what tools do you know|
    tell me about your tools|name your tools|what are your abilities|what can you help with|how do you work|
    do you have tools|do you have any tools|what can you do|which tools do you have|help|
    what tools [are available|do you have|can you use]|how can you help me|list your tools|show me your tools|
    what are you able to do|what can I ask you|what are your tools]
""")
TOOL_NAMES_HELD = "[what else can you do|which tools can you use|tell me what you can do|tell me your tools]"
