"""One reader for each kind of log; each takes lines and fills a `Reading`."""
