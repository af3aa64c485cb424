"""Build a request's view of a conversation: sizes, shortened and omitted messages, and their order.

- ``window`` selects the messages and computes their sizes; ``token_counts`` and ``tool_results`` use counted tokens.
- ``cut_note`` has the notes that replace omitted text.
- ``summaries`` plans when and how older messages are summarised.
- ``recalled_memory`` shows notes found in the memory.
- ``assembly`` fills the sections: ``relevance`` compares ``words`` by their stems (``_stemmer``), ``_budget_split``
  divides the budget, and ``_escaping`` makes foreign text safe between tags.
- ``sections`` puts the sections into requests.

The modules that rank texts are imported when the first message brings candidates.
"""

from cognition.context.cut_note import CUT as CUT, CutNote as CutNote
from cognition.context.summaries import (
    COMPACT_EVERY as COMPACT_EVERY,
    cutting_point as cutting_point,
    end_of_piece as end_of_piece,
    is_due as is_due,
    summarised_until as summarised_until,
    summary_budget as summary_budget,
    summary_instruction as summary_instruction,
    summary_options as summary_options,
    summary_request as summary_request,
    with_earlier_summary as with_earlier_summary,
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
    fit_or_smallest as fit_or_smallest,
    fixed_size as fixed_size,
    longest_prompt as longest_prompt,
    message_size as message_size,
    prompt_budget as prompt_budget,
    result_limit as result_limit,
    scale_after_measurement as scale_after_measurement,
    scale_after_overflow as scale_after_overflow,
    scale_after_refusal as scale_after_refusal,
    scale_without_measurement as scale_without_measurement,
    shorten as shorten,
    shorten_message as shorten_message,
    visible_messages as visible_messages,
)
from cognition.values.counts import IMAGE_TOKENS as IMAGE_TOKENS
