"""Models as files: naming, finding, downloading and describing them."""
