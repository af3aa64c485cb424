"""The protocol between models and their callers: handles, backends, sampling options and the end of a reply."""
