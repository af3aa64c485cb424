"""What the model is told of the calls of a cancelled turn."""

NOT_RUN = "The call was cancelled before it ran."
STOPPED = "The call was cancelled while it ran; it changes nothing."
MAY_HAVE_HAPPENED = (
    "The call was cancelled while it ran. It may have happened, in part or in whole: look before you call it again."
)
RAN = "The call ran to its end, and its result was lost by a cancellation. Look before you call it again."
FAILED = (
    "The call failed, and its error was lost by a cancellation. It may have happened in part: look before you call "
    "it again."
)
HAD_FAILED = (
    "The call had failed, and was cancelled before it was tried again. It may have happened in part: look before you "
    "call it again."
)
READING_HAD_FAILED = "The call had failed, and was cancelled before it was tried again; it changes nothing."
