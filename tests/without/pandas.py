"""In the processes that tests start, pandas is not there, as where only the light core was installed.

pyarrow imports it at its first array, wherever it is installed: half a second of each command.
"""

raise ImportError("pandas is not there for processes that tests start (tests/children.py)")
