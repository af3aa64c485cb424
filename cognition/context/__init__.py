"""What a request shows of a conversation: sizes, what is shortened or left out, and in which order it stands.

``window`` says which messages are shown, and how large they are. ``assembling`` chooses what stands in sections beside
them: ``relevance`` compares ``words`` by their ``stems``, ``dealing`` divides the budget, ``escaping`` writes texts of
strangers between tags. ``briefing`` puts the sections into requests. What judges texts is imported when the first
message brings candidates.
"""

from cognition.context.window import (
    CHARS_PER_TOKEN as CHARS_PER_TOKEN,
    CUT as CUT,
    IMAGE_TOKENS as IMAGE_TOKENS,
    MESSAGE_TOKENS as MESSAGE_TOKENS,
    OLD_RESULT as OLD_RESULT,
    changed_size as changed_size,
    fit as fit,
    fixed_size as fixed_size,
    message_size as message_size,
    next_turn as next_turn,
    prompt_budget as prompt_budget,
    reading_again as reading_again,
    result_limit as result_limit,
    scale_measured as scale_measured,
    scale_overflowed as scale_overflowed,
    scale_trusted as scale_trusted,
    shorten as shorten,
    shortened as shortened,
    shown as shown,
)
