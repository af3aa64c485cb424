"""What a request shows of a conversation: sizes, what is shortened or left out, and in which order it stands.

``window`` says which messages are shown, and how large they are; ``counting`` and ``results`` how large where tokens
are counted, and ``notes`` what stands in the place of what is left out. ``summaries`` says when and how older messages
are summarised. ``assembling`` chooses what stands in sections beside them: ``relevance`` compares ``words`` by their
``stems``, ``dealing`` divides the budget, ``escaping`` writes texts of strangers between tags. ``briefing`` puts the
sections into requests. What judges texts is imported when the first message brings candidates.
"""

from cognition.context.notes import CUT as CUT, CutNote as CutNote
from cognition.context.summaries import (
    COMPACT_EVERY as COMPACT_EVERY,
    cutting_point as cutting_point,
    is_due as is_due,
    summary_budget as summary_budget,
    summary_options as summary_options,
    summary_request as summary_request,
    with_summary as with_summary,
)
from cognition.context.window import (
    CHARS_PER_TOKEN as CHARS_PER_TOKEN,
    MESSAGE_TOKENS as MESSAGE_TOKENS,
    OLD_RESULT as OLD_RESULT,
    before_window as before_window,
    changed_size as changed_size,
    end_of_asking as end_of_asking,
    fit as fit,
    fixed_size as fixed_size,
    message_size as message_size,
    prompt_budget as prompt_budget,
    result_limit as result_limit,
    scale_measured as scale_measured,
    scale_overflowed as scale_overflowed,
    scale_trusted as scale_trusted,
    shorten as shorten,
    shortened as shortened,
    shown as shown,
)
from cognition.counts import IMAGE_TOKENS as IMAGE_TOKENS
