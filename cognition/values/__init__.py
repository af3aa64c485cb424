"""The values that states, inputs and decisions consist of: messages, tools, outcomes, candidates, counts and routes."""
