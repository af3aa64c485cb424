"""The agents ``Agent`` and ``AsyncAgent``, their options and the result of a run."""
