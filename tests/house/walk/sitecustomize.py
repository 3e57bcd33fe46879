# ruff: noqa: E501, E401, I001
"""Notes the first call of every function of eunomia in this process. WALK=start: from the start; WALK=signal: between
two SIGUSR2. Writes the list to $WALK_OUT/<pid>.json at the end, or at the second signal."""

import os
import sys

if os.environ.get("WALK"):
    import atexit
    import json
    import signal
    import threading

    ROOT = os.environ["WALK_ROOT"].rstrip("/") + "/eunomia/"
    seen, order = set(), []

    def note(frame, event, argument):
        if event != "call":
            return
        code = frame.f_code
        if code in seen:
            return
        seen.add(code)
        if code.co_filename.startswith(ROOT) and not code.co_name.startswith("<"):
            order.append([code.co_filename[len(ROOT) :], code.co_name, imports(frame)])

    def imports(frame):
        while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
            frame = frame.f_back
        return frame is not None

    def dump():
        sys.setprofile(None)
        path = os.path.join(os.environ["WALK_OUT"], f"{os.getpid()}.json")
        with open(path, "w") as out:
            json.dump({"command": sys.argv, "functions": order}, out)

    if os.environ["WALK"] == "start":
        threading.setprofile(note)
        sys.setprofile(note)
        atexit.register(dump)
    else:
        state = {"on": False}

        def toggle(number, frame):
            if state["on"]:
                dump()
                state["on"] = False
            else:
                seen.clear()
                order.clear()
                state["on"] = True
                threading.setprofile(note)
                sys.setprofile(note)
                # frames that are on the stack already report no calls of their own, which is right: they were entered before

        signal.signal(signal.SIGUSR2, toggle)
