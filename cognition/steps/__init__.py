"""The vocabulary of a step: inputs, decisions, phases, state and configuration, and their JSON."""
