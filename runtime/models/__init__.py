"""Models as files: how they are named, found, downloaded and described."""
