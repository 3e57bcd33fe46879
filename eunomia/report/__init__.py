"""Tables, pages and timelines drawn from records."""
