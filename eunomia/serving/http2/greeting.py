"""What this side of a connection takes, and says at its beginning."""

from __future__ import annotations

from eunomia.serving.http2 import frames
from eunomia.serving.http2.blocks import MOST_LIST
from eunomia.serving.http2.call import WINDOW
from eunomia.serving.http2.frames import Setting

STREAMS = 128  # calls of a connection at a time
IN_ALL = 8 * 1024**2  # bytes of all calls that may be on their way
SETTINGS = {
    Setting.MAX_CONCURRENT_STREAMS: STREAMS,
    Setting.INITIAL_WINDOW_SIZE: WINDOW,
    Setting.MAX_FRAME_SIZE: frames.LARGEST,
    Setting.MAX_HEADER_LIST_SIZE: MOST_LIST,
}
GREETING = frames.settings(SETTINGS) + frames.more(0, IN_ALL - frames.FIRST_WINDOW)
