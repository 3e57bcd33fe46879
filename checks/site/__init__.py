"""The documentation as a site: pages laid out from the documents, reference pages from the code."""
