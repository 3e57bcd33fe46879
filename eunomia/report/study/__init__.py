"""What a study found, as numbers, as Markdown and as one offline page."""
